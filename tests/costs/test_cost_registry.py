"""The registry: how names are found, what third parties may do, what is refused."""

from __future__ import annotations

import pytest
import torch
from clusters import tensor

from statsnet.errors import UsageError
from statsnet.profiling.costs import Cost, cost_of, operator_cost, registered_operators, registry


@pytest.fixture
def own_registry(monkeypatch):
    """Formulas registered by a test are gone after it."""
    monkeypatch.setattr(registry, "_FORMULAS", dict(registry._FORMULAS))


@pytest.mark.usefixtures("own_registry")
def test_a_third_party_adds_an_operator():
    @operator_cost("mylib.scan")
    def scan(call):
        return call.cost(3 * call.tensor(0).numel * call.number(1))

    got = cost_of("mylib.scan.default", [tensor(4, 5), 2], [tensor(4, 5)])
    assert got == Cost(120.0, 80.0, 80.0)
    assert cost_of("other.scan.default", [tensor(4, 5), 2], [tensor(4, 5)]) is None


@pytest.mark.usefixtures("own_registry")
def test_the_more_precise_name_wins():
    operator_cost("mylib.op")(lambda call: call.cost(1))
    operator_cost("mylib.op.special")(lambda call: call.cost(2))
    assert cost_of("mylib.op.default", [], []).flops == 1
    assert cost_of("mylib.op.special", [], []).flops == 2


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize("name", ["add", "aten.add", "aten.convolution"])
def test_duplicates_are_refused(name):
    with pytest.raises(UsageError, match="has a cost formula already"):
        operator_cost(name)


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize("name", ["", "a.b.c.d", "my lib.op", "aten::add"])
def test_malformed_names_are_refused(name):
    with pytest.raises(UsageError, match="is not an operator's name"):
        operator_cost(name)


def test_in_place_and_list_variants_use_the_plain_formula():
    x = tensor(4, 5)
    plain = cost_of("aten.mul.Tensor", [x, x], [x])
    assert cost_of("aten.mul_.Tensor", [x, x], [x]) == plain
    pair = {"tensors": [{**x, "times": 2}]}
    twice = cost_of("aten._foreach_mul.List", [pair, pair], [x, x])
    assert twice == plain + plain
    assert cost_of("aten._foreach_mul_.List", [pair, pair], [None]) == twice


def test_repetitions_of_a_tensor_list_as_in_files():
    x, y = tensor(4, 5), tensor(3)
    group = {"tensors": [{"tensors": [x, y], "times": 3}]}
    got = cost_of("aten.cat.default", [group, 0], [tensor(69)])
    assert got.bytes_read == 3 * 4 * 23


def test_unknown_operators_have_no_cost_and_views_cost_nothing():
    assert cost_of("custom.opaque.default", [tensor(3)], [tensor(3)]) is None
    assert cost_of("aten.multilabel_margin_loss_forward.default", [tensor(3), tensor(3), 1], [tensor(3)]) is None
    assert cost_of("aten.view.default", [tensor(6), [2, 3]], [tensor(2, 3)]) == Cost(0.0, 0.0, 0.0)
    assert cost_of("profiler._record_function_exit._RecordFunction", [None], [None]) == Cost(0.0, 0.0, 0.0)


@pytest.mark.parametrize("args", [[], [None], [tensor(), tensor()], [[1, 2], "sum"], [tensor(3)], [True] * 12])
def test_calls_of_another_form_have_no_cost_but_no_error(args):
    for name in registered_operators():
        op = name if name.count(".") == 2 else f"{name}.default"
        for outputs in ([], [None], [tensor(2, 3)]):
            got = cost_of(op, args, outputs)
            assert got is None or min(got.flops, got.bytes_read, got.bytes_written) >= 0


def test_every_aten_name_exists():
    known = [n for n in registered_operators() if n.startswith("aten.")]
    assert [n for n in known if not hasattr(torch.ops.aten, n.split(".")[1])] == []
