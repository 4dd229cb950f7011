"""Every kind of block conforms on small configurations, and the conformance check finds what is wrong."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import pytest
import torch
from block_configs import ATTENTION, BAG, CONFIGS
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from statsnet.blocks import KINDS
from statsnet.blocks.attention import with_gradients_apart
from statsnet.blocks.base import Block, BlockKind
from statsnet.blocks.conformance import check_block_kind
from statsnet.blocks.pointwise import BINARY, FUNCTIONS, SQUASHING, UNSTEADY
from statsnet.errors import StatsNetError


def test_every_kind_is_checked() -> None:
    assert set(CONFIGS) == set(KINDS)
    assert FUNCTIONS.keys() >= SQUASHING | UNSTEADY | BINARY


@pytest.mark.parametrize("name", KINDS)
def test_kind_conforms(name: str) -> None:
    check_block_kind(KINDS[name], CONFIGS[name])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_are_equally_long(mode: str) -> None:
    module = KINDS["embedding_bag"].build({**BAG, "mode": mode})
    assert module(torch.zeros(32, dtype=torch.long)).shape == (8, 4)


def test_bags_read_in_a_row_are_those_of_single_reads() -> None:
    kind = KINDS["embedding_bag"]
    config = kind.with_uses(BAG, 3)
    assert config is not None and kind.uses(config) == 3
    count, rows = kind.index_range(config) or (0, 0)
    row, one = kind.build(config), kind.build(BAG)
    row.load_state_dict(one.state_dict())
    indices = torch.randint(rows, (count,))
    torch.testing.assert_close(row(indices), torch.cat([one(part) for part in indices.view(3, -1)]))
    assert kind.index_range(kind.resized(config, 1.3) or {}) == (4 * count // 3, rows)


def test_a_batched_product_is_narrowed_over_columns_that_still_fill_a_vector() -> None:
    kind, config = KINDS["batched_matmul"], {"batch": 2, "rows": 8, "depth": 8, "columns": 64}
    assert kind.narrowed(config, 4) == {**config, "columns": 16}
    assert kind.narrowed(config, 8) is None


def test_a_layer_in_a_loop_stacks_its_results_as_models_do() -> None:
    kind = KINDS["linear"]
    config = {"rows": 3, "inputs": 5, "outputs": 4, "uses": 2}
    stacked, row = kind.build({**config, "stacked": True}), kind.build(config)
    stacked.load_state_dict(row.state_dict())
    x = torch.randn(6, 5)
    torch.testing.assert_close(stacked(x).flatten(0, 1), row(x))
    with Operators() as seen:
        stacked(x)
    assert "stack" in seen.names and "cat" not in seen.names


@pytest.mark.parametrize(("packed", "names"), [(False, set()), (True, {"cat"})])
def test_gradients_of_attention_are_stacked_only_where_the_model_stacks(packed: bool, names: set[str]) -> None:
    config = {**ATTENTION, **({"packed": True} if packed else {})}
    assert backward(KINDS["attention"], config) & {"stack", "cat"} == {"stack"}
    assert backward(KINDS["attention"], with_gradients_apart(config)) & {"stack", "cat"} == names


def test_a_constant_operand_has_no_gradient() -> None:
    config = {"shape": (8, 4, 5), "functions": ("mul",), "operand": (1, 5)}
    assert "sum" in backward(KINDS["pointwise"], config)
    assert "sum" not in backward(KINDS["pointwise"], {**config, "constant": True})


def test_a_root_runs_nothing_but_the_addition_that_models_have_before_it() -> None:
    block = KINDS["pointwise"].build({"shape": (8, 5), "functions": ("cube", "rsqrt")})
    x = torch.randn(8, 5)
    with Operators() as seen:
        y = block(x)
    assert seen.names == ["pow", "add", "rsqrt"]
    assert y.isfinite().all()


def backward(kind: BlockKind, config: dict[str, Any]) -> set[str]:
    """Names of the operators that a block's backward pass runs."""
    block = kind.build(config)
    y = block(torch.randn(block.shape, requires_grad=True))  # type: ignore[arg-type]
    with Operators() as seen:
        y.backward(torch.ones_like(y))
    return set(seen.names)


