"""Table look-ups: embeddings and pooled embedding bags, read with the suite's index skew."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from statsnet.blocks.base import BlockKind, Config, divided, numbers
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import is_tensor

LARGEST_TABLE_ELEMENTS = 2**26
"""Tables are cut at 256 MiB of float32: that exceeds any cache, and a proxy must fit beside its users' work."""


@cache
def shared_table(rows: int, width: int, device: torch.device) -> nn.Parameter:
    """One table for all blocks of this size: dozens of them, each with its own, would fill a small GPU. As it is one
    parameter too, not only one memory, a change of its dtype leaves it shared."""
    return nn.Parameter(numbers(rows, width))


def table_of(rows: int, width: int) -> nn.Parameter:
    """A block's own table; the shared one where blocks are made without gradients, because no step writes it."""
    if torch.is_grad_enabled():
        return nn.Parameter(numbers(rows, width))
    return shared_table(rows, width, torch.empty(0).device)


class Embedding(nn.Module):
    """Rows of a table by index; `skew` is the exponent of the Zipf law that the indices follow. If the
    output is concatenated with other branches, its gradient is a slice of a wider one."""

    def __init__(
        self, rows: int, width: int, indices: int, skew: float = 0.0, sparse: bool = False,
        output_is_concatenated: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.rows, self.indices, self.skew = rows, indices, skew
        self.output_is_concatenated = output_is_concatenated
        self.table = nn.Embedding(rows, width, sparse=sparse, _weight=torch.empty(rows, width, device="meta"))
        self.table.weight = table_of(rows, width)

    def forward(self, indices: Tensor) -> Tensor:
        return self.table.forward(indices)


class EmbeddingBag(nn.Module):
    """`bags` sums (of `weighted` rows, if so), means or maxima of `indices / bags` rows each. With several `uses`, it
    looks so many of them up, one after another and each by other indices, as a model does in one table after another.

    On a CPU its kernel (FBGEMM's) may leave the vector registers in a state that makes legacy SSE code up to
    thirty times slower. In a model this slows one place or none, but here the next block is chance. So AVX
    code clears the state: ATen's, and a library's in case ATen is limited to SSE.
    """

    offsets: Tensor
    weights: Tensor | None

    def __init__(
        self, rows: int, width: int, indices: int, bags: int, mode: str = "sum", skew: float = 0.0,
        sparse: bool = False, uses: int = 1, weighted: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.rows, self.indices, self.skew, self.uses = rows, indices * uses, skew, uses
        without = torch.empty(rows, width, device="meta")
        self.table = nn.EmbeddingBag(rows, width, mode=mode, sparse=sparse, _weight=without)
        self.table.weight = table_of(rows, width)
        self.register_buffer("offsets", torch.arange(0, indices, indices // bags), persistent=False)
        self.register_buffer("weights", torch.ones(indices) if weighted else None, persistent=False)

    def forward(self, indices: Tensor) -> Tensor:
        how = self.offsets, self.weights
        if self.uses == 1:
            pooled = self.table.forward(indices, *how)
        else:
            pooled = torch.cat([self.table.forward(part, *how) for part in indices.chunk(self.uses)])
        if pooled.is_cpu:  # a product of one row would not reach the library
            few = pooled.detach()[:1].expand(16, -1).sigmoid()
            F.linear(few, few)
        return pooled


def _table(shape: list[int]) -> tuple[int, int]:
    return min(shape[0], max(1, LARGEST_TABLE_ELEMENTS // shape[1])), shape[1]


class EmbeddingKind(BlockKind):
    name = "embedding"
    module: ClassVar[type[nn.Module]] = Embedding
    helpers: ClassVar[tuple[Any, ...]] = (shared_table, table_of)

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = motif[0]
        if base_name(first.op) != "embedding":
            return None
        rows, width = _table(first.args[0]["shape"])
        indices = 1
        for n in first.args[1]["shape"]:
            indices *= n
        sparse = len(first.args) > 4 and first.args[4] is True
        return {"rows": rows, "width": width, "indices": indices, "skew": _zipf(first), "sparse": sparse}

    def scaled(self, config: Config, divisor: float) -> Config | None:
        indices = divided(config["indices"], divisor)
        return None if indices is None else {**config, "indices": indices}

    def narrowed(self, config: Config, divisor: int) -> Config | None:
        """A shorter table with the same share of rows read. A dense gradient is as large as the table, and so is the
        optimizer's work, which depends on how many rows were never read (square roots of zeros are slow)."""
        return self.resized(config, 1 / divisor)

    def resized(self, config: Config, factor: float) -> Config | None:
        rows, scaled = divided(config["rows"], 1 / factor), self.scaled(config, 1 / factor)
        return None if rows is None or scaled is None else {**scaled, "rows": rows}

    def with_concatenated_output(self, config: Config, axis: int) -> Config | None:
        return {**config, "output_is_concatenated": True}

    def index_range(self, config: Config) -> tuple[int, int] | None:
        return config["indices"], config["rows"]


MODES = {0: "sum", 1: "mean", 2: "max"}
"""By the number that ATen gives them."""


class EmbeddingBagKind(EmbeddingKind):
    name = "embedding_bag"
    module = EmbeddingBag
    words: ClassVar = {"mode": MODES.values()}

    def from_motif(self, motif: list[Cluster]) -> Config | None:
        first = motif[0]
        if base_name(first.op) not in ("_embedding_bag", "_embedding_bag_forward_only") or first.args[4] not in MODES:
            return None
        rows, width = _table(first.args[0]["shape"])
        bags = first.outputs[0]["shape"][0]
        per_bag = max(1, round(first.args[1]["shape"][0] / max(bags, 1)))
        config = {
            "rows": rows,
            "width": width,
            "indices": bags * per_bag,
            "bags": bags,
            "mode": MODES[first.args[4]],
            "skew": _zipf(first),
            "sparse": first.args[5] is True,
        }
        return {**config, "weighted": True} if any(map(is_tensor, first.args[6:7])) else config

    def with_concatenated_output(self, config: Config, axis: int) -> Config | None:
        return None

    def with_uses(self, config: Config, uses: int) -> Config | None:
        return {**config, "uses": uses}

    def uses(self, config: Config) -> int:
        return int(config.get("uses", 1))

    def index_range(self, config: Config) -> tuple[int, int] | None:
        return config["indices"] * self.uses(config), config["rows"]

    def resized(self, config: Config, factor: float) -> Config | None:
        return self.scaled(config, 1 / factor) if self.uses(config) > 1 else super().resized(config, factor)

    def scaled(self, config: Config, divisor: float) -> Config | None:
        """Never more bags than the model gives one call: ONNX has no such operator, so other runtimes loop over the
        bags, and the time of a loop grows faster than their number. Of several uses, there are more or fewer."""
        if self.uses(config) > 1:
            uses = divided(self.uses(config), divisor)
            return None if uses is None or uses < 2 else {**config, "uses": uses}
        bags = divided(config["bags"], divisor) if divisor >= 1 else None
        per_bag = config["indices"] // config["bags"]
        return None if bags is None else {**config, "bags": bags, "indices": bags * per_bag}


def _zipf(cluster: Cluster) -> float:
    return round(cluster.skew.zipf, 2) if cluster.skew else 0.0
