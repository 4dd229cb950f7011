"""The sources of candidates: the mix's motifs, and the parameters that its optimizers step."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from statsnet.blocks import KINDS, Config, asked, readings, recognise
from statsnet.blocks.attention import AttentionKind, with_gradients_apart
from statsnet.blocks.comparison import ComparisonKind
from statsnet.blocks.conv import has_frozen_norm
from statsnet.blocks.conv_chain import ConvChainKind
from statsnet.blocks.embedding import EmbeddingBagKind
from statsnet.blocks.linear import LinearKind
from statsnet.blocks.parameters import ParametersKind
from statsnet.blocks.pointwise import PointwiseKind, with_gelu_in_one
from statsnet.blocks.recurrent import RecurrentKind
from statsnet.blocks.zipf import zipf_indices
from statsnet.signatures.categories import base_name
from statsnet.signatures.operators import is_tensor
from statsnet.signatures.shapes import shape_class
from statsnet.signatures.target import Target
from statsnet.signatures.target_cluster import TargetCluster, TargetMotif
from statsnet.synthesis.candidates.chains import chains
from statsnet.synthesis.candidates.gradient_layouts import (
    Gradient,
    Summed,
    cut_gradients,
    permuted_gradients,
    summed_gradients,
    without_leading_ones,
)
from statsnet.synthesis.candidates.parts_of_layers import is_one_layer, is_part_of_a_layer
from statsnet.synthesis.costs.loads import distinct_shares
from statsnet.workloads.optimizers import SETTINGS

BAG = EmbeddingBagKind()
CHAIN = ConvChainKind()
PARAMETERS = ParametersKind()

Mask = tuple[str, tuple[int, ...]]
"""A member, and the shape of a mask in it."""

MOST_MASKS = 0.9
"""If a model makes a mask once for several layers, their attention is called more often."""

BATCHES = 8
"""A table's row counts as read if one of this many batches reads it; workloads and proxies cycle through as many."""

MOSTLY_DISTINCT = 0.75
"""Where at least this share of the weights that products read is distinct, no layer is taken for one that is used in a
loop."""

FEWEST_USES, MOST_USES = 4, 64
"""A layer in a loop, or a table of several that are read in a row, is used so often in a block."""

OF_FAMILY = frozenset({
    "functions", "activation", "cell", "kernel", "kernels", "kind", "mode", "norm", "causal", "function",
    "output_is_concatenated", "concatenated_axis", "weight_first_axis_in", "transposed", "channels_last",
    "first_transposed", "output_last_axis", "residual", "affine", "frozen", "weighted",
    "safe", "log", "stacked", "unstacked", "constant",
})  # fmt: skip
"""Parts of a configuration that decide which kernels run, or what runtimes join, rather than their sizes."""

MOST_DRAWN = 10**7
"""At most this many indices are drawn to count the rows that they read."""


@dataclass(slots=True)
class Source:
    """A motif of the mix, or an optimizer's work on parameters of one shape, with its time per use and its share of the
    target's time."""

    kind: str
    config: Config
    optimizer: str | None
    time_s: float
    share: float

    @property
    def family(self) -> str:
        """Sources of one family run the same kernels: of one kind, with the same functions, windows and layouts."""
        named = {k: v for k, v in self.config.items() if k in OF_FAMILY}
        groups = self.config.get("groups", 1)  # one for each convolution of a chain
        grouped = max(groups if isinstance(groups, tuple) else (groups,)) > 1
        looped = KINDS[self.kind].uses(self.config) > 1
        return json.dumps(
            [self.kind, named, self.optimizer, grouped, "rows_read" in self.config, looped], sort_keys=True
        )


def sources(target: Target) -> list[Source]:
    """All sources of a target that take time, each once."""
    return [s for s in (*_motifs(target), *_chains(target), *_parameters(target)) if s.share > 0 and s.time_s > 0]