class Operators(TorchDispatchMode):
    """Names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def test_behind_a_bag_aten_and_a_library_run_on_a_cpu_alone() -> None:
    """The look-up's vector state must not reach whatever block comes next."""
    behind = {}
    for device in ("cpu", "meta"):
        module = KINDS["embedding_bag"].build(BAG).to(device)
        with torch.no_grad(), Operators() as operators:
            module(torch.zeros(32, dtype=torch.long, device=device))
        names = operators.names
        look_up = next(n for n in names if n.startswith("_embedding_bag"))
        behind[device] = [n for n in names[names.index(look_up) + 1 :] if n in ("sigmoid", "mm")]
    assert behind == {"cpu": ["sigmoid", "mm"], "meta": []}


def test_parameters_alone_hand_on_what_comes_in_and_get_the_gradient_kept_for_them() -> None:
    """Again and again the same, and none for a table's rows that no step reads."""
    module = KINDS["parameters"].build({"shape": (40, 8), "rows_read": 12})
    x = torch.randn(1, requires_grad=True)
    for _ in range(2):
        gradients = torch.autograd.grad(module(x), [x, *module.parameters()], torch.full((1,), 3.0))
        assert torch.equal(gradients[0], torch.full((1,), 3.0))
        assert gradients[1][:12].all()
        assert not gradients[1][12:].any()


def test_blocks_that_change_sizes_are_not_steady() -> None:
    steady = {n: {kind.steady(c) for c in CONFIGS[n]} for n, kind in KINDS.items()}
    assert steady["softmax"] == steady["reduce"] == steady["topk"] == steady["recurrent"] == {False}
    assert steady["conv"] == steady["linear"] == steady["concat"] == {True}
    pointwise = KINDS["pointwise"].steady
    assert not pointwise({"functions": ("cube",)})
    assert pointwise({"functions": ("cube", "add", "tanh")})
    assert not pointwise({"functions": ("neg", "tanh")})


class Leaky(Block):
    """Wrong in the way that its configuration says."""

    def __init__(self, size: int, fault: str) -> None:
        super().__init__(size)
        self.fault = fault
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        if self.fault == "size":
            return x.reshape(-1)[-self.shape[0] :] * self.weight
        x = self.enter(x)
        if self.fault == "gradient":
            return x * self.weight.detach()
        if self.fault == "infinite":
            return x / 0 * self.weight
        if self.fault == "huge":
            return x * self.weight * 1e9
        return math.pi * x * self.weight * outside(x) if self.fault == "name" else x * self.weight


def outside(x: Tensor) -> Tensor:
    return x


class LeakyKind(BlockKind):
    name = "leaky"
    module = Leaky
    words: ClassVar = {"fault": ("", "size", "gradient", "infinite", "huge", "name", "scale")}

    def from_motif(self, motif: list[Any]) -> None:
        return None

    def scaled(self, config: dict[str, Any], divisor: int) -> dict[str, Any]:
        return config if config["fault"] == "scale" else {**config, "size": config["size"] // divisor}


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("size", "first elements of a larger input"),
        ("gradient", "weight gets no gradient"),
        ("infinite", "not finite"),
        ("huge", "of size"),
        ("name", "'outside' is not defined"),
        ("scale", "scaled by 2 it reads 1.00"),
        ("not a name", "fault is not made of numbers, names"),
        ("other", "'other' cannot stand in a network as the fault"),
    ],
)
def test_an_unsound_kind_is_told_what_is_wrong(fault: str, cause: str) -> None:
    with pytest.raises(StatsNetError, match="leaky") as caught:
        check_block_kind(LeakyKind(), [{"size": 16, "fault": fault}])
    assert cause in caught.value.cause


def test_a_sound_kind_passes() -> None:
    check_block_kind(LeakyKind(), [{"size": 16, "fault": ""}])
