"""Operators that other runtimes lack: there, too, they give what they give in torch."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import lacking_models
import numpy as np
import pytest
import torch
from runtime_outputs import arrays_of

from statsnet.measure import runtimes
from statsnet.measure.lacking_operators import distances, running_product
from statsnet.measure.runtimes import exported_workload, saved_onnx
from statsnet.workloads import build, make_step
from statsnet.workloads.grouped_products import GROUPED, let_graphs_hold_them

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # torch's exporter warns of torch's own code
    pytest.mark.usefixtures("one_reading_of_operators"),
]
CASES = [case for case in lacking_models.CASES if GROUPED is not None or case not in lacking_models.EXPERTS]
"""Not those for which this torch has no operator."""


@cache
def run_in(runtime: str, as_onnx: bool) -> dict[str, tuple[Any, Any]]:
    """What the cases give there and in torch, of one model: as many exports would take most of the time."""
    cases = [case for case in CASES if (runtime == "openvino" and case in lacking_models.ONLY_AS_ONNX) == as_onnx]
    built = build(f"{lacking_models.__file__}:make", mode="inference", overrides={"cases": cases})
    with pytest.MonkeyPatch.context() as patch:
        if runtime == "openvino" and not as_onnx:
            patch.delattr(runtimes, "saved_onnx")  # one case that it does not read would send all of them there
        found = map(np.array, arrays_of(exported_workload(runtime, built)()))
    return dict(zip(cases, zip(found, make_step(built)(0), strict=True), strict=True))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_it_gives_what_it_gives_in_torch(runtime: str, case: str) -> None:
    pytest.importorskip(runtime)
    found, expected = run_in(runtime, runtime == "openvino" and case in lacking_models.ONLY_AS_ONNX)[case]
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [1, 2, 7, 8])
def test_a_running_product_is_torch_s_at_any_length(length: int) -> None:
    x = torch.randn(2, length, dtype=torch.float64)
    torch.testing.assert_close(running_product(x, 1), x.cumprod(1))


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.float16])
@pytest.mark.parametrize("asked", [None, torch.float32])
def test_a_running_product_has_the_dtype_that_torch_gives_it(dtype: torch.dtype, asked: torch.dtype | None) -> None:
    x = torch.tensor([3, 1, 1, 2]).to(dtype)
    torch.testing.assert_close(running_product(x, 0, dtype=asked), x.cumprod(0, dtype=asked))


def test_vectors_of_no_width_are_nowhere_apart() -> None:
    a, b = torch.empty(2, 3, 0), torch.empty(2, 4, 0)
    torch.testing.assert_close(distances(a, b, float("inf")), torch.cdist(a, b, float("inf")))


@pytest.mark.skipif(GROUPED is None, reason="this torch has no such operator")
def test_experts_are_one_product_each(tmp_path: Path) -> None:
    """And rows behind the last group are 0, also as transformers has them."""
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    pytest.importorskip("transformers.integrations.moe")
    operators = [GROUPED, torch.ops.transformers.grouped_mm_fallback.default]

    class Model(torch.nn.Module):
        def forward(self, x: Any, weight: Any, ends: Any) -> Any:
            return [operator(n * x, weight, ends) for n, operator in enumerate(operators, 1)]

    let_graphs_hold_them()
    given = torch.randn(9, 8), torch.randn(3, 8, 4), torch.tensor([4, 4, 7], dtype=torch.int32)
    path = saved_onnx(torch.export.export(Model(), given, strict=False), tmp_path / "model.onnx")
    assert [node.op_type for node in onnx.load(path).graph.node].count("MatMul") == 2 * 3
    session = onnxruntime.InferenceSession(path)
    made = session.run(None, {i.name: x.numpy() for i, x in zip(session.get_inputs(), given, strict=True)})
    expected = torch.cat([given[0][:4] @ given[1][0], given[0][4:7] @ given[1][2], torch.zeros(2, 4)])
    for n, y in enumerate(made, 1):
        np.testing.assert_allclose(y, n * expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(GROUPED is None, reason="this torch has no such operator")
def test_experts_compile_in_float32() -> None:
    x, weight, ends = torch.randn(9, 8), torch.randn(3, 8, 4), torch.tensor([4, 4, 9], dtype=torch.int32)
    let_graphs_hold_them()
    with torch.no_grad():
        made = torch.compile(lambda x: GROUPED(x, weight, ends), backend="aot_eager", fullgraph=True)(x)
    torch.testing.assert_close(made, GROUPED(x, weight, ends))
