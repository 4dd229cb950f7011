"""Names of implementations and kernels."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

from statsnet.measure.device_kernels import Kernel
from statsnet.profiling.kernel_log import KernelLog, implementations
from statsnet.profiling.kernels import cpu_implementation, cuda_implementation
from statsnet.signatures.kernel_class import kernel_class

CONVOLUTION = (
    "onednn_verbose,v1,primitive,exec,cpu,convolution,brgconv:avx512_core,forward_training,"
    "src:f32:a:blocked:acdb::f0 wei:f32:a:blocked:Acdb64a::f0 bia:undef::undef::: dst:f32:a:blocked:acdb::f0,"
    "attr-scratchpad:user,alg:convolution_direct,mb2_ic64oc64_ih28oh28kh3sh1dh0ph1_iw28ow28kw3sw1dw0pw1,0.1"
)
REORDER = (
    "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:abcd::f0 "
    "dst:f32::blocked:acdb::f0,,,2x64x28x28,0.02"
)
CREATED = CONVOLUTION.replace(",exec,", ",create:cache_miss,")
SGEMM = "MKL_VERBOSE SGEMM(T,N,256,1568,64,0x7ffd1,0x7f2,64,0x7f3,64,0x7ffd2,0x7f4,256) 2.62ms CNR:OFF Dyn:1"
AS_GEMV = "MKL_VERBOSE SGEMM(T,N,256,1,64,0x7ffd1,0x7f2,64,0x7f3,64,0x7ffd2,0x7f4,256) 11.02us CNR:OFF Dyn:1"
HEADERS = "onednn_verbose,v1,info,oneDNN v3.12.0\nMKL_VERBOSE oneMKL 2024.0 Update 2"


@pytest.mark.parametrize(
    ("log", "names"),
    [
        (CONVOLUTION, ("onednn:brgconv:avx512_core",)),
        (f"{REORDER}\n{CONVOLUTION}", ("onednn:brgconv:avx512_core",)),
        (REORDER, ("onednn:jit:uni",)),
        (f"{SGEMM}\n{SGEMM}", ("mkl:sgemm",)),
        (AS_GEMV, ("mkl:sgemm_as_gemv",)),
        (f"{CONVOLUTION}\n{SGEMM}", ("onednn:brgconv:avx512_core", "mkl:sgemm")),
        ("MKL_VERBOSE FFT(srvr32x32,tLim:1,desc:0x7f) 15.2us CNR:OFF", ("mkl:fft",)),
        ("MKL_VERBOSE SSYEVD(V,L,24,0x7f,24,0x7f,0x7f,-1,0x7f,-1,0) 6.1us CNR:OFF", ("mkl:ssyevd",)),
        (CREATED, ()),
        (HEADERS, ()),
        (
            "onednn_verbose,v1,primitive,exec,cpu,deconvolution,conv:any+jit:avx2,forward_inference,x,,,x,1.0",
            ("onednn:conv:any:jit:avx2",),
        ),
        ("what a model printed, with, commas, in, its, own, line", ()),
    ],
)
def test_implementations_in_verbose_output(log: str, names: tuple[str, ...]) -> None:
    assert implementations(log) == names


def test_the_log_hands_back_what_others_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with KernelLog() as log:
        os.write(1, b"from the model\n")
        torch.mm(torch.ones(8, 8), torch.ones(8, 8))
        assert all(":" in name for name in log.take())
        os.write(1, b"no line end")
    assert capfd.readouterr().out == "from the model\nno line end"


@pytest.mark.parametrize("library", [torch.backends.mkldnn, torch.backends.mkl])
def test_a_library_without_a_verbose_mode_leaves_the_terminal_as_it_was(
    library: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Missing:
        def __init__(self, level: int) -> None:
            pass

        def __enter__(self) -> None:
            raise AssertionError("Failed to set it into verbose mode")

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(library, "is_available", lambda: True)
    monkeypatch.setattr(library, "verbose", Missing)
    with KernelLog() as log:
        os.write(1, b"from the model\n")
        log.take()
    os.write(1, b"afterwards\n")
    assert capfd.readouterr().out == "from the model\nafterwards\n"


def test_an_interrupted_start_leaves_the_terminal_as_it_was(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(level: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mkldnn, "verbose", interrupted)
    with pytest.raises(KeyboardInterrupt):
        KernelLog().__enter__()
    os.write(1, b"afterwards\n")
    assert capfd.readouterr().out == "afterwards\n"


def spec(*shape: int, strides: list[int] | None = None, dtype: str = "float32") -> dict:
    return {"shape": list(shape), "dtype": dtype} | ({"strides": strides} if strides else {})


@pytest.mark.parametrize(
    ("op", "args", "implementation", "expected"),
    [
        ("aten.mm.default", [spec(4, 8), spec(8, 2, strides=[1, 8])], "mkl:sgemm",
         "gemm|mkl:sgemm|float32|nt"),
        ("aten.addmm.default", [spec(2), spec(4, 8), spec(8, 2)], "aten", "gemm|aten|float32|nn"),
        ("aten.bmm.default", [spec(3, 4, 8, dtype="bfloat16"), spec(3, 8, 2, dtype="bfloat16")], "aten",
         "batched_gemm|aten|bfloat16|nn"),
        ("aten.convolution.default", [spec(2, 3, 8, 8, strides=[192, 1, 24, 3]), spec(4, 3, 3, 3)],
         "onednn:jit:avx2", "convolution|onednn:jit:avx2|float32|channels_last"),
        ("aten.relu_.default", [spec(4, 8)], "aten", "relu|aten|float32|contiguous"),
        ("aten.embedding.default", [spec(9, 4), spec(5, dtype="int64")], "aten",
         "embedding|aten|float32|contiguous"),
        *((f"aten._scaled_dot_product_{how}.default", [spec(1, 2, 4, 8)] * 3, "flash_attn:flash_fwd:bf16",
           "attention|flash_attn:flash_fwd:bf16|float32|contiguous")
          for how in ("flash_attention", "efficient_attention", "flash_attention_for_cpu")),
        ("aten.miopen_batch_norm.default", [spec(2, 3, 8, 8)], "aten", "native_batch_norm|aten|float32|contiguous"),
    ],
)  # fmt: skip
def test_kernel_class(op: str, args: list, implementation: str, expected: str) -> None:
    assert kernel_class(op, args, [], implementation) == expected


def test_implementations_of_one_call_are_joined() -> None:
    assert cpu_implementation(()) == "aten"
    assert cpu_implementation(("onednn:jit:avx2", "mkl:sgemm")) == "onednn:jit:avx2+mkl:sgemm"


def test_the_longest_kernel_names_an_operator_and_a_private_one_is_opaque() -> None:
    kernels = [
        Kernel("ampere_sgemm_128x64_nn", 0, 3000),
        Kernel("void at::native::reduce_kernel<512>(int)", 3000, 4000),
    ]
    assert cuda_implementation(kernels) == "cublas:gemm:f32:nn"
    assert cuda_implementation([]) == "none"
    assert cuda_implementation([Kernel("acme_secretsauce_forward", 0, 1000)]) == "opaque"


@pytest.mark.parametrize("routine", [
    "sorgqr", "cungqr", "dormqr", "sgetrf", "sgetrs", "sgesdd", "ssyevd", "cheevd", "sgeev", "sgelsy", "spotri",
    "strsm", "ssytrf", "zgemm3m", "fft", "sgemm_batch_strided",
])  # fmt: skip
def test_routines_of_blas_and_lapack_are_public(routine: str) -> None:
    assert cpu_implementation((f"mkl:{routine}",)) == f"mkl:{routine}"


def test_what_a_model_prints_like_a_library_is_opaque() -> None:
    printed = implementations("MKL_VERBOSE ACMEBANK(a,b)\nMKL_VERBOSE SGESDDACME(a)\nMKL_VERBOSE SGEMM(N,N,2,2,2)")
    assert cpu_implementation(printed) == "opaque+mkl:sgemm"
