"""Inputs of any form: what holds tensors is moved, cast, counted and told apart by them."""

from __future__ import annotations

import itertools
import logging
import subprocess
import sys
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.utils.rnn import PackedSequence  # noqa: E402

from statsnet.errors import WorkloadError  # noqa: E402
from statsnet.profiling.memory import memory_record  # noqa: E402
from statsnet.workloads import build, make_step  # noqa: E402
from statsnet.workloads.tree_copies import copied, map_tensors  # noqa: E402
from statsnet.workloads.trees import all_tensors, data_bytes, holds_iterator, shape_key  # noqa: E402

Point = namedtuple("Point", "x y")


@dataclass(frozen=True)
class Frozen:
    x: Any
    name: str = "a"


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x


class Graph:
    def __init__(self, x: Any) -> None:
        self.x, self.edges = x, torch.zeros(2, 5, dtype=torch.int64)


class Numbered(tuple[Any, ...]):
    """As e3nn's irreducible representations: its items are counted in a way of its own, or not at all."""

    def __len__(self) -> int:
        raise NotImplementedError


def _defaultdict(x: Any) -> Any:
    made = defaultdict(list)
    made["x"] = x
    return made


HOLDERS: list[Callable[[Any], Any]] = [
    lambda x: x, lambda x: [x, 3], lambda x: (x, None), lambda x: Point(x, 1), lambda x: {"a": {"b": [x]}},
    lambda x: OrderedDict(x=x), _defaultdict, lambda x: UserDict({"x": x}), Frozen, Slotted, Graph,
    lambda x: SimpleNamespace(inner=Frozen(x)), lambda x: PackedSequence(x, torch.ones(4, dtype=torch.int64)),
]  # fmt: skip


@pytest.mark.parametrize("hold", HOLDERS)
def test_tensors_are_found_and_mapped_inside(hold: Callable[[Any], Any]) -> None:
    x = torch.randn(4, 3)
    held = hold(x)
    mapped = map_tensors(held, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)
    assert type(mapped) is type(held)
    (floating,) = [t for t in all_tensors(mapped) if t.is_floating_point()]
    assert torch.equal(floating, x.double())
    assert x.dtype == torch.float32
    assert next(all_tensors(held)) is x  # the original is as it was


@pytest.mark.parametrize("hold", HOLDERS)
def test_shapes_tell_inputs_apart_and_identities_do_not(hold: Callable[[Any], Any]) -> None:
    assert shape_key(hold(torch.randn(4, 3))) == shape_key(hold(torch.randn(4, 3)))
    assert shape_key(hold(torch.randn(4, 3))) != shape_key(hold(torch.randn(4, 3, dtype=torch.float64)))


def test_containers_that_do_not_count_their_items_are_looked_into() -> None:
    numbered = Numbered((torch.ones(2), "a"))
    assert copied({"numbered": numbered})["numbered"] is numbered
    assert len(list(all_tensors([numbered]))) == 1


def test_arrays_are_inputs_too() -> None:
    arrays = [np.zeros((n, 3), dtype=np.float32) for n in (4, 4, 5)]
    first, same, longer = map(shape_key, arrays)
    assert first == same != longer
    assert data_bytes({"points": arrays, "x": torch.ones(2)}) == 13 * 3 * 4 + 8


def test_nested_batches_of_other_lengths_have_other_keys() -> None:
    def nested(*lengths: int) -> Any:
        return torch.nested.nested_tensor([torch.ones(n, 2) for n in lengths], layout=torch.jagged)

    assert shape_key(nested(3, 5)) == shape_key(nested(3, 5))
    assert shape_key(nested(3, 5)) != shape_key(nested(4, 4))


def test_what_holds_no_tensor_stays_and_what_is_shared_stays_shared() -> None:
    settings, x = SimpleNamespace(width=3), torch.ones(2)
    loop: list[Any] = [x, x, settings]
    loop.append(loop)
    mapped = map_tensors(loop, torch.Tensor.double)
    assert mapped[0] is mapped[1]
    assert mapped[2] is settings
    assert len(list(all_tensors(loop))) == 1
    assert map_tensors([settings, 1], torch.Tensor.double)[0] is settings


def test_a_file_or_a_number_without_an_end_is_no_iterator_that_is_used_up() -> None:
    log = logging.StreamHandler(sys.stderr)
    assert not holds_iterator([{"log": log}, SimpleNamespace(step=itertools.count())])
    assert holds_iterator([{"log": log}, map(abs, [1])])


