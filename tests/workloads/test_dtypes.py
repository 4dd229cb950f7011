"""A model is run in the dtypes that it was given in, unless another is asked for; then only its main one is cast."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from statsnet.errors import WorkloadError  # noqa: E402
from statsnet.workloads import build, make_step  # noqa: E402
from statsnet.workloads.dtypes import dtype_of  # noqa: E402

MODELS = """
import torch
from torch import nn

class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, dtype=torch.complex64))
        self.skip = nn.Linear(4, 4)

    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(x, n=6) @ self.weight, n=4) + self.skip(x)

def spectral():
    return Spectral(), torch.randn(3, 4)

class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(8, 2)
        self.expert = nn.Linear(8, 8).bfloat16()

    def forward(self, x):
        return self.expert(x) * self.router(x.float()).softmax(-1)[:, :1].to(x.dtype)

def experts():
    return Experts(), torch.randn(5, 8, dtype=torch.bfloat16)

def double():
    return nn.Linear(3, 2).double(), torch.ones(4, 3, dtype=torch.float64)

class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(16, 8).to(torch.float8_e4m3fn))
        self.scale = nn.Parameter(torch.ones(16, 1))

    def forward(self, x):
        return nn.functional.linear(x, self.weight.to(x.dtype) * self.scale.to(x.dtype))

def eight_bits():
    return Scaled(), torch.randn(5, 8)

def converting():
    model = nn.Sequential(nn.Linear(8, 8).double(), nn.Linear(8, 8))
    for layer, dtype in zip(model, (torch.float64, torch.float32)):
        layer.register_forward_pre_hook(lambda module, args, dtype=dtype: tuple(arg.to(dtype) for arg in args))
    return model, torch.randn(5, 8, dtype=torch.float64)

def no_parameters():
    return nn.ReLU(), torch.ones(4, 3, dtype=torch.float64)
"""


@pytest.fixture
def models(tmp_path: Path) -> str:
    path = tmp_path / "dtypes_of_models.py"
    path.write_text(MODELS)
    return str(path)


def dtypes(model: nn.Module) -> set[torch.dtype]:
    return {parameter.dtype for parameter in model.parameters()}


@pytest.mark.parametrize(
    ("name", "dtype", "held"),
    [
        ("spectral", "float32", {torch.complex64, torch.float32}),
        ("experts", "mixed", {torch.bfloat16, torch.float32}),
        ("double", "float64", {torch.float64}),
        ("no_parameters", "float64", set()),
    ],
)
@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_model_keeps_its_dtypes(
    models: str, name: str, dtype: str, held: set[object], mode: str, device: str
) -> None:
    built = build(f"{models}:{name}", mode=mode, device=device)
    assert (built.dtype, dtypes(built.model), built.cast) == (dtype, held, "")
    if held:
        make_step(built)(0)


def test_complex_tensors_take_the_complex_dtype_of_the_width_asked_for(models: str) -> None:
    built = build(f"{models}:spectral", mode="inference", dtype="float64")
    assert built.model.weight.dtype == torch.complex128
    assert built.model.weight.imag.abs().sum() > 0
    assert built.inputs[0][0][0].dtype == make_step(built)(0).dtype == torch.float64
    assert built.dtype == "float64"
    assert built.cast == "cast 3 tensors from float32 to float64 and 1 tensor from complex64 to complex128"


def test_only_the_main_dtype_is_cast_and_a_sentence_says_so(models: str) -> None:
    as_it_is = build(f"{models}:experts", mode="inference", dtype="bfloat16")
    assert dtypes(as_it_is.model) == {torch.bfloat16, torch.float32}
    assert as_it_is.cast == "nothing was cast, for the model's main dtype is bfloat16: 2 of float32 stay as they are"
    assert not as_it_is.is_cast
    wide = build(f"{models}:experts", mode="inference", dtype="float32")
    assert dtypes(wide.model) == {torch.float32}
    assert wide.is_cast
    assert wide.dtype == "float32"
    make_step(wide)(0)


def test_weights_of_eight_bits_have_no_complex_dtype(models: str) -> None:
    assert build(f"{models}:eight_bits", mode="inference").dtype == "mixed"
    built = build(f"{models}:eight_bits", mode="inference", dtype="bfloat16")
    assert built.cast == "cast 1 tensor from float8_e4m3fn to bfloat16; 2 of float32 stay as they are"
    make_step(built)(0)


def test_a_model_that_fails_with_another_dtype_is_told_to_leave_it_out(models: str) -> None:
    make_step(build(f"{models}:converting", mode="inference"))(0)
    built = build(f"{models}:converting", mode="inference", dtype="float16")
    with pytest.raises(WorkloadError, match=r"a step of .* failed") as failure:
        make_step(built)(0)
    assert failure.value.hint == (
        "leave out --dtype, without which the model may run: "
        "it cast 3 tensors from float64 to float16; 2 of float32 stay as they are"
    )


def test_integer_buffers_make_no_model_mixed() -> None:
    layer = nn.Linear(2, 2)
    assert dtype_of(nn.Sequential(layer, nn.Linear(2, 2).half())) == "mixed"
    assert dtype_of(nn.Sequential(layer, nn.BatchNorm1d(2))) == "float32"  # its counter of batches is no dtype