def _motifs(target: Target) -> Iterator[Source]:
    by_key: dict[str, Source] = {}
    reader = _MotifReader.of(target)
    for motif in target.motifs:
        clusters = [target.clusters[i] for i in motif.clusters]
        optimizer = reader.optimizers[motif.member]
        for run in _splits(clusters, in_layers=target.may_leave_torch):
            per_call_s = sum(c.time_per_call_s or 0.0 for c in run)
            for kind, config, calls in reader.blocks(motif, run):
                key = json.dumps([kind, config, optimizer], sort_keys=True)
                source = by_key.setdefault(key, Source(kind, config, optimizer, calls * per_call_s, 0.0))
                source.share += per_call_s * motif.count_per_s
    yield from by_key.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class _MotifReader:
    """Reads motifs as blocks, by what is known of the whole target. `cut` and `permuted` are the axes of gradients, and
    `summed` the shapes of broadcast operands that get one (gradient_layouts.py); `masks` is how often members choose by
    booleans of a shape, `distinct` the shares of members' weights that are read once, `times_in_a_block` as its
    function says; `stacking` are members that stack tensors, each with the phase in which it does."""

    target: Target
    cut: Mapping[Gradient, int]
    permuted: Mapping[Gradient, int]
    summed: Mapping[str, Collection[Summed]]
    masks: Mapping[Mask, float]
    optimizers: Mapping[str, str | None]
    distinct: Mapping[str, float]
    times_in_a_block: Callable[[str, TargetMotif], int]
    stacking: Collection[tuple[str, str]]

    @classmethod
    def of(cls, target: Target) -> _MotifReader:
        return cls(
            target=target,
            cut=cut_gradients(target),
            permuted=permuted_gradients(target),
            summed=summed_gradients(target),
            masks=_calls_on_booleans(target),
            optimizers=_optimizers(target),
            distinct=distinct_shares(target),
            times_in_a_block=_times_in_a_block(target),
            stacking={(c.member, c.phase) for c in target.clusters if base_name(c.op) == "stack"},
        )

    def blocks(self, motif: TargetMotif, run: list[TargetCluster]) -> Iterator[tuple[str, Config, int]]:
        """Kinds and configurations that stand for a motif or a part of it, and for how many calls of it."""
        gradient = motif.member, _output_shape(run[-1])
        axis = self.cut.get(gradient)
        last = self.permuted.get(gradient) if _is_contiguous(run[-1]) else None
        for kind, config in self._readings(motif, run):
            rules = KINDS[kind]
            yield kind, config, 1
            if axis is not None and (concatenated := rules.with_concatenated_output(config, axis)) is not None:
                yield kind, concatenated, 1
            if last is not None and (moved := rules.with_output_last_axis(config, last)) is not None:
                yield kind, moved, 1
            times = self.times_in_a_block(kind, motif)
            if times >= FEWEST_USES and (used := rules.with_uses(config, times)) is not None:
                stacked = kind == LinearKind.name and (motif.member, "forward") in self.stacking
                yield kind, {**used, "stacked": True} if stacked else used, times

    def _readings(self, motif: TargetMotif, run: list[TargetCluster]) -> Iterator[tuple[str, Config]]:
        for kind, config in readings(run):  # type: ignore[arg-type]
            if self._is_projection(kind, config, motif, run):
                continue
            if self.target.may_leave_torch:
                yield kind, _as_in_graphs(kind, config, run[-1], self.masks)
            elif kind != ComparisonKind.name:  # which only other runtimes and compilers run in one pass
                yield kind, self._as_trained(kind, config, motif, run) if self.target.mode == "training" else config

    def _as_trained(self, kind: str, config: Config, motif: TargetMotif, run: list[TargetCluster]) -> Config:
        """A block that has the gradients that the member has, and whose batch norm is frozen where the model froze its
        own: torch runs the same operator as in inference."""
        if kind == AttentionKind.name and (motif.member, "backward") not in self.stacking:
            return with_gradients_apart(config)
        if kind == PointwiseKind.name and self._is_constant(config, motif.member):
            return {**config, "constant": True}
        holds_norm = config.get("norm") is True or config.get("kind") == "batch"
        return {**config, "frozen": True} if holds_norm and has_frozen_norm(run) else config  # type: ignore[arg-type]

    def _is_constant(self, config: Config, member: str) -> bool:
        """Whether an operand is broadcast, and no gradient is summed for it."""
        if "operand" not in config or member not in self.summed:
            return False
        operand, shape = (without_leading_ones(config[name]) for name in ("operand", "shape"))
        return operand != shape and (config["shape"], operand) not in self.summed[member]

    def _is_projection(self, kind: str, config: Config, motif: TargetMotif, run: list[TargetCluster]) -> bool:
        """Whether what is read as a step of a GRU is a projection of queries, keys and values, of the same shape: its
        weights are read once."""
        is_step = kind == RecurrentKind.name and run[0].category == "gemm" and config["cell"] == "GRU"
        return is_step and self.distinct[motif.member] >= MOSTLY_DISTINCT


