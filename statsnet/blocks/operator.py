"""Any operator of ATen, or on quantised tensors, that is pure computation, on operands of given shapes, strides and
dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from statsnet.blocks.base import BlockKind, Config
from statsnet.blocks.operator_call import operands_of
from statsnet.blocks.operator_reading import call_of
from statsnet.blocks.operator_sizes import narrowed, resized
from statsnet.blocks.operator_source import arguments_source, helpers_used
from statsnet.blocks.operator_spelling import NAMESPACE, spelled
from statsnet.blocks.operator_trial import is_quantized, surely_runs
from statsnet.blocks.operator_values import MADE_BY
from statsnet.signatures.model import Cluster
from statsnet.signatures.nested import Nested


class Operator(nn.Module):
    """One operator on operands with strides of their own, which stand for other branches of a model.

    The first operand is the input: it is replaced in every step by a tensor of its layout (`samples`). So no time is
    spent on views, and this block begins a tower. No gradient flows through it: an operator of a backward pass is
    a block like any other.
    """

    def __init__(self, function: Callable[..., Any], *operands: Any, keep: tuple = ()) -> None:
        super().__init__()
        self.function, self.operands, self.others, self.keep = function, operands, operands[1:], keep

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *self.others)

    def samples(self, count: int) -> list[Tensor]:
        """Inputs in `count` places in memory."""
        x = self.operands[0]
        if x.is_nested:
            return [x.clone() for _ in range(count)]
        return [spread(x).clone().as_strided(x.shape, x.stride()) for _ in range(count)]

    def runs(self) -> bool:
        """Whether it takes operands of these dtypes. Some operators want the sums among them in float32."""
        try:
            self.forward(self.operands[0])
        except RuntimeError:
            return False
        return True

    def leave_autocast(self) -> None:
        """From now on it runs as without autocast, within which torch mixes the dtypes inside of some operators."""
        self.function = torch.autocast(self.operands[0].device.type, enabled=False)(self.function)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        """Moves or converts the operands. All keep their strides, those in `keep` their dtype too."""
        moved = []
        for place, x in enumerate(self.operands):
            if not isinstance(x, Tensor):  # packed parameters
                moved.append(x)
                continue
            if x.layout != torch.strided or x.is_nested:
                moved.append(x.to(fn(x).device) if place in self.keep else fn(x))
                continue
            y = fn(spread(x))
            y = spread(x).to(y.device) if place in self.keep else y
            moved.append(y.as_strided(x.shape, x.stride()))
        self.operands, self.others = tuple(moved), tuple(moved[1:])
        return self


def spread(x: Tensor) -> Tensor:
    """All of the memory from a tensor's first to its last element, as one axis."""
    if x.is_nested:
        return x.values()
    count = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    return x.as_strided((count,), (1,))


class OperatorKind(BlockKind):
    """The generic kind. It recognises no motif: synthesis asks for it (`of_call`) where no other block has an operator
    in its layout."""

    name = "operator"
    module = Operator
    helpers = (spread, *MADE_BY.values())

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        return None

    def of_call(self, cluster: Cluster, own_dtype: str) -> Config | None:
        """The operator as it was called; None if it cannot be rebuilt. Tensors of `own_dtype` follow the network's."""
        config = call_of(cluster, own_dtype)
        return None if config is None else spelled(config)

    def scaled(self, config: Config, divisor: float) -> Config | None:
        return resized(config, 1 / divisor)

    def resized(self, config: Config, factor: float) -> Config | None:
        """None also if it is not sure that it runs: a block in another size is not measured alone."""
        other = resized(config, factor)
        return other if other is not None and surely_runs(other) else None

    def narrowed(self, config: Config, divisor: int) -> Config | None:
        return narrowed(config, divisor)

    def begins_tower(self, config: Config) -> bool:
        return True

    def ends_tower(self, config: Config) -> bool:
        return True

    def has_values(self, config: Config) -> bool:
        return is_quantized(config) or any(isinstance(o.form, Nested) for o in operands_of(config))

    def steady(self, config: Config) -> bool:
        return False

    def input_of(self, config: Config, module: nn.Module) -> Tensor:
        operands: Any = module.operands
        own: Tensor = operands[0]
        return own

    def elements_read(self, config: Config) -> int:
        return sum(o.numel for o in operands_of(config))

    def helpers_of(self, configs: list[Config]) -> tuple[Any, ...]:
        used = helpers_used(configs)
        used |= {"normal"} if used & {"positive", "fraction"} else set()
        used |= {"packed_linear"} if "packed_cell" in used else set()
        used |= {"quantized"} if used & {"packed_linear", "packed_conv"} else set()
        used |= {"sparse_rows"} if "sparse_columns" in used else set()
        return (spread, *(function for name, function in MADE_BY.items() if name in used))

    def check(self, config: Config) -> None:
        """Nothing: `arguments` checks each of its parts."""

    def arguments(self, config: Config) -> list[str] | None:
        return arguments_source(config)

    def on_meta(self, config: Config) -> nn.Module:
        """Without operands where these have values: it has no parameters."""
        return Operator(torch.clone) if self.has_values(config) else super().on_meta(config)

    def build(self, config: Config) -> nn.Module:
        names = {**NAMESPACE, **MADE_BY, "Operator": Operator}
        module: nn.Module = eval(f"Operator({', '.join(arguments_source(config))})", names)
        return module
