"""Replay: operators run again from the signature alone."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from profiling_helpers import captured, tiny_signature

from statsnet.blocks.operator import OperatorKind
from statsnet.measure.task import Context
from statsnet.profiling.capture import OpCall, capture_step
from statsnet.profiling.coarse_scalars import coarse_arguments
from statsnet.profiling.counting import phases_of
from statsnet.profiling.encode import encode_tensor
from statsnet.profiling.made_up import arguments
from statsnet.profiling.replay import replay_clusters
from statsnet.profiling.replay_task import ReplayOperators
from statsnet.signatures.canonical import canonical_json
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.indices import bound_of
from statsnet.signatures.model import Cluster
from statsnet.signatures.nested import nested_lengths
from statsnet.signatures.tensor_lists import compact_arguments, flatten_arguments
from statsnet.workloads import build, make_step
from statsnet.workloads.settings import parse_setting, record
from statsnet.workloads.torch_operators import overload

WORKLOADS = ("cv/alexnet", "nlp/bert_base", "recsys/dlrm", "recsys/din", "speech/deepspeech2")


LEARNT = torch.ones(1, 2, 4, 4, 4, requires_grad=True)


def bag_step(rows: int, mode: str = "sum") -> None:
    """Three bags of four rows each, forward and backward."""
    bags = torch.nn.EmbeddingBag(rows, 4, mode=mode)
    bags(torch.arange(12), torch.tensor([0, 4, 8])).sum().backward()


def cluster(call: OpCall) -> Cluster:
    return Cluster(
        op=call.op,
        phase=call.phase,
        category="other",
        calls=1.0,
        args=tuple(call.args),
        outputs=tuple(call.outputs),
    )


def only(function: object, name: str) -> Cluster:
    (call,) = [c for c in captured(function) if c.op.split(".")[1] == name]  # type: ignore[arg-type]
    return cluster(call)


def clusters_of(name: str, mode: str) -> list[Cluster]:
    """The distinct calls of a step of a workload's tiny preset."""
    step = make_step(build(name, mode=mode, preset="tiny"))
    step(0)
    calls = capture_step(lambda: step(1), device="cpu", phases=phases_of(step))
    return [*{repr((c.op, c.phase, c.args)): cluster(c) for c in calls if not is_metadata(c.op)}.values()]


@pytest.mark.parametrize("name", WORKLOADS)
def test_nearly_every_cluster_of_a_training_step_can_be_replayed(name: str) -> None:
    failures = []
    clusters = clusters_of(name, "training")
    for item in clusters:
        try:
            positional, keyword = arguments(item, "cpu")
            with torch.no_grad():
                overload(item.op)(*positional, **keyword)
        except Exception as error:
            failures.append(f"{item.op}: {error}")
    share = len(failures) / len(clusters)
    assert share <= 0.02, f"{share:.1%} of the clusters of {name} cannot be replayed: {failures}"


@pytest.mark.parametrize("name", ["cv/alexnet", "nlp/bert_base"])
def test_replayed_operators_give_the_recorded_shapes(name: str) -> None:
    for item in clusters_of(name, "inference"):
        positional, keyword = arguments(item, "cpu")
        with torch.no_grad():
            result = overload(item.op)(*positional, **keyword)
        if item.outputs[0] is None:
            continue
        first = result if isinstance(result, torch.Tensor) else result[0]
        assert list(first.shape) == item.outputs[0]["shape"], item.op


def test_strides_are_kept() -> None:
    item = only(lambda: torch.relu(torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last)), "relu")
    (x,), _ = arguments(item, "cpu")
    assert x.is_contiguous(memory_format=torch.channels_last)
    item = only(lambda: torch.relu(torch.ones(3, 1).expand(3, 5)), "relu")
    (x,), _ = arguments(item, "cpu")
    assert x.stride() == (1, 0)