def _chains(target: Target) -> list[Source]:
    """Convolutions in a row, where other runtimes than torch may run them."""
    if not target.may_leave_torch:
        return []
    return [Source(CHAIN.name, row.config, None, row.time_s, row.share) for row in chains(target)]


def _parameters(target: Target) -> list[Source]:
    """Parameters that optimizers step. The most expensive one of each class of shapes stands for the whole class: the
    operators are the same for any shape. Its time is that in one member: in each it is stepped once."""
    classes: dict[tuple[Any, ...], dict[str, Source]] = defaultdict(dict)
    times_s: dict[tuple[int, str], float] = defaultdict(float)
    rows_read = _rows_read(target)
    optimizers = _optimizers(target)
    for cluster in target.clusters:
        config, optimizer = asked(PARAMETERS.from_motif, [cluster]), optimizers[cluster.member]  # type: ignore[list-item]
        if config is None or optimizer is None:
            continue
        rows = rows_read.get((cluster.member, _output_shape(cluster)), 0)
        if 0 < rows < config["shape"][0]:
            config = {**config, "rows_read": rows}
        size = shape_class(cluster.op, list(cluster.args), list(cluster.outputs))
        group = classes[optimizer, size, "rows_read" in config]
        source = group.setdefault(str(config), Source(PARAMETERS.name, config, optimizer, 0.0, 0.0))
        in_member = id(source), cluster.member
        times_s[in_member] += cluster.time_per_call_s or 0.0
        source.time_s = max(source.time_s, times_s[in_member])
        source.share += cluster.time_share
    leaders = []
    for group in classes.values():
        leader = max(group.values(), key=lambda s: (s.share, str(s.config)))
        leaders.append(replace(leader, share=sum(s.share for s in group.values())))
    return leaders


def _times_in_a_block(target: Target) -> Callable[[str, TargetMotif], int]:
    """How often a block uses the layer of a motif that is read as this kind. Where a member reads most of its weights
    more than once, as often as a step calls it: the calls may be one layer's in a loop. And bags of look-ups as often
    as a step has any, one table after another: one alone would take most of its time in the interpreter, and in
    clearing up after FBGEMM. Counted are bags that other runtimes may run, as in training each table has a gradient of
    its own."""
    distinct, step_s = distinct_shares(target), {m.name: 1 / m.steps_per_s for m in target.members}
    bags_per_s: dict[str, float] = defaultdict(float)
    for cluster in target.clusters if target.may_leave_torch else ():
        if asked(BAG.from_motif, [cluster]) is not None:  # type: ignore[list-item]
            bags_per_s[cluster.member] += cluster.calls_per_s

    def times(kind: str, motif: TargetMotif) -> int:
        looped_per_s = motif.count_per_s if distinct[motif.member] < MOSTLY_DISTINCT else 0.0
        per_s = bags_per_s[motif.member] if kind == BAG.name else looped_per_s
        return round(min(per_s * step_s[motif.member], MOST_USES))

    return times


