"""Motifs: what a compiler would fuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from profiling_helpers import call, convnet
from torch import nn

from statsnet.profiling.capture import OpCall, capture_step
from statsnet.profiling.motifs import MAX_LENGTH, count_motifs, joined, mark_fused, motif_runs
from statsnet.signatures.categories import is_metadata


def all_calls(step: Callable[[], Any]) -> list[OpCall]:
    calls = capture_step(step, device="cpu")
    for c in calls:
        c.metadata = is_metadata(c.op)
    return calls


def runs_of(calls: list[OpCall]) -> list[list[str]]:
    return [[calls[i].op.split(".")[1] for i in run] for run in motif_runs(calls)]


def tensor(*shape: int) -> dict:
    return {"shape": list(shape), "dtype": "float32"}


def test_convolution_normalisation_and_activation_are_one_run() -> None:
    model, x = convnet().eval(), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        calls = all_calls(lambda: model(x))
    assert runs_of(calls)[0] == ["convolution", "native_batch_norm", "relu"]


def test_a_result_with_two_readers_ends_a_run() -> None:
    lin = nn.Linear(8, 8)

    def residual() -> None:
        hidden = lin(torch.ones(2, 8))
        hidden.relu() + hidden

    with torch.no_grad():
        calls = all_calls(residual)
    assert ["addmm"] in runs_of(calls)
    assert ["relu", "add"] in runs_of(calls)


def test_a_run_ends_where_the_number_of_elements_changes() -> None:
    first = call("aten.mm.default", outputs=[tensor(4, 4)])
    smaller = call("aten.mul.Tensor", outputs=[tensor(4, 1)], producers=(0,))
    assert runs_of([first, smaller]) == [["mm"], ["mul"]]


def test_what_runs_in_one_pass_with_the_operator_before_it() -> None:
    """A compiler leaves a convolution to a library: what follows it begins a pass, what comes next is part of it."""
    model, x = convnet().eval(), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        calls = all_calls(lambda: model(x))
    mark_fused(calls)
    run = [calls[i] for i in motif_runs(calls)[0]]
    assert [c.fused for c in run] == [False, False, True]
    assert [c.joined for c in run] == [False, True, True]


def test_what_other_runtimes_join() -> None:
    conv, linear = ("aten.convolution.default", "convolution"), ("aten.addmm.default", "gemm")
    norm, layer_norm = ("aten.native_batch_norm.default", "normalization"), ("aten.layer_norm.default", "normalization")
    relu, add = ("aten.relu_.default", "activation"), ("aten.add.Tensor", "elementwise")
    assert joined([conv, norm, add, relu]) == [False, True, True, True]
    assert joined([linear, layer_norm, relu]) == [False, False, False]
    assert joined([linear, add, layer_norm]) == [True, True, True]
    assert joined([add, layer_norm, relu]) == [True, True, False]
    assert joined([linear, relu]) == [True, True]
    assert joined([norm, relu]) == [False, False]


def test_no_pass_goes_on_into_another_segment() -> None:
    normed = call("aten.native_batch_norm.default", outputs=[tensor(4, 4)], segment="0.0")
    relu = call("aten.relu.default", outputs=[tensor(4, 4)], producers=(0,), segment="0.1")
    mark_fused([normed, relu])
    assert not relu.fused
    relu.segment = "0.0"
    mark_fused([normed, relu])
    assert relu.fused


def test_runs_partition_the_forward_calls_and_are_bounded() -> None:
    chain = [call("aten.exp.default", outputs=[tensor(4)], producers=(i - 1,) if i else ()) for i in range(15)]
    runs = motif_runs([*chain, call("aten.mm.default", phase="backward", outputs=[tensor(4, 4)])])
    assert sorted(i for run in runs for i in run) == list(range(15))
    assert max(map(len, runs)) == MAX_LENGTH


def test_equal_sequences_of_clusters_are_counted() -> None:
    assert count_motifs([(0, 1), (2, 3), (4,), (5,)], [7, 8, 7, 8, 7, None]) == Counter({(7, 8): 2, (7,): 1})