def test_equal_tensors_of_a_list_are_all_made() -> None:
    item = only(lambda: torch.cat([torch.ones(2, 3)] * 4), "cat")
    as_read = tuple(flatten_arguments(compact_arguments(item.args)))
    (tensors, *_), _ = arguments(replace(item, args=as_read), "cpu")
    assert [t.shape for t in tensors] == [torch.Size([2, 3])] * 4
    assert len({t.data_ptr() for t in tensors}) == 4


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda: torch.multinomial(torch.ones(4, 49), 49), "multinomial"),
        (lambda: torch.bernoulli(torch.full((40,), 0.5)), "bernoulli"),
        (lambda: torch.poisson(torch.ones(40)), "poisson"),
    ],
)
def test_operators_that_draw_get_chances(function: object, name: str) -> None:
    item = only(function, name)
    positional, keyword = arguments(item, "cpu")
    overload(item.op)(*positional, **keyword)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_lowest_number_of_a_dtype_still_fits_with_the_digits_of_a_file(dtype: torch.dtype) -> None:
    values = torch.ones(8, 3, dtype=dtype)
    item = only(lambda: values.masked_fill(values > 0, torch.finfo(dtype).min), "masked_fill")
    as_read = replace(item, args=tuple(json.loads(canonical_json(item.args))))
    with pytest.raises(RuntimeError, match="overflow"):
        values.masked_fill(values > 0, as_read.args[2])
    positional, _ = arguments(as_read, "cpu")
    torch.masked_fill(*positional)
    config = OperatorKind().of_call(as_read, "float32")
    assert config is not None
    block: Any = OperatorKind().build(config)
    assert block(values).isinf().any()


@pytest.mark.parametrize(
    ("function", "name", "bound"),
    [
        (lambda: torch.nn.functional.embedding(torch.tensor([0, 3]), torch.ones(7, 2)), "embedding", 7),
        (lambda: torch.ones(5, 9).gather(1, torch.zeros(5, 2, dtype=torch.int64)), "gather", 9),
        (lambda: torch.ones(5, 9).index_select(0, torch.tensor([4])), "index_select", 5),
        (lambda: torch.ones(6, 9)[torch.tensor([5]), torch.tensor([8])], "index", 6),
        (lambda: torch.ones(9, 3)[torch.tensor([8])], "index", 9),
        (lambda: torch.ones(3, 9)[:, torch.tensor([8])], "index", 9),
        (lambda: torch.nn.functional.nll_loss(torch.ones(4, 3), torch.tensor([0, 1, 2, 0])),
         "nll_loss_forward", 3),
        (lambda: torch.ones(5, 9).take(torch.tensor([44])), "take", 45),
        (lambda: bag_step(rows=50), "_embedding_bag_backward", 50),
        (lambda: torch.nn.functional.max_pool3d(LEARNT, 2).sum().backward(), "max_pool3d_with_indices_backward", 64),
        (lambda: torch.nn.functional.adaptive_max_pool3d(LEARNT, 2).sum().backward(),
         "adaptive_max_pool3d_backward", 64),
    ],
)  # fmt: skip
def test_indices_stay_within_bounds(function: object, name: str, bound: int) -> None:
    item = only(function, name)
    assert bound_of(item.op, item.args) == bound
    for _ in range(20):
        positional, keyword = arguments(item, "cpu")
        overload(item.op)(*positional, **keyword)


def test_a_gradient_of_bags_reaches_all_rows() -> None:
    """Each index belongs to one of the bags, whose gradients are fewer than the table's rows."""
    positional, _ = arguments(only(lambda: bag_step(50, "max"), "_embedding_bag_backward"), "cpu")
    grad, indices, _offsets, bags = positional[:4]
    assert bags.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    assert len(grad) == 3
    assert len(indices.unique()) > 3


def test_sequences_are_packed_again_with_as_many_rows() -> None:
    rows, lengths = torch.zeros(4, 9, 2), torch.tensor([9, 6, 4, 3])
    packed = only(lambda: torch.ops.aten._pack_padded_sequence.default(rows, lengths, True), "_pack_padded_sequence")
    positional, _ = arguments(packed, "cpu")
    assert torch.ops.aten._pack_padded_sequence.default(*positional)[0].shape == (22, 2)


def test_complex_numbers_are_made_up() -> None:
    item = only(lambda: torch.ones(3, 4, dtype=torch.complex64) * 2, "mul")
    (x, *_), _ = arguments(item, "cpu")
    assert x.dtype == torch.complex64
    assert x.abs().max() > 0


