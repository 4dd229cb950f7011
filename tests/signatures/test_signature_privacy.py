"""Nothing but known words leaves the machine."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from statsnet.environment import describe
from statsnet.environment.record import _public_name, public_torch_version, public_version
from statsnet.errors import StatsNetError
from statsnet.signatures.gpu import Counters, GpuActivity, GpuKernel, Power
from statsnet.signatures.model import Signature
from statsnet.signatures.operators import SAFE_STRINGS
from statsnet.signatures.privacy import assert_clean
from statsnet.signatures.public_names import safe_kernel, safe_op
from statsnet.signatures.storage import save_signature
from statsnet.signatures.vocabulary import OP_NAMESPACES
from statsnet.workloads.optimizers import SETTINGS

FIRST = ("counts", "clusters", 0)
MEASURED = ("measurements", 0)
PLACE = (*MEASURED, "environment")


def changed(data: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    data = copy.deepcopy(data)
    node: Any = data
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    return data


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ((*FIRST, "op"), "acme.ranker.default"),
        ((*FIRST, "op"), "custom.ranker.default"),
        ((*FIRST, "op"), "transformers.AcmeSecretRanker"),
        ((*FIRST, "op"), "transformers.AcmeSecret.default"),
        ((*FIRST, "op"), "aten.acme_secret.default"),
        ((*FIRST, "op"), "aten.mm.acme"),
        ((*FIRST, "op"), "aten.mm"),
        ((*FIRST, "op"), "aten.mm.out.secret"),
        ((*FIRST, "op"), "aten.mm.default\n"),
        ((*FIRST, "op"), "/home/user/model.py"),
        ((*FIRST, "phase"), "ranking"),
        ((*FIRST, "category"), "ranking"),
        ((*FIRST, "args", 0), "encoder.layer.0.weight"),
        ((*FIRST, "args", 0), ["mean", "secret"]),
        ((*FIRST, "args", 0, "dtype"), "secret"),
        ((*FIRST, "args", 0, "label"), 1),
        ((*FIRST, "outputs", 0, "dtype"), "secret"),
        ((*FIRST, "layer"), None),
        ((*MEASURED, "kernels", 0), "acme_ranker_kernel"),
        ((*MEASURED, "kernels", 0), "void ranker::forward<float>(float*)"),
        ((*MEASURED, "kernels", 0), "mkl:sgemm+acme_kernel"),
        ((*MEASURED, "kernels", 0), "xyz"),
        ((*MEASURED, "kernel_class", 0), "ranker|aten|float32|n"),
        ((*MEASURED, "kernel_class", 0), "gemm|model.layers.0|float32|n"),
        ((*MEASURED, "source"), "user"),
        ((*MEASURED, "hostname"), "host"),
        ((*PLACE, "user"), 1),
        ((*PLACE, "os"), "Linux host.acme.com"),
        ((*PLACE, "device_name"), "EPYC at /home/user"),
        ((*PLACE, "device_name"), "user@host"),
        ((*PLACE, "torch"), "built by user"),
        ((*PLACE, "torch"), "2.9.0+acme.7"),
        ((*PLACE, "python"), "3.12.3+acme.7"),
        ((*PLACE, "isa"), ["avx2", "secret"]),
        ((*PLACE, "allocator"), {"library": "/home/user/liballoc.so"}),
        ((*PLACE, "allocator"), {"HOME": "1"}),
        ((*PLACE, "allocator"), {"MALLOC_GPTFIVE_": "1"}),
        ((*PLACE, "settings"), {"USER": "x"}),
        ((*PLACE, "settings"), {"OMP_PLACES": "/home/user"}),
        ((*PLACE, "settings"), {"OMP_PLACES": "gpt5_cluster"}),
        ((*PLACE, "settings"), {"KMP_AFFINITY": "granularity=acme"}),
        (("optimizer",), "AcmeOptimizer"),
        (("dtype",), "secret"),
        (("workload", "name"), "Acme Ranker"),
        (("workload", "path"), None),
        (("comment",), "hello"),
    ],
)
def test_unknown_texts_are_refused(dense_signature: Signature, place: tuple[Any, ...], value: Any) -> None:
    data = dense_signature.to_dict()
    assert_clean(data)
    with pytest.raises(StatsNetError, match="must not be shared"):
        assert_clean(changed(data, place, value))


CPUS = (
    "AMD Ryzen 7 7840U w/ Radeon 780M Graphics",
    "AMD Ryzen AI 9 HX 370 w/ Radeon 890M",
    "Phytium,FT-2000+/64",
    "ZHAOXIN KaiXian KX-6640MA@2.2+GHz",
    "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz",
    "AMD Instinct MI250X/MI250",
    "x" * 300,
)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ((*FIRST, "op"), "torchvision.nms.default"),
        ((*FIRST, "op"), "fbgemm.split_embedding_codegen_lookup_rowwise_adagrad_function.default"),
        ((*FIRST, "op"), "bitsandbytes.int8_vectorwise_dequant.default"),
        ((*FIRST, "op"), "custom.opaque.default"),
        ((*FIRST, "op"), "aten._scaled_dot_product_flash_attention_for_cpu.default"),
        ((*FIRST, "args"), sorted(SAFE_STRINGS)),
        ((*FIRST, "args", 0, "dtype"), "bfloat16"),
        ((*MEASURED, "kernels", 0), "onednn:brgconv:avx512_core+onednn:jit:uni"),
        ((*MEASURED, "kernels", 0), "mkl:sgemm_as_gemv"),
        ((*MEASURED, "kernels", 0), "brg_conv_fwd:avx512_core"),
        ((*MEASURED, "kernels", 0), None),
        ((*MEASURED, "kernel_class", 0), "gemm|mkl:sgemm|bfloat16|nt"),
        ((*MEASURED, "kernel_class", 0), "relu|aten|float32|channels_last"),
        ((*MEASURED, "kernel_class", 0), "mm|onednn:brg_matmul:avx512_core_amx|int64|contiguous"),
        ((*PLACE, "device_name"), "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"),
        ((*PLACE, "device_name"), "NVIDIA A100-SXM4-80GB"),
        *(((*PLACE, "device_name"), _public_name(name)) for name in CPUS),
        *(((*PLACE, "cpu_model"), f"{_public_name(name)} family 25 model 116 stepping 1") for name in CPUS),
        ((*PLACE, "torch"), "2.9.0.dev20250801+rocm6.4"),
        ((*PLACE, "settings"), {"KMP_AFFINITY": "granularity=fine,compact,1,0"}),
        ((*PLACE, "settings"), {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}),
        ((*PLACE, "allocator"), {"library": "tcmalloc", "MALLOC_ARENA_MAX": "1"}),
        (("optimizer",), "sparse_adam"),
        (("workload",), None),
    ],
)
def test_known_texts_pass(dense_signature: Signature, place: tuple[Any, ...], value: Any) -> None:
    assert_clean(changed(dense_signature.to_dict(), place, value))


@pytest.mark.parametrize("name", ["custom", *SETTINGS])
def test_our_optimizers_pass(dense_signature: Signature, name: str) -> None:
    assert_clean(changed(dense_signature.to_dict(), ("optimizer",), name))


def test_the_environment_of_this_machine_passes(dense_signature: Signature) -> None:
    assert_clean(changed(dense_signature.to_dict(), PLACE, describe()))


def test_saving_checks(tmp_path: Path, dense_signature: Signature) -> None:
    leaking = dataclasses.replace(dense_signature.clusters[0], op="acme.ranker.default")
    with pytest.raises(StatsNetError, match="must not be shared") as caught:
        save_signature(
            tmp_path / "s.json",
            dataclasses.replace(dense_signature, clusters=(leaking, dense_signature.clusters[1])),
        )
    assert "counts.clusters[0].op" in caught.value.cause
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        "aten:vectorized_elementwise:bf16",
        "cublas:nvjet_gemm:bf16:tn",
        "cudnn:xmma_fprop_implicit_gemm:tf32",
        "triton:pointwise",
        "vllm:other",
        "onednn:brg_deconv:avx2+brgconv_strided:avx2",
        "opaque",
    ],
)
def test_public_kernels_keep_their_name(name: str) -> None:
    assert safe_kernel(name) == name


@pytest.mark.parametrize(
    "name",
    ["acme_ranker_kernel", "MyModel::forward", "foo", "", "gemm kernel", "gemm/x",
     "fused_moe_gpt5_fwd_kernel", "xai_kda_decode_kernel_v42", "sparse_causal_rotary_attention_kernel",
     "softmax_warp_forward", "mkl::anything_at_all", "mkl:anything", "onednn:secret:avx2", "mkl:sgemm123456",
     "acme:gemm", "cublas:acme_gemm", "cublas:gemm:acme", "cublas:gemm:f32:nn:x", "acm_gemm"],
)  # fmt: skip
def test_other_kernels_are_opaque(name: str) -> None:
    assert safe_kernel(name) == "opaque"


def test_a_kernel_class_names_an_operator_of_its_file(dense_signature: Signature) -> None:
    data = changed(dense_signature.to_dict(), (*MEASURED, "kernel_class", 0), "addcdiv|aten|float32|contiguous")
    with pytest.raises(StatsNetError, match="must not be shared"):
        assert_clean(data)
    assert_clean(changed(data, (*FIRST, "op"), "aten.addcdiv.default"))


def test_of_an_opaque_kernel_neither_grid_nor_block(dense_signature: Signature) -> None:
    kernel = GpuKernel(cluster=None, family="opaque", grid=None, block=None, launches=1.0, time_s=1.0)
    nothing = Counters(tool=None, clusters={}, missing={})
    gpu = GpuActivity(busy_time_s=1.0, streams=1, kernels=(kernel,), duration_log2_us=(), gap_log2_us=(),
                      power=Power(missing={}), counters=nothing)  # fmt: skip
    (measurement,) = dense_signature.measurements
    data = dataclasses.replace(dense_signature, measurements=(dataclasses.replace(measurement, gpu=gpu),)).to_dict()
    assert_clean(data)
    with pytest.raises(StatsNetError, match="must not be shared"):
        assert_clean(changed(data, (*MEASURED, "gpu", "kernels", 0, "grid"), [77, 1, 1]))


def test_operators_of_other_libraries_are_opaque() -> None:
    assert safe_op("aten.mm.default") == "aten.mm.default"
    assert safe_op("acme.ranker.default") == safe_op("not an op") == "custom.opaque.default"
    assert safe_op("transformers.AcmeSecretRanker") == "custom.opaque.default"
    assert safe_op("fbgemm.acme_lookup.default") == "custom.opaque.default"


@pytest.mark.parametrize(
    "name",
    ["fbgemm.ads_ranker_v9", "fbgemm.sparse_attention_ranking_v9",
     "fbgemm.split_embedding_codegen_lookup_acme_function", "torchvision.fused_attention", "xformers.linear",
     "aten.linear_v9317", "quantized.attention_20271"],
)  # fmt: skip
def test_a_name_of_public_words_may_be_somebodys_own(name: str) -> None:
    """In a library's namespace only its own operators keep their names; long numbers stand in none of torch's."""
    assert safe_op(f"{name}.default") == "custom.opaque.default"


@pytest.mark.parametrize(
    "name",
    ["torchvision.nms", "fbgemm.jagged_to_padded_dense", "fbgemm.dense_embedding_codegen_lookup_function",
     "fbgemm.split_embedding_nobag_codegen_forward_unweighted_cuda", "xformers.efficient_attention_forward_cutlass"],
)  # fmt: skip
def test_operators_that_libraries_own_keep_their_names(name: str) -> None:
    assert safe_op(f"{name}.default") == f"{name}.default"


def test_operators_of_torch_keep_their_names() -> None:
    import torch.distributed

    full = (name.partition("::") for name in torch._C._dispatch_get_all_op_names())
    ours = [f"{library}.{op if '.' in op else f'{op}.default'}" for library, _, op in full
            if library in OP_NAMESPACES and "test" not in op and "foobar" not in op]  # fmt: skip
    assert len(ours) > 3000
    assert {op for op in ours if safe_op(op) != op} == {
        "aten.from_file.default",
        "aten.from_file.out",
        "aten._print.default",
    }, "these reach beyond tensors"


@pytest.mark.parametrize(
    ("version", "kept"),
    [("2.9.0+cu128", "2.9.0+cu128"), ("2.13.0+cpu", "2.13.0+cpu"), ("2.9.0+acme.7", "2.9.0"), ("2.9.0", "2.9.0"),
     ("2.6.0a0+ecf3bae40a.nv25.1", "2.6.0a0"), ("2.10.0.dev20251001+xpu", "2.10.0.dev20251001+xpu"),
     ("2.9.0+cu128.acme", "2.9.0"), ("2.9.0acme1", None), ("acme", None)],
)  # fmt: skip
def test_a_version_of_torch_names_no_builder(version: str, kept: str | None) -> None:
    assert public_torch_version(version) == kept


@pytest.mark.parametrize(
    ("version", "kept"),
    [("3.12.3", "3.12.3"), ("3.14.0rc1", "3.14.0rc1"), ("3.12.3+acme.7", "3.12.3"), ("3.12acme", None), ("acme", None)],
)
def test_a_version_of_python_names_no_builder(version: str, kept: str | None) -> None:
    assert public_version(version) == kept
