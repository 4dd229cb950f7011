"""ATen calls as operators of the tables."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from device_tables import gemm_record, gemm_rows

from statsnet.devices.device_record import build_record
from statsnet.devices.operator_mapping import Mapped, mapped
from statsnet.devices.table_times import TableTimes, environment_of
from statsnet.environment import fingerprint
from statsnet.profiling.capture import OpCall, capture_step
from statsnet.workloads.fakes import fake_tensors


def calls(
    function: Any, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32, grad: bool = False
) -> list[OpCall]:
    """What a function calls, on fake tensors."""
    with fake_tensors():
        tensors = [torch.empty(shape, dtype=dtype, requires_grad=grad) for shape in shapes]
        return capture_step(lambda: function(*tensors), device="cpu")


def operators(found: list[OpCall]) -> list[Mapped]:
    return [m for call in found for m in mapped(call.op, call.args, call.outputs) or ()]


def dims(m: Mapped, *names: str) -> tuple[int, ...]:
    return tuple(dict(m.dims)[name] for name in names)


def test_products() -> None:
    linear = operators(calls(torch.nn.functional.linear, (512, 256), (1024, 256), (1024,)))
    (m,) = [m for m in linear if m.operator == "gemm"]
    assert (m.dims, m.variant) == ((("batch", 1), ("m", 512), ("n", 1024), ("k", 256)), "NT bias")
    (plain,) = operators(calls(torch.bmm, (4, 8, 16), (4, 16, 32), dtype=torch.bfloat16))
    assert (plain.dims, plain.variant, plain.dtype) == (
        (("batch", 4), ("m", 8), ("n", 32), ("k", 16)), "NN", "bfloat16",
    )  # fmt: skip


def test_convolutions() -> None:
    def both(x: torch.Tensor, w: torch.Tensor) -> Any:
        return torch.autograd.grad(torch.conv2d(x, w, stride=2, padding=1, groups=2).sum(), (x, w))

    found = [
        m for m in operators(calls(both, (8, 32, 28, 20), (64, 16, 3, 5), grad=True)) if m.operator == "convolution"
    ]
    assert [m.direction for m in found] == ["forward", "backward_data", "backward_weight"]
    assert len({m.dims for m in found}) == 1
    names = ("batch", "in_channels", "in_h", "in_w", "out_channels", "kernel_w", "stride_h", "pad_w", "groups")
    assert dims(found[0], *names) == (8, 32, 28, 20, 64, 5, 2, 1, 2)
    (flat,) = [
        m for m in operators(calls(torch.conv1d, (2, 8, 100), (16, 8, 7))) if m.operator == "convolution"
    ]  # fmt: skip
    assert dims(flat, "in_h", "in_w", "kernel_h", "kernel_w", "pad_h") == (1, 100, 1, 7, 0)


PLAIN = [0.0]
OVERLOADS = {
    "scaled_dot_product_attention": [None, *PLAIN],
    "_scaled_dot_product_flash_attention": PLAIN,
    "_scaled_dot_product_flash_attention_for_cpu": PLAIN,
    "_scaled_dot_product_efficient_attention": [None, False, *PLAIN],
    "_scaled_dot_product_cudnn_attention": [None, False, *PLAIN],
}
"""What stands between the three operands and the causal flag."""


@pytest.mark.parametrize("name", OVERLOADS)
@pytest.mark.parametrize(
    ("q_len", "causal", "operator"),
    [(64, True, "attention_prefill"), (64, False, "attention_encoder"), (1, False, "attention_decode")],
)
def test_attention(name: str, q_len: int, causal: bool, operator: str) -> None:
    q, k = ({"shape": [2, heads, n, 32], "dtype": "float16"} for heads, n in ((8, q_len), (4, 64)))
    (found,) = mapped(f"aten.{name}.default", [q, k, k, *OVERLOADS[name], causal], [q]) or ()
    assert found.operator == operator
    assert dims(found, "batch", "q_len", "kv_len", "heads", "kv_heads", "head_dim") == (2, q_len, 64, 8, 4, 32)
    assert found.variant == ("" if operator == "attention_encoder" else "kv float16")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pytorch_calls_attention_as_it_is_read(dtype: torch.dtype) -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    shape = (2, 8, 64, 32)
    found = [m for m in operators(calls(attend, shape, shape, shape, dtype=dtype)) if m.operator.startswith("att")]
    assert [m.operator for m in found] == ["attention_prefill"]


def test_rows_of_point_wise_operators() -> None:
    def step(x: torch.Tensor) -> Any:
        return torch.softmax(x + 1.0, -1) * x

    add, softmax, mul = operators(calls(step, (4, 16, 128)))
    assert [(m.operator, m.variant) for m in (add, softmax, mul)] == [("add", "scalar"), ("softmax", ""), ("mul", "")]
    assert softmax.dims == (("rows", 64), ("columns", 128))


def test_what_no_table_has() -> None:
    pooled = calls(lambda x: torch.nn.functional.max_pool2d(x, 2), (1, 4, 8, 8))
    assert operators(pooled) == []
    assert mapped("aten.mm.default", [3], []) is None
    assert (
        mapped("aten.mm.default", [{"shape": [0, 4], "dtype": "float32"}, {"shape": [4, 4], "dtype": "float32"}], [])
        is None
    )


def test_times_say_what_they_rest_on() -> None:
    times = TableTimes(gemm_record())

    def step(x: torch.Tensor, w: torch.Tensor) -> Any:
        return torch.nn.functional.max_pool1d(x @ w, 2)

    estimates = [times.estimate(c.op, c.phase, c.args, c.outputs) for c in calls(step, (256, 512), (512, 1024))]
    assert estimates[0].evidence == "model" and estimates[0].time_s > 5e-6
    assert {e.evidence for e in estimates[1:]} == {"roofline"}
    assert "gemm" in estimates[0].kernel_class and "nn" in estimates[0].kernel_class
    assert times.record.measured == 60


def test_devices_have_environments_of_their_own() -> None:
    one, other = (environment_of(build_record(gemm_rows(20, device=d), d)) for d in ("acme-one", "nvidia-h100-sxm"))
    assert fingerprint(one) != fingerprint(other)
    assert other["gpu"] == {"multiprocessors": 132}