def test_bags_start_at_zero_and_cover_the_indices() -> None:
    item = only(
        lambda: torch.nn.EmbeddingBag(20, 4)(torch.arange(12), torch.tensor([0, 5, 9])),
        "_embedding_bag",
    )
    positional, _ = arguments(item, "cpu")
    assert positional[2].tolist() == [0, 4, 8]


def test_groups_of_a_product_end_with_the_rows() -> None:
    left, right, ends = torch.ones(48, 16), torch.ones(3, 16, 8), torch.tensor([1, 2, 48], dtype=torch.int32)
    positional, _ = arguments(only(lambda: torch.ops.aten._grouped_mm(left, right, ends), "_grouped_mm"), "cpu")
    assert positional[2].tolist() == [16, 32, 48]


MASK = torch.arange(40) % 5 == 0


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda: torch.ones(40, 3)[MASK], "index"),
        (lambda: torch.zeros(40, 3).index_put_([MASK], torch.ones(8, 3)), "index_put_"),
        (lambda: torch.ones(40, 3).masked_select(MASK[:, None]), "masked_select"),
        (lambda: MASK.view(8, 5).t().nonzero(), "nonzero"),
        (lambda: torch.repeat_interleave(torch.tensor([5, 0, 3])), "repeat_interleave"),
        (lambda: torch.unique(torch.arange(40) % 8), "_unique2"),
    ],
)
def test_a_replayed_operator_finds_as_much(function: object, name: str) -> None:
    item = only(function, name)
    positional, keyword = arguments(item, "cpu")
    result = overload(item.op)(*positional, **keyword)
    first = result if isinstance(result, torch.Tensor) else result[0]
    assert list(first.shape) == item.outputs[0]["shape"]


def test_infinite_and_dtype_arguments_are_restored() -> None:
    item = only(lambda: torch.ones(3).masked_fill(torch.tensor([True, False, True]), -math.inf), "masked_fill")
    positional, _ = arguments(item, "cpu")
    assert positional[2] == -math.inf
    item = only(lambda: torch.ones(3).to(torch.bfloat16), "_to_copy")
    _, keyword = arguments(item, "cpu")
    assert keyword["dtype"] == torch.bfloat16


def test_clusters_are_timed_and_failures_reported() -> None:
    good = only(lambda: torch.mm(torch.ones(8, 8), torch.ones(8, 8)), "mm")
    unknown = Cluster(op="custom.opaque.default", phase="forward", category="other", calls=1.0, args=(), outputs=())
    seen: list[float] = []
    replay = replay_clusters((good, unknown, good), device="cpu", progress=seen.append)
    times, kernels, failures = replay.times, replay.kernels, replay.failures
    assert times[0] is not None
    assert times[0] > 0
    assert times[1] is None
    assert kernels[1] is None
    assert [op for op, _ in failures] == ["custom.opaque.default"]
    assert seen[-1] == 1.0


@pytest.mark.parametrize("rest", [(0.0, True), (None, True, 0.0, True)], ids=["flash", "efficient"])
def test_attention_of_another_device_runs_as_this_one_does(rest: tuple[object, ...]) -> None:
    how = "flash" if len(rest) == 2 else "efficient"
    heads = {"shape": [2, 4, 8, 16], "dtype": "float32"}
    attention = Cluster(op=f"aten._scaled_dot_product_{how}_attention.default", phase="forward", category="attention",
                        calls=1.0, args=(heads, heads, heads, *rest), outputs=(heads,))  # fmt: skip
    replay = replay_clusters((attention,), device="cpu", progress=lambda _: None)
    assert replay.failures == []
    assert (replay.times[0] or 0.0) > 0


def test_attention_of_another_device_may_share_heads() -> None:
    queries, keys = {"shape": [2, 4, 8, 16], "dtype": "float32"}, {"shape": [2, 2, 8, 16], "dtype": "float32"}
    attention = Cluster(op="aten._scaled_dot_product_flash_attention.default", phase="forward", category="attention",
                        calls=1.0, args=(queries, keys, keys, 0.0, True), outputs=(queries,))  # fmt: skip
    assert replay_clusters((attention,), device="cpu", progress=lambda _: None).failures == []


