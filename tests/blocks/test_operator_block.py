"""Operators by themselves: rebuilt from a captured call, resized, and run with the arguments that were asked for."""

from __future__ import annotations

import sys
import types
import unittest
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from statsnet.blocks.operator import Operator, OperatorKind, spread
from statsnet.blocks.operator_call import encoded_arguments, operands_of
from statsnet.blocks.operator_schema import runnable
from statsnet.profiling.capture import OpCall, capture_step
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.kernel_class import kernel_class
from statsnet.signatures.operators import TensorSpec, is_tensor, tensors_of
from tests.support.operator_calls import cluster_of

KIND = OperatorKind()
EVERY = 6
"""One of so many kinds of operators of torch's own list is tried in the test suite; change it to 1 to try all."""


def calls_in(function: Callable[[], Any]) -> list[OpCall]:
    return [c for c in capture_step(function, device="cpu") if not is_metadata(c.op)]


def run(config: dict[str, Any]) -> OpCall:
    """The one operator that a block runs."""
    block = KIND.build(config)
    assert isinstance(block, Operator)
    (x,) = block.samples(1)
    (call,) = calls_in(lambda: block(x))
    return call


def rebuilt(function: Callable[[], Any], own_dtype: str = "float32") -> tuple[OpCall, dict[str, Any]]:
    *_, call = calls_in(function)
    config = KIND.of_call(cluster_of(call), own_dtype)
    assert config is not None, call.op
    return call, config


def layouts(args: list[Any]) -> list[tuple[Any, ...]]:
    """Shapes, dtypes and layouts of an operator's tensors. The stride of an axis of one element means nothing."""
    return [(t.shape, t.dtype, t.layout) for t in tensors_of(args)]