MODELS = """
import torch
from dataclasses import dataclass
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

class Graph:
    def __init__(self, dtype=torch.float32, nodes=6):
        self.x, self.edges = torch.randn(nodes, 4, dtype=dtype), torch.zeros(2, 9, dtype=torch.int64)

class Passing(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, graph=None, scale=None):
        source, target = graph.edges
        return self.net(torch.zeros_like(graph.x).index_add(0, target, graph.x[source]))

def graphs(): return {"model": Passing(), "inputs": [((Graph(),), {}) for _ in range(8)]}
def bare_graphs(): return {"model": Passing(), "inputs": [Graph(nodes=n) for n in (6, 6, 7)]}
def double(): return Passing().double(), (Graph(torch.float64),)
def keyword_only(): return Passing(), None, {"graph": Graph()}
def keyword_entries(): return {"model": Passing(), "inputs": [(None, {"graph": Graph()})]}

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 3, batch_first=True)

    def forward(self, packed):
        return self.lstm(packed)[0].data

def packed(): return Tagger(), pack_padded_sequence(torch.randn(3, 5, 4), [5, 3, 2], batch_first=True)

def compiled(): return torch.compile(nn.Linear(2, 2), backend="eager"), torch.ones(1, 2)

def for_onednn():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()
    x = torch.ones(1, 3, 8, 8)
    return torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(model, x))), x

def for_onednn_inside():
    script, x = for_onednn()
    return nn.Sequential(nn.Sequential(script), nn.ReLU()), x

def compiled_inside():
    layer = nn.Linear(2, 2)
    layer.compile(backend="eager")
    return nn.Sequential(nn.Identity(), layer), torch.ones(1, 2)
"""


@pytest.fixture
def models(tmp_path: Path) -> str:
    path = tmp_path / "input_models.py"
    path.write_text(MODELS)
    return str(path)


@pytest.mark.parametrize(
    ("name", "input_bytes", "variants"),
    [
        ("graphs", 6 * 4 * 4 + 2 * 9 * 8, 1),
        ("bare_graphs", 6 * 4 * 4 + 2 * 9 * 8, 2),
        ("double", 6 * 4 * 8 + 2 * 9 * 8, 1),
        ("keyword_only", 6 * 4 * 4 + 2 * 9 * 8, 1),
        ("keyword_entries", 6 * 4 * 4 + 2 * 9 * 8, 1),
        ("packed", 10 * 4 * 4 + 5 * 8, 1),
    ],
)
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_batch_objects_are_run_and_measured(models: str, name: str, input_bytes: int, variants: int, mode: str) -> None:
    built = build(f"{models}:{name}", mode=mode)
    assert make_step(built)(0).isfinite().all()
    assert len(built.input_groups()) == variants
    assert memory_record(built.model, built.inputs[:1], None, device="cpu")["input_bytes"] == input_bytes


def test_a_dtype_reaches_the_tensors_inside(models: str) -> None:
    built = build(f"{models}:graphs", mode="inference", dtype="float64")
    assert make_step(built)(0).dtype == torch.float64
    assert make_step(build(f"{models}:packed", mode="inference", dtype="float64"))(0).dtype == torch.float64


@pytest.mark.parametrize("name", ["compiled", "compiled_inside"])
def test_a_model_that_is_compiled_already_is_refused_with_the_way_out(
    models: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WorkloadError, match="compiled already") as caught:
        build(f"{models}:{name}", mode="inference")
    assert "compile=inductor" in caught.value.hint
    assert "TORCHDYNAMO_DISABLE=1" in caught.value.hint
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    assert make_step(build(f"{models}:{name}", mode="inference"))(0).isfinite().all()


@pytest.mark.parametrize("name", ["for_onednn", "for_onednn_inside"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_script_that_runs_in_onednn_without_operators_is_refused(models: str, name: str) -> None:
    with pytest.raises(WorkloadError, match="optimized for inference"):
        build(f"{models}:{name}", mode="inference")


def test_the_compiler_is_not_imported_to_tell_that_a_model_is_not_compiled(models: str) -> None:
    code = (
        "import sys; from statsnet.workloads import build\n"
        f"build({models + ':graphs'!r}, mode='inference')\n"
        "sys.exit('torch._dynamo.eval_frame' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_modules_own_tensors_are_no_input() -> None:
    assert list(all_tensors([nn.Linear(2, 2)])) == []


def test_objects_that_are_linked_to_each_other_are_looked_into() -> None:
    found = torch.ones(1)
    linked: Any = found
    for _ in range(3000):
        linked = SimpleNamespace(next=linked)
    assert list(all_tensors(linked)) == [found]