def test_a_replayed_measurement_fits_its_signature() -> None:
    signature = tiny_signature("cv/alexnet", "inference")
    setting = parse_setting("precision=medium")
    replayed = ReplayOperators(signature=signature).run(Context(setting=setting))
    measurement = replayed.measurement
    assert measurement.environment["settings"].items() >= record(setting).items(), "as a model's under it"
    assert measurement.source == "replay"
    assert len(measurement.cluster_time_s) == len(signature.clusters)
    assert replayed.failures == ()
    assert all(t is not None and t > 0 for t in measurement.cluster_time_s)


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch calls these tensors a beta and a prototype
@pytest.mark.parametrize("block", [(16, 16), (8, 8), (32, 32)])
def test_block_sparse_products_are_replayed(block: tuple[int, int]) -> None:
    dense = torch.zeros(64, 96)
    dense[:16, :32] = dense[32:48, 64:96] = 1.0
    matrix, vector = dense.to_sparse_bsr(block), torch.randn(96, 8)
    item = only(lambda: matrix @ vector, "mm")
    positional, _ = arguments(item, "cpu")
    assert positional[0].layout == torch.sparse_bsr
    assert encode_tensor(positional[0]) == item.args[0]
    assert overload(item.op)(*positional).shape == (64, 8)


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch calls these tensors a beta and a prototype
@pytest.mark.parametrize("lengths", [[10, 20, 30, 64], [5], [7, 7, 7], [100, 1, 1, 1], [128, 96, 64, 32] * 2])
def test_nested_tensors_are_replayed_with_their_size(lengths: list[int]) -> None:
    nested = torch.nested.nested_tensor([torch.randn(n, 8) for n in lengths])
    item = only(lambda: torch.relu(nested), "relu")
    (made,), _ = arguments(item, "cpu")
    encoded = encode_tensor(made)
    assert (encoded["shape"], encoded["elements"]) == (item.args[0]["shape"], item.args[0]["elements"])
    assert encoded["squares"] == pytest.approx(item.args[0]["squares"], rel=0.02)
    overload(item.op)(made)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12))
def test_lengths_add_up(lengths: list[int]) -> None:
    total, squares = sum(lengths), sum(n * n for n in lengths)
    made = nested_lengths(len(lengths), max(lengths), total, squares)
    assert (len(made), sum(made), max(made)) == (len(lengths), total, max(lengths))


@pytest.mark.parametrize("targets", [(3, 23), (49,)])
def test_a_loss_of_sequences_runs_with_lengths_that_are_told_roughly(targets: tuple[int, ...]) -> None:
    logits, labels = torch.randn(90, 3, 30).log_softmax(-1), torch.randint(1, 30, targets)
    exact = only(lambda: torch.ops.aten._ctc_loss.default(logits, labels, [83, 90, 61], [23, 7, 19]), "_ctc_loss")
    rough = replace(exact, args=tuple(coarse_arguments(exact.op, exact.args)))
    positional, keyword = arguments(rough, "cpu")
    assert overload(rough.op)(*positional, **keyword)[0].shape == (3,)


def test_packed_sequences_run_without_their_sizes() -> None:
    """On no device: the operator is one of GPUs."""

    def tensor(*shape: int) -> dict[str, Any]:
        return {"shape": list(shape), "dtype": "float32"}

    weights = [tensor(64, 16), tensor(64, 16), tensor(64), tensor(64)]
    state = [tensor(1, 4, 16)] * 2
    args = [tensor(11, 16), {"tensors": weights}, 4, None, *state, 2, 16, 0, 1, False, 0.0, True, False, [4, 3, 3, 1]]
    rough = coarse_arguments("aten._cudnn_rnn.default", [*args, None])
    cluster = Cluster(
        op="aten._cudnn_rnn.default", phase="forward", category="recurrent", calls=1.0, args=tuple(rough), outputs=()
    )
    positional, keyword = arguments(cluster, "meta")
    assert positional[-2] == [4, 4, 3]
    assert overload(cluster.op)(*positional, **keyword)[0].shape == (11, 16)