def _as_in_graphs(kind: str, config: Config, last: TargetCluster, masks: Mapping[Mask, float]) -> Config:
    """A block whose graph, for other runtimes, has what the model's has where torch runs the same operators."""
    if kind == "pointwise":
        return with_gelu_in_one(config)
    mask = last.member, config.get("expanded_mask") or config.get("mask") or ()
    is_of_booleans = kind == "attention" and masks.get(mask, 0.0) >= MOST_MASKS * last.calls_per_s > 0
    return {**config, "boolean": True} if is_of_booleans else config


def _calls_on_booleans(target: Target) -> Mapping[Mask, float]:
    """How often a second members choose by booleans of a shape, in four axes. Where attention is called as often with
    numbers of that shape, torch has made these of a mask of booleans. Other runtimes are given the booleans."""
    calls: dict[Mask, float] = defaultdict(float)
    for cluster in target.clusters:
        first: Any = cluster.args[0] if cluster.args else None
        if base_name(cluster.op) == "where" and is_tensor(first) and first["dtype"] == "bool":
            shape = _output_shape(cluster)
            calls[cluster.member, (*(1,) * (4 - len(shape)), *shape)] += cluster.calls_per_s
    return calls


def _optimizers(target: Target) -> dict[str, str | None]:
    """Each member's optimizer; None for a user's own optimizer, because no block can be stepped by it."""
    names = {m.name: m.signature.optimizer for m in target.members}
    return {member: name if name in SETTINGS else None for member, name in names.items()}


def _rows_read(target: Target) -> dict[tuple[str, tuple[int, ...]], int]:
    """(member, shape of a table) -> rows of it that BATCHES batches read."""
    rows_read = {}
    for cluster in target.clusters:
        reading = recognise([cluster]) if cluster.skew else None  # type: ignore[list-item]
        if reading is None or (index_range := KINDS[reading[0]].index_range(reading[1])) is None:
            continue
        count, rows = index_range
        generator = torch.Generator().manual_seed(0)
        drawn = zipf_indices(min(BATCHES * count, MOST_DRAWN), rows, reading[1]["skew"], generator)
        table = tuple(cluster.args[0]["shape"])
        rows_read[cluster.member, table] = round(len(drawn.unique()) / rows * table[0])
    return rows_read


def _is_contiguous(cluster: TargetCluster) -> bool:
    """Whether the first output is: its gradient then has another layout because of later layers alone."""
    first = next((o for o in cluster.outputs if o is not None), None)
    return first is not None and "strides" not in first


def _output_shape(cluster: TargetCluster) -> tuple[int, ...]:
    first = next((o for o in cluster.outputs if o is not None), None)
    return tuple(first["shape"]) if first else ()


def _splits(clusters: list[TargetCluster], *, in_layers: bool) -> list[list[TargetCluster]]:
    """The whole motif; each rest of it without its first operators, which a compiler runs in one pass; and each
    operator alone, as small change for the solver. With `in_layers`, runtimes make what is behind a layer a part of it:
    there the small change is the layer with less behind it."""
    if len(clusters) == 1:
        return [clusters]
    if in_layers and is_one_layer(clusters):
        return [clusters[:length] for length in range(len(clusters), 0, -1)]
    runs = [*(clusters[i:] for i in range(len(clusters) - 1)), *([c] for c in clusters)]
    return [run for run in runs if not (in_layers and is_part_of_a_layer(run, clusters))]


def by_importance(unordered: list[Source]) -> list[tuple[Source, float]]:
    """First the largest motif of every family (kind, functions, kernel), with its family's share of the time; then all
    others with their own share. Both parts are sorted by share."""
    ordered = sorted(unordered, key=lambda s: (-s.share, json.dumps([s.kind, s.config], sort_keys=True)))
    families: dict[str, list[Source]] = defaultdict(list)
    for source in ordered:
        families[source.family].append(source)
    leaders = [(members[0], sum(s.share for s in members)) for members in families.values()]
    others = {id(s) for members in families.values() for s in members[1:]}
    return [*sorted(leaders, key=lambda x: -x[1]), *((s, s.share) for s in ordered if id(s) in others)]
