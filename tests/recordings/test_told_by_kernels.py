"""Operators of other libraries: their kernels and tensors tell what they compute, never their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recording_files import launch, operator, step, write

from statsnet.recordings.kineto import read_kineto
from statsnet.signatures.categories import categorize
from statsnet.signatures.model import Cluster, Signature

FLASH = "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>, false>(Flash_fwd_params)"  # noqa: E501
FLASH_BACKWARD = "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, 64, 128, 8, cutlass::bfloat16_t>, false>(Flash_bwd_params)"  # noqa: E501
PRODUCT = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x224x64_MI16x16x1"
SPLIT = "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(float*)"
RELU = "void at::native::vectorized_elementwise_kernel<4, relu>(int)"
PRIVATE = "void acme::ranker<float>(float*)"
B, S, H, D = 2, 64, 8, 32
TOKENS = [B, S, H, D]


def imported(
    tmp_path: Path, kernels: str | list[str], dims: list[Any], values: list[Any] | None, types: Any = None
) -> Signature:
    """Of a step with one operator, which launches these kernels, the first one for the longest time."""
    name = "acme_secret::ranker"
    types = types or ["c10::BFloat16" if sizes else "Scalar" for sizes in dims]
    events = [step(1, 1000, 500), operator(name, 1010, 90, dims, types, values)]
    for i, kernel in enumerate([kernels] if isinstance(kernels, str) else kernels):
        events += launch(i + 1, 1020 + i, kernel, 1030 + 50 * i, 40 - i)
    signature = read_kineto(write(tmp_path / "t.json", events)).signature
    assert "secret" not in str(signature.to_dict())
    return signature


def only(signature: Signature) -> Cluster:
    (cluster,) = signature.clusters
    return cluster


BEFORE = ["", "", "", "0.", "0.125"]


def attention(tmp_path: Path, flags: list[Any], keys: int = S, kernels: Any = FLASH, more: Any = ()) -> Cluster:
    """A call of flash attention with these arguments after the scale, and more tensors at the end."""
    shorter = [B, keys, H, D]
    dims = [TOKENS, shorter, shorter, *[[]] * (2 + len(flags)), *(sizes for sizes, _ in more)]
    types = [*["c10::BFloat16"] * 3, *["Scalar"] * (2 + len(flags)), *(dtype for _, dtype in more)]
    return only(imported(tmp_path, kernels, dims, [*BEFORE, *flags, *[""] * len(more)], types))


@pytest.mark.parametrize(
    ("flags", "pairs"),
    [
        (["False", "-1", "-1", "0.", "True"], S * S),
        (["True", "-1", "-1", "0.", "False"], S * (S + 1) // 2),
        (["True", "-1", "0", "0.", "False"], S * (S + 1) // 2),
        (["True", "True", "-1", "-1"], S * (S + 1) // 2),
        ([True, -1, -1, 0.0, False], S * (S + 1) // 2),  # as an execution trace has values
        ([False, -1, -1, 0.0, True], S * S),
    ],
)
def test_flash_attention(tmp_path: Path, flags: list[Any], pairs: int) -> None:
    cluster = attention(tmp_path, flags)
    assert categorize(cluster.op, cluster.phase) == "attention"
    assert cluster.flops == 2 * B * H * pairs * 2 * D


@pytest.mark.parametrize(
    ("flags", "keys"),
    [
        (["False", "True", "-1", "-1"], S),  # of two flags, nobody knows which
        (["False", "128", "0", "0.", "False"], S),  # a window
        (["True", "16", "0", "0.", "False"], S),
        (["False", "-1", "0", "0.", "False"], S),
        (["False", "[16, 16]"], S),
        (["True", "-1", "-1", "64", "0.", "False"], S),  # in chunks
        (["1", "False", "-1", "-1"], S),  # a flag that does not follow the scale
        (["True", "-1", "-1", "0.", "False"], 2 * S),  # aligned to the first query or to the last
    ],
)
def test_attention_to_a_part_of_the_keys_has_no_flops(tmp_path: Path, flags: list[Any], keys: int) -> None:
    cluster = attention(tmp_path, flags, keys)
    assert categorize(cluster.op, cluster.phase) == "attention" and cluster.flops is None


def test_attention_to_more_keys(tmp_path: Path) -> None:
    assert attention(tmp_path, ["False", "-1", "-1"], 2 * S).flops == 2 * B * H * 2 * S * S * 2 * D


@pytest.mark.parametrize(
    ("kernels", "more"),
    [
        ([FLASH, FLASH], ()), ([FLASH, PRODUCT], ()), ([FLASH, PRIVATE], ()),
        ("void natten::reference_attention_kernel<float>(float*)", ()),
        (FLASH, [([B], "int")]),  # how much of a cache is used
        (FLASH, [([B, S], "c10::Float_of_the_future")]),
    ],
)  # fmt: skip
def test_attention_beside_other_work_has_no_flops(tmp_path: Path, kernels: Any, more: Any) -> None:
    cluster = attention(tmp_path, ["False", "-1", "-1"], kernels=kernels, more=more)
    assert categorize(cluster.op, cluster.phase) == "attention" and cluster.flops is None


def test_flash_attention_backward(tmp_path: Path) -> None:
    values = ["", "", "", "", "", "", "0.", "0.125", "False"]
    dims = [TOKENS] * 5 + [[B, H, S]] + [[]] * 3
    rest = ["void flash::flash_bwd_dot_do_o_kernel<true>(int)", "void flash::flash_bwd_convert_dq_kernel<true>(int)"]
    for kernels, flops in (
        (FLASH_BACKWARD, 2 * B * H * S * S * 5 * D),
        ([FLASH_BACKWARD, *rest], 2 * B * H * S * S * 5 * D),
        ([FLASH_BACKWARD, FLASH_BACKWARD], None),
        ([FLASH_BACKWARD, FLASH], None),
    ):
        assert only(imported(tmp_path, kernels, dims, values)).flops == flops


def test_attention_over_packed_sequences_and_with_fewer_keys(tmp_path: Path) -> None:
    dims = [[128, H, D], [128, 2, D], [128, 2, D], [5], [5], [], []]
    types = ["c10::BFloat16"] * 3 + ["int", "int", "Scalar", "Scalar"]
    cluster = only(imported(tmp_path, FLASH, dims, ["", "", "", "", "", "0.5", "False"], types))
    assert cluster.flops == 2 * H * (128 * 128 / 4) * 2 * D  # four sequences of 32 tokens


def test_attention_without_its_flags_or_lengths_has_no_flops(tmp_path: Path) -> None:
    """A key-value cache, or causal or not: twice the work. The kind is known all the same."""
    for dims in ([TOKENS] * 3, [[128, H, D]] * 3):
        cluster = only(imported(tmp_path, FLASH, dims, None))
        assert categorize(cluster.op, cluster.phase) == "attention" and cluster.flops is None


@pytest.mark.parametrize(
    ("dims", "sizes"),
    [
        ([[32, 128], [256, 128]], (32, 256, 128)),  # a layer's weights
        ([[32, 128], [128, 256], [256]], (32, 256, 128)),
        ([[4, 8, 128], [256, 128], []], (32, 256, 128)),
        ([[32, 256], [32, 128], [128, 256]], (32, 256, 128)),  # the result comes first
        ([[32, 128], [32, 128], [128, 128]], (32, 128, 128)),
        ([[4, 8, 128], [4, 8, 128], [128, 128], [128]], (32, 128, 128)),
        ([[32, 128], [128, 128], [32, 128]], (32, 128, 128)),  # the result comes last
    ],
)
def test_products(tmp_path: Path, dims: list[Any], sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    cluster = only(imported(tmp_path, [PRODUCT, SPLIT, RELU], dims, None))
    assert (cluster.op, cluster.flops) == ("aten.mm.default", 2 * m * n * k)


HALF, F8, I8 = "c10::BFloat16", "c10::Float8_e4m3fn", "signed char"


@pytest.mark.parametrize(
    ("dims", "types"),
    [
        ([[32, 128], [256, 128], [32, 1], [1, 256]], [F8, F8, "float", "float"]),
        ([[32, 256], [32, 128], [256, 128], [32, 1]], [HALF, I8, I8, "float"]),
    ],
)
def test_products_of_bytes(tmp_path: Path, dims: list[Any], types: list[str]) -> None:
    cluster = only(imported(tmp_path, PRODUCT, dims, None, types))
    assert (cluster.op, cluster.flops) == ("aten.mm.default", 2 * 32 * 256 * 128)


@pytest.mark.parametrize(
    ("kernels", "dims", "types"),
    [
        ([PRODUCT, PRODUCT], [[32, 128], [256, 128]], [HALF, HALF]),
        ([PRODUCT, PRIVATE], [[32, 128], [256, 128]], [HALF, HALF]),
        (PRODUCT, [[32, 128], [256, 128], [256, 128]], [HALF] * 3),  # two weights
        (PRODUCT, [[32, 128], [32, 128]], [HALF, HALF]),  # weights, or gradients
        (PRODUCT, [[32, 128], [16, 128]], [HALF, "int"]),  # packed weights
        (PRODUCT, [[32, 128], [32, 128], [16, 128]], [HALF, HALF, "int"]),
        (PRODUCT, [[32, 128], [128, 64]], [I8, I8]),
        (PRODUCT, [[32, 128], [128, 128], [128, 256]], [HALF, "c10::Float_of_the_future", HALF]),
        (PRODUCT, [[128, 128], [128, 1], [256, 128]], [F8, "float", F8]),  # a scale before the weights
    ],
)
def test_products_in_doubt_have_no_flops(tmp_path: Path, kernels: Any, dims: list[Any], types: list[str]) -> None:
    cluster = only(imported(tmp_path, kernels, dims, None, types))
    assert categorize(cluster.op, cluster.phase) == "gemm" and cluster.flops is None


@pytest.mark.parametrize(
    ("kernel", "dims", "category"),
    [
        ("void acme::ranker<float>(float*)", [TOKENS] * 3, "other"),  # nobody knows this kernel
        (FLASH, [TOKENS, [B, S, H, D + 1], TOKENS], "attention"),
        (FLASH, [TOKENS, [4096, 16, H, D], [4096, 16, H, D]], "attention"),  # a cache in pages
        (FLASH, [TOKENS], "other"),
        (PRODUCT, [[32, 128], [8, 256, 128]], "gemm"),  # experts
        (PRODUCT, [[32, 128], [7, 9]], "gemm"),
        (PRODUCT, [], "other"),
    ],
)
def test_work_that_is_not_told_has_no_flops(tmp_path: Path, kernel: str, dims: list[Any], category: str) -> None:
    cluster = only(imported(tmp_path, kernel, dims, None))
    assert (categorize(cluster.op, cluster.phase), cluster.flops) == (category, None)


@pytest.mark.parametrize(
    "inner",
    [
        [
            operator("aten::mm", 1040, 20, [[32, 128], [128, 256]], [HALF] * 2, ["", ""]),
            *launch(2, 1045, PRODUCT, 1080, 9),
        ],
        launch(2, 1045, PRODUCT, 0, 0),  # a kernel whose times were lost
    ],
)
def test_a_product_beside_another_inside_the_operator_has_no_flops(tmp_path: Path, inner: list[Any]) -> None:
    called = operator("acme::rank", 1010, 90, [[32, 128], [256, 128]], [HALF] * 2, ["", ""])
    events = [step(1, 1000, 500), called, *launch(1, 1020, PRODUCT, 1030, 40), *inner]
    clusters = read_kineto(write(tmp_path / "t.json", events)).signature.clusters
    assert [c.flops for c in clusters if c.op == "aten._grouped_mm.default" or not c.flops] == [None]
