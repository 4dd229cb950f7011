"""What a recording has torch run, to know the results of its operators: anybody may have written it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from recording_files import operator, write
from torch.utils._python_dispatch import TorchDispatchMode

from statsnet.errors import MeasurementError
from statsnet.profiling.kernel_families import kernel_family
from statsnet.recordings.arguments import LONGEST_VALUE, Arguments, of_execution_trace, parsed
from statsnet.recordings.described import Describer
from statsnet.recordings.kineto import read_kineto
from statsnet.recordings.reading import ReadRecording, read_recording


class Ran(TorchDispatchMode):
    """Notes the devices of all results."""

    def __init__(self) -> None:
        super().__init__()
        self.devices: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        made = result if isinstance(result, (list, tuple)) else [result]
        self.devices |= {each.device.type for each in made if isinstance(each, torch.Tensor)}
        return result


def test_no_file_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "made"
    values = [str(file), "True", "100"]
    events = [
        operator("aten::relu", 1000, 9, [[8, 8]], ["float"], [""]),
        operator("aten::from_file", 1010, 9, [[], [], []], ["", "Scalar", "Scalar"], values),
    ]
    assert read_kineto(write(tmp_path / "trace.json", events)).signature.clusters
    assert not file.exists()


@pytest.mark.parametrize(
    ("name", "value"), [("ones", "[4]"), ("arange", "4"), ("randperm", "4"), ("full", "[4]"), ("linspace", "0")]
)
def test_tensors_that_are_made_have_no_data(name: str, value: str) -> None:
    """Also where the recording leaves the device out."""
    values = [value, "4", "4"][: {"full": 2, "linspace": 3}.get(name, 1)]
    types = ["ScalarList" if value.startswith("[") else "Scalar", "Scalar", "Scalar"][: len(values)]
    with Ran() as ran:
        Describer().describe(f"aten::{name}", Arguments([[] for _ in values], types, None, values))
    assert ran.devices <= {"meta"}


@pytest.mark.parametrize(
    ("name", "values"), [("unbind_copy", ["", "0"]), ("unsafe_split", ["", "1", "0"]), ("lstm", ["", "1", "0"])]
)
def test_nothing_is_run_that_makes_a_tensor_for_each_place_of_an_axis(name: str, values: list[str]) -> None:
    types = ["float", *["Scalar"] * (len(values) - 1)]
    dims = [[2**40, 1], *[[] for _ in values[1:]]]
    assert not Describer().describe(f"aten::{name}", Arguments(dims, types, None, values)).complete


@pytest.mark.parametrize(("number", "is_one"), [(0, True), (3, True), (4, False), (255, False), (-1, False)])
def test_only_numbers_that_stand_for_a_memory_format_are_given_to_torch(number: int, is_one: bool) -> None:
    """It ends with the others."""
    values = ["", "", "", "", "False", number]
    arguments = Arguments([[2, 2, 2, 2, 2], *[[]] * 5], ["float", *[""] * 5], None, values)
    assert Describer().describe("aten::ones_like", arguments).complete == (is_one and number != 2)


def crashing(path: Path) -> ReadRecording:
    """torch 2.13 ends with a list of more sources than there are places to copy them to."""
    lists = [[[2]], [[2], [2]]]
    events = [
        operator("aten::relu", 1000, 9, [[8, 8]], ["float"], [""]),
        operator("aten::_foreach_copy", 1010, 9, lists, ["TensorList", "TensorList"], ["", ""]),
    ]
    return ReadRecording(trace=str(write(path / "trace.json", events)))


def test_what_ends_torch_is_left_out_with_the_reason(tmp_path: Path) -> None:
    found = read_recording(crashing(tmp_path))
    flops = {c.op: c.flops for c in found.signature.clusters}
    assert flops == {"aten.relu.default": 64, "aten._foreach_copy.default": None}
    assert "aten._foreach_copy.default returns" in found.notes[-1] and "SIGSEGV" in found.notes[-1]


def test_what_ends_torch_too_often_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statsnet.recordings.reading.MOST_LEFT_OUT", 0)
    with pytest.raises(MeasurementError, match="SIGSEGV"):
        read_recording(crashing(tmp_path))


def test_an_operator_that_does_not_end_is_left_out(tmp_path: Path) -> None:
    trace = write(tmp_path / "trace.json", [operator("aten::relu", 1000, 9, [[8, 8]], ["float"], [""])])
    found = read_recording(ReadRecording(trace=str(trace), run_limit_s=1e-6))
    assert [c.flops for c in found.signature.clusters] == [None]
    assert "took longer than" in found.notes[-1]


@pytest.mark.parametrize("text", ["'\\\x1b[31m'", "[" + "1," * LONGEST_VALUE + "]"], ids=["escape", "long"])
def test_what_python_would_warn_of_or_take_long_for_stays_text(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parsed(text) == text


def test_a_tensor_of_many_axes_is_not_multiplied_out() -> None:
    sizes = [2**62] * 100_000
    found = of_execution_trace([[1, 1, 0, 5, 4, "cpu"]], [sizes], ["Tensor(float)"], [[]])
    assert found.dims == [None]


@pytest.mark.parametrize(
    "name",
    ["_matmul_ogs_" + "a1x" * 1500 + "!", "nvjet_" + "S" * 200_000, "_Z" + "S" * 50_000 + "!"],
    ids=["types", "code", "mangled"],
)
def test_a_kernels_name_is_read_in_linear_time(name: str) -> None:
    assert kernel_family(name) in ("triton:matmul", "cublas:nvjet_gemm", "opaque")
