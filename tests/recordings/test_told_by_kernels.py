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
B, S, H, D = 2, 64, 8, 32
TOKENS = [B, S, H, D]


def imported(tmp_path: Path, kernel: str, dims: list[Any], values: list[str] | None, types: Any = None) -> Signature:
    name = "acme_secret::ranker"
    types = types or ["c10::BFloat16" if sizes else "Scalar" for sizes in dims]
    called = operator(name, 1010, 90, dims, types, values)
    events = [step(1, 1000, 500), called, *launch(1, 1020, kernel, 1030, 40)]
    signature = read_kineto(write(tmp_path / "t.json", events)).signature
    assert "secret" not in str(signature.to_dict())
    return signature


def only(signature: Signature) -> Cluster:
    (cluster,) = signature.clusters
    return cluster


@pytest.mark.parametrize(("causal", "pairs"), [("False", S * S), ("True", S * (S + 1) // 2)])
def test_flash_attention(tmp_path: Path, causal: str, pairs: int) -> None:
    values = ["", "", "", "0.", "0.125", causal, "True"]
    cluster = only(imported(tmp_path, FLASH, [TOKENS] * 3 + [[]] * 4, values))
    assert categorize(cluster.op, cluster.phase) == "attention"
    assert cluster.flops == 2 * B * H * pairs * 2 * D


def test_flash_attention_backward(tmp_path: Path) -> None:
    values = ["", "", "", "", "", "", "0.", "0.125", "False"]
    dims = [TOKENS] * 5 + [[B, H, S]] + [[]] * 3
    cluster = only(imported(tmp_path, FLASH_BACKWARD, dims, values))
    assert cluster.flops == 2 * B * H * S * S * 5 * D


def test_attention_over_packed_sequences_and_with_fewer_keys(tmp_path: Path) -> None:
    dims = [[128, H, D], [128, 2, D], [128, 2, D], [5], [5], []]
    types = ["c10::BFloat16"] * 3 + ["int", "int", "Scalar"]
    cluster = only(imported(tmp_path, FLASH, dims, ["", "", "", "", "", "False"], types))
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
    ],
)
def test_products(tmp_path: Path, dims: list[Any], sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    cluster = only(imported(tmp_path, PRODUCT, dims, None))
    assert (cluster.op, cluster.flops) == ("aten.mm.default", 2 * m * n * k)


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