def halves() -> Tensor:
    return torch.randn(8, 32).chunk(2, -1)[1]


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "a strided half": (lambda: torch.tanh(halves()), "torch.tanh"),
    "the largest along an axis": (lambda: torch.randn(8, 4, 5).max(2), "lambda x: torch.max(x, 2)[0]"),
    "a transposed activation": (
        lambda: F.gelu(torch.randn(8, 6, 4).transpose(1, 2), approximate="tanh"),
        'lambda x: F.gelu(x, approximate="tanh")',
    ),
    "products of transposed operands": (lambda: torch.bmm(torch.ones(8, 3, 4).mT, torch.ones(8, 5, 3).mT), "torch.bmm"),
    "pixel shuffle": (lambda: F.pixel_shuffle(torch.randn(8, 8, 3, 3), 2), "lambda x: torch.pixel_shuffle(x, 2)"),
    "a scalar operand": (lambda: torch.ones(8, 3) * 0.5, "lambda x: torch.mul(x, 0.5)"),
    "depthwise on a strided map": (
        lambda: F.conv2d(torch.randn(4, 16, 6, 6)[:, :8], torch.randn(8, 1, 3, 3), groups=8),
        "lambda x, a: torch.convolution(x, a, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 8)",
    ),
    "channels last": (
        lambda: F.avg_pool2d(torch.randn(8, 4, 6, 6).to(memory_format=torch.channels_last), 2),
        "lambda x: F.avg_pool2d(x, [2, 2], [], [0, 0])",
    ),
    "an expanded gradient": (
        lambda: torch.ops.aten.tanh_backward(torch.ones(1, 5).expand(8, 5), torch.randn(8, 5)),
        "torch.ops.aten.tanh_backward.default",
    ),
    "a list": (
        lambda: torch.cat([torch.ones(8, n) for n in (1, 2, 3)], 1),
        "lambda x, *others: torch.cat([x, *others], 1)",
    ),
    "an index": (lambda: torch.ones(16, 3)[torch.arange(8)], "lambda x, a: torch.ops.aten.index.Tensor(x, [a])"),
    "an index of flags": (
        lambda: (torch.ones(16, 3) > 0)[torch.arange(8)],
        "lambda x, a: torch.ops.aten.index.Tensor(x, [a])",
    ),
    "without tensors": (
        lambda: torch.zeros(64, 4),
        "lambda x: torch.zeros([64, 4], dtype=torch.float32, device=x.device)",
    ),
    "a cache that is empty at first": (
        lambda: torch.cat([torch.ones(0), torch.ones(8, 4, 3)], -2), "lambda x, a: torch.cat([a, x], -2)",
    ),
    "in place, always alike": (lambda: torch.ones(8, 3).copy_(torch.ones(3)), "lambda x, a: x.copy_(a)"),
    "in place, growing": (lambda: torch.ones(8, 3).mul_(2.0), "lambda x: torch.mul(x, 2.0)"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_asked_runs_and_is_written_in_one_line(name: str) -> None:
    function, source = CASES[name]
    asked, config = rebuilt(function)
    assert KIND.arguments(config)[0] == source
    ran = run(config)
    assert ran.op.replace("_.", ".") == asked.op.replace("_.", ".")
    assert layouts(ran.args) == layouts(asked.args)
    assert [a for a in ran.args if not is_tensor(a)] == [
        a for a in asked.args if not is_tensor(a)
    ] or "device" in source
    assert not source.endswith("_.default")


@pytest.mark.parametrize("name", CASES)
def test_layouts_stay_in_other_sizes(name: str) -> None:
    _, config = rebuilt(CASES[name][0])
    for divisor in (0.5, 2):
        other = KIND.scaled(config, divisor)
        assert other is not None
        ran = run(other)
        assert [t.layout for t in tensors_of(ran.args)] == [t.layout for t in tensors_of(encoded_arguments(config))]
        written = [TensorSpec.from_dict(o).numel for c in (config, other) for o in run(c).outputs[:1]]
        assert written[0] / written[1] == pytest.approx(divisor, rel=0.45) or name.startswith("an index")


def test_a_weight_is_narrowed_once_there_are_few_rows() -> None:
    _, config = rebuilt(lambda: torch.mm(torch.ones(4, 64), torch.ones(64, 512)))
    narrow = KIND.narrowed(config, 4)
    assert narrow is not None
    assert [t.shape for t in tensors_of(run(narrow).args)] == [(4, 64), (64, 128)]
    assert KIND.narrowed(rebuilt(lambda: torch.ones(8, 3) * 0.5)[1], 4) is None


def test_what_is_only_filled_has_other_lengths() -> None:
    for made in (lambda: torch.zeros(1, 100, 8), lambda: torch.ones(16, 3).new_zeros(1, 100, 8)):
        _, config = rebuilt(made)
        for factor in (0.55, 2):
            other = KIND.resized(config, factor)
            assert other is not None
            assert run(other).outputs[0]["shape"] == [1, round(100 * factor), 8]


def test_an_index_of_columns_keeps_its_length_with_other_numbers_of_rows() -> None:
    _, config = rebuilt(lambda: torch.randn(64, 100).index_select(1, torch.arange(20)))
    fewer = KIND.resized(config, 0.5)
    assert fewer is not None and [o[1] for o in fewer["operands"]] == [(32, 100), (20,)]


def test_a_short_operand_is_not_spread_over_one_of_another_layout() -> None:
    """With one row the second operand would be contiguous; and with one row of the first alone, the sum as large as
    before."""
    _, config = rebuilt(lambda: torch.randn(16, 512) + torch.randn(512, 16).t())
    smaller = KIND.scaled(config, 16)
    assert smaller is not None
    assert [o.layout for o in operands_of(smaller)] == ["contiguous", "transposed"]
    assert run(smaller).outputs[0]["shape"] == [2, 256]


WINDOWS: dict[str, Callable[[], Any]] = {
    "pooling": lambda: F.max_pool3d(torch.randn(2, 4, 8, 8, 8), 2),
    "patches": lambda: F.unfold(torch.randn(3, 4, 8, 8), 3),
    "a larger map": lambda: F.interpolate(torch.randn(8, 4, 4, 4), 8),
    "a map of its own size": lambda: F.adaptive_avg_pool3d(torch.randn(4, 4, 8, 8, 8), 4),
    "pieces": lambda: torch.ops.aten.unfold_copy(torch.randn(4, 64), 1, 4, 4),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_as_long_as_the_batch_do_not_change_with_it(name: str) -> None:
    _, config = rebuilt(WINDOWS[name])
    for divisor in (0.5, 2):
        other = KIND.scaled(config, divisor)
        assert other is not None
        (before, *rest), (after, *rest_after) = (run(c).outputs[0]["shape"] for c in (config, other))
        assert (before / after, rest_after) == (pytest.approx(divisor, rel=0.3), rest)


def test_a_recurrent_layer_only_has_other_numbers_of_steps() -> None:
    """oneDNN trusts that weights, states and what is kept for the backward pass fit; as many steps as samples change
    nothing else."""
    layer, x = torch.nn.LSTM(12, 16), torch.randn(4, 4, 12)
    calls = calls_in(lambda: layer(x)[0].sum().backward())
    forward, backward = (KIND.of_call(cluster_of(c), "float32") for c in calls if "mkldnn_rnn" in c.op)
    assert forward is not None and backward is not None
    for factor in (0.5, 2):
        other = KIND.scaled(forward, 1 / factor)
        assert other is not None
        first, *others = other["operands"]
        assert (first[1], others) == ((round(4 * factor), 4, 12), [*forward["operands"][1:]])
        run(other)
        assert KIND.scaled(backward, factor) is None
    assert KIND.narrowed(forward, 2) is KIND.narrowed(backward, 2) is None


@pytest.mark.parametrize(
    "op",
    [
        "aten.from_file.default", "aten.set_.source_Storage", "aten.multinomial.default",
        "aten._local_scalar_dense.default", "aten.view.default", "aten.resize_.default", "aten._fused_adam_.default",
        "aten._foreach_add_.List", "aten.__class__.default", "c10d.allreduce_.default", "custom.opaque.default",
        "aten.no_such.default", "aten.normal_.default", "aten.unique_dim.default", "aten._pin_memory.default",
    ],
)  # fmt: skip
def test_what_is_not_pure_computation_on_tensors_is_no_block(op: str) -> None:
    assert runnable(op) is None


@pytest.mark.parametrize("op", ["aten.bernoulli_.float", "aten._scaled_dot_product_flash_attention_for_cpu.default"])
def test_a_mask_of_dropout_and_attention_on_a_cpu_are_blocks(op: str) -> None:
    """They have random numbers, or may have, but no shape depends on them."""
    assert runnable(op) == op


MASK = torch.arange(40) % 5 == 0
"""Eight of its entries are true."""

FOUND: dict[str, Callable[[], Any]] = {
    "rows": lambda: torch.randn(40, 16)[MASK],
    "columns": lambda: torch.randn(3, 40)[:, MASK],
    "pairs of whole numbers": lambda: torch.arange(80).view(2, 40)[:, MASK],
    "by a mask of two axes": lambda: torch.randn(4, 10, 16)[MASK.view(4, 10)],
    "by a mask of rows and a column": lambda: torch.randn(40, 16)[MASK, torch.tensor([3])],
    "written rows": lambda: torch.zeros(40, 16).index_put_([MASK], torch.ones(8, 16)),
    "added rows": lambda: torch.zeros(40, 16).index_put_([MASK], torch.ones(8, 16), accumulate=True),
    "one row, wherever found": lambda: torch.zeros(40, 16).index_put_([MASK], torch.ones(16)),
    "selected": lambda: torch.randn(40).masked_select(MASK),
    "selected by a mask of rows": lambda: torch.randn(40, 16).masked_select(MASK[:, None]),
    "selected by a mask of all rows": lambda: torch.randn(3, 40).masked_select(MASK[None].expand(3, 40)),
    "places": lambda: MASK.view(4, 10).nonzero(),
    "places of numbers": lambda: (torch.randn(40) * MASK).nonzero(),
    "repeats": lambda: torch.repeat_interleave(torch.tensor([5, 0, 3, 20])),
    "repeats, as told": lambda: torch.repeat_interleave(torch.tensor([5, 0, 3, 20]), output_size=28),
    "repeats of a column": lambda: torch.repeat_interleave(torch.tensor([[1, 9], [2, 9]])[:, 0]),
    "distinct": lambda: torch.unique(torch.arange(40) % 8),
    "runs": lambda: torch.unique_consecutive(torch.arange(40) // 5),
    "counts": lambda: torch.bincount(torch.arange(40) % 8),
}
"""Operators that find as much as the values of a tensor tell them."""


@pytest.mark.parametrize("name", FOUND)
def test_as_much_is_found_as_in_the_model_and_the_same_share_in_other_sizes(name: str) -> None:
    asked, config = rebuilt(FOUND[name])
    ran = run(config)
    assert (ran.op, layouts(ran.args), ran.outputs) == (asked.op, layouts(asked.args), asked.outputs)
    larger = KIND.scaled(config, 0.5)
    assert larger is not None
    assert TensorSpec.from_dict(run(larger).outputs[0]).numel == 2 * TensorSpec.from_dict(asked.outputs[0]).numel


LONG_MASK = torch.arange(60_000) % 5 == 0

LARGE: dict[str, Callable[[], Any]] = {
    "rows": lambda: torch.randn(60_000, 2)[LONG_MASK],
    "columns": lambda: torch.randn(2, 60_000)[:, LONG_MASK],
    "columns by a number and a mask": lambda: torch.randn(2, 60_000)[torch.tensor([1]), LONG_MASK],
    "by a mask of two axes": lambda: torch.randn(2, 200, 300)[:, LONG_MASK.view(200, 300)],
}


@pytest.mark.parametrize("divisor", [0.25, 4.0, 16.0])
@pytest.mark.parametrize("name", LARGE)
def test_masks_too_large_to_be_tried_stay_as_long_as_what_they_choose_from(name: str, divisor: float) -> None:
    _, config = rebuilt(LARGE[name])
    other = KIND.scaled(config, divisor)
    assert other is not None
    run(other)


def test_a_loss_of_sequences_runs_at_its_lengths() -> None:
    scores, labels = torch.randn(9, 2, 5).log_softmax(-1), torch.ones(2, 3, dtype=torch.int64)
    asked, config = rebuilt(lambda: F.ctc_loss(scores, labels, (9, 7), (3, 2), reduction="none"))
    assert run(config).outputs == asked.outputs


def test_sequences_are_as_long_as_there_is_room() -> None:
    """With lengths near zero there would be nothing to do. What a loss keeps for its gradient fits no other size."""
    scores = torch.randn(9, 2, 5).log_softmax(-1).requires_grad_()
    labels, lengths = torch.ones(2, 3, dtype=torch.int64), (torch.tensor([9, 7]), torch.tensor([3, 2]))
    calls = calls_in(lambda: F.ctc_loss(scores, labels, *lengths).backward())
    config = KIND.of_call(cluster_of(next(c for c in calls if "_ctc_loss_backward" in c.op)), "float32")
    assert config is not None
    block: Any = KIND.build(config)
    assert [x.tolist() for x in block.operands if x.dtype == torch.int64 and x.dim() == 1] == [[9, 9], [3, 3]]
    assert KIND.scaled(config, 0.5) is KIND.scaled(config, 2) is None
    padded = torch.nn.utils.rnn.pack_padded_sequence
    _, config = rebuilt(lambda: padded(torch.randn(7, 3, 4), torch.tensor([7, 5, 2])))
    assert run(config).outputs[0]["shape"] == [21, 4]


def test_what_is_written_into_a_tensor_is_written_into_a_new_one() -> None:
    _, config = rebuilt(lambda: torch.cumsum(torch.ones(8, 3), 0, out=torch.ones(8, 3)))
    assert KIND.arguments(config)[0] == "lambda x: torch.cumsum(x, 0)"
    assert run(config).op == "aten.cumsum.default"
    _, config = rebuilt(lambda: torch.ones(8, 3).pow_(-0.5))  # it has another name in place
    assert run(config).op == "aten.pow.Tensor_Scalar"


def test_where_nothing_tells_how_much_a_mask_finds_there_is_no_block() -> None:
    rows, places = MASK.clone(), torch.zeros(8, 8, dtype=torch.int64)
    (*_, call) = calls_in(lambda: torch.randn(40, 16)[rows, places])
    assert KIND.of_call(cluster_of(call), "float32") is None


@pytest.mark.parametrize(
    "changes",
    [
        {"operator": ("from_file", "default")},
        {"operator": ("tanh", "default); import os; (")},
        {"spelling": "os"},
        {"operands": (("own); import os; (", (8,), ()),)},
        {"operands": (("own", ("8",), ()),)},
        {"operands": ()},
        {"arguments": (("operand", 3),)},
        {"arguments": (("operand", "x); import os"),)},
        {"arguments": (("word", "import os"),)},
        {"arguments": (("number", "import os"),)},
        {"arguments": ()},
        {"output": "[import os]"},
    ],
)
def test_what_is_no_operator_never_becomes_source(changes: dict[str, Any]) -> None:
    _, config = rebuilt(lambda: torch.tanh(torch.ones(8)))
    with pytest.raises(ValueError):  # noqa: PT011 - whoever reads a spec says what is wrong with the file
        KIND.arguments({**config, **changes})


def test_operands_keep_strides_and_foreign_dtypes_when_a_network_is_converted() -> None:
    _, config = rebuilt(lambda: torch.where(torch.ones(8, 4) > 0, halves()[:, :4], torch.ones(4, dtype=torch.float64)))
    block = KIND.build(config).to(torch.bfloat16)
    assert [x.dtype for x in block.operands] == [torch.bool, torch.bfloat16, torch.float64]
    assert block.operands[1].stride() == (32, 1)
    x, y = block.samples(2)
    assert spread(x).data_ptr() != spread(y).data_ptr()
    assert block(x).shape == (8, 4)


def cases_of_torch() -> Iterator[OpCall]:
    """Every operator that runs for the float32 samples of torch's own list of operators."""
    stand_in = types.ModuleType("expecttest")
    stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    sys.modules.setdefault("expecttest", stand_in)
    listed = pytest.importorskip("torch.testing._internal.common_methods_invocations").op_db
    seen = set()
    for op in listed[::EVERY]:
        if torch.float32 not in op.dtypes:
            continue
        # Not op.sample_inputs: that names the test that asks, by the whole stack, in which pytest is deep.
        samples = op.sample_inputs_func(op, "cpu", torch.float32, requires_grad=False)
        for _, sample in zip(range(2), samples, strict=False):
            try:
                calls = calls_in(lambda op=op, s=sample: op(s.input, *s.args, **s.kwargs))
            except Exception:  # a library that is not here
                continue
            for call in calls:
                if (key := (call.op, str(call.args))) not in seen:
                    seen.add(key)
                    yield call


@pytest.mark.filterwarnings("ignore")
def test_nearly_every_operator_of_torch_can_be_rebuilt(capsys: pytest.CaptureFixture[str]) -> None:
    """And what runs is what was asked for, in its own size and twice as large."""
    torch.manual_seed(0)
    refused: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    right = 0
    for call in cases_of_torch():
        config = KIND.of_call(cluster_of(call), "float32")
        if config is None:
            refused[call.op] += 1
            continue
        try:
            ran = run(config)
            larger = KIND.scaled(config, 0.5)
            same = ran.op.replace("_.", ".") == call.op.replace("_.", ".") and layouts(ran.args) == layouts(call.args)
            if larger is not None:
                run(larger)
        except Exception as error:  # counted
            wrong[f"{call.op}: {error}"[:100]] += 1
            continue
        if same:
            right += 1
        else:
            wrong[f"{call.op}: it runs as {ran.op} in other layouts"] += 1
    total = right + sum(refused.values()) + sum(wrong.values())
    with capsys.disabled():
        print(f"\n{right} of {total} calls are rebuilt; refused: {sorted(refused)}; failed: {sorted(wrong)}")
    assert right >= 0.85 * total
    assert sum(wrong.values()) <= 0.01 * total


def test_operands_are_what_the_configuration_says() -> None:
    _, config = rebuilt(lambda: torch.addmm(torch.ones(4), torch.ones(8, 3), torch.ones(3, 4)))
    assert [o.shape for o in operands_of(config)] == [(8, 3), (4,), (3, 4)]  # the batch's operand is the input
    assert KIND.arguments(config)[0] == "lambda x, a, b: torch.addmm(a, x, b)"


def test_the_gradient_of_bags_runs_with_values_that_fit_each_other() -> None:
    """The bags are fewer than the table's rows, and an index's bag is a row of the gradient."""
    table = torch.nn.EmbeddingBag(5000, 4, mode="max")
    rows = torch.randint(5000, (120,))

    def step() -> None:
        table(rows, torch.arange(0, 120, 40)).sum().backward()

    (call,) = [c for c in calls_in(step) if c.op == "aten._embedding_bag_backward.default"]
    config = KIND.of_call(cluster_of(call), "float32")
    assert config is not None
    block: Any = KIND.build(config)
    grad, indices, _offsets, bags = block.operands[:4]
    assert bags.shape == indices.shape
    assert int(bags.max()) < len(grad) == 3
    assert int(indices.max()) > 2
    assert block(grad).shape == (5000, 4)


def test_what_fsdp_writes_into_tensors_that_it_keeps_is_written_into_new_ones() -> None:
    import torch.distributed.fsdp  # which registers its operators

    ops, flat, parts = torch.ops.fsdp, [torch.ones(12), torch.ones(3)], [torch.ones(6, 4), torch.ones(6)]
    wholes = [torch.empty(2, 12), torch.empty(2, 3)]
    for step in (
        lambda: ops.all_gather_copy_in(flat, torch.empty(30), [12, 3], 15, 0),
        lambda: ops.split_with_sizes_copy(torch.ones(2, 15), [12, 3], 1, out=wholes),
        lambda: ops.chunk_cat(parts, 0, 2, out=torch.empty(2, 15)),
    ):
        call, config = rebuilt(step)
        own = run(config)
        kinds = {kernel_class(c.op, c.args, c.outputs, "aten") for c in (call, own)}
        assert len(kinds) == 1, kinds
        assert own.op.startswith("aten.")


def test_variances_are_positive_so_that_results_are_numbers() -> None:
    statistics = torch.zeros(16), torch.ones(16)
    _, config = rebuilt(lambda: F.batch_norm(torch.randn(64, 16, 6, 6), *statistics, torch.ones(16), torch.ones(16)))
    block: Any = KIND.build(config)
    assert bool(block(block.operands[0]).isfinite().all())


GROUPED: dict[str, tuple[tuple[int, ...], tuple[int, ...], int]] = {
    "rows": ((48, 16), (3, 16, 32), 48),
    "depth": ((32, 48), (48, 16), 48),
    "columns": ((3, 32, 16), (16, 48), 48),
}


@pytest.mark.parametrize("what", GROUPED)
def test_groups_of_a_product_share_all_rows(what: str) -> None:
    """Where groups end are values, not shapes: with ends near zero it would multiply next to nothing."""
    left, right, rows = GROUPED[what]
    ends = torch.tensor([5, 20, rows], dtype=torch.int32)
    call, config = rebuilt(lambda: torch.ops.aten._grouped_mm(torch.randn(left), torch.randn(right), ends))
    block = KIND.build(config)
    assert isinstance(block, Operator)
    ended = next(o for o in block.operands if o.dtype == torch.int32)
    assert ended.tolist() == [16, 32, 48]
    assert layouts(run(config).args) == layouts(call.args)
    assert KIND.resized(config, 1.1) is None, "rows come in sixteens"
    for factor in (1 / 3, 2, 4):
        other = KIND.resized(config, factor)
        assert other is not None
        again = KIND.build(other)
        assert isinstance(again, Operator)
        (x,) = again.samples(1)
        ended = next(o for o in again.operands if o.dtype == torch.int32)
        end = int(ended[-1])  # PyTorch leaves what lies past the last group as it was in memory
        product = again(x)
        assert {"rows": product[:end], "depth": product, "columns": product[..., :end]}[what].isfinite().all()
        assert (len(ended), end) == (3, max(16, 16 * round(rows * factor / 16)) // 3 * 3)
