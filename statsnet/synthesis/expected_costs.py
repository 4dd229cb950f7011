"""What a candidate may cost that was not measured, as its nearest measured relative lets expect: good enough to choose
which candidates to measure next, never to make a network of."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from statsnet.blocks import KINDS
from statsnet.proxy.towers import elements_read, parameter_count
from statsnet.synthesis.bench.bench import MeasuredBlocks
from statsnet.synthesis.bench.block_measurement import BlockMeasurement, BlockPart
from statsnet.synthesis.candidates.candidates import Candidate


def expected(candidates: Iterable[Candidate], measured: MeasuredBlocks) -> MeasuredBlocks:
    """The candidates of whose families some were measured, each with what it may take."""
    families: dict[str, list[tuple[_Sizes, BlockMeasurement]]] = defaultdict(list)
    for candidate, measurement in measured:
        families[candidate.family].append((_sizes(candidate), measurement))
    found = []
    for candidate in candidates:
        if relatives := families.get(candidate.family):
            sizes = _sizes(candidate)
            origin, measurement = min(relatives, key=lambda known: sizes.distance(known[0]))
            found.append((candidate, sizes.over(origin).of(measurement)))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """A block's estimated seconds, elements that it reads, parameters, FLOPs of its products (none: 1) and uses of its
    weights; or all of them ÷ those of another block."""

    time_s: float
    elements: float
    parameters: float
    flops: float
    uses: float

    def distance(self, other: _Sizes) -> float:
        """By how many powers of e they differ in all. Two layers that take as long may be of very different shapes."""
        ratio = self.over(other)
        return sum(abs(math.log(x)) for x in (ratio.time_s, ratio.elements, ratio.parameters, ratio.flops))

    def over(self, other: _Sizes) -> _Sizes:
        return _Sizes(
            time_s=self.time_s / other.time_s,
            elements=self.elements / other.elements,
            parameters=self.parameters / other.parameters,
            flops=self.flops / other.flops,
            uses=self.uses / other.uses,
        )

    def of(self, measurement: BlockMeasurement) -> BlockMeasurement:
        """Where these are ratios: a block's measurement, so many times as large."""
        block = _scaled(measurement.block, self)
        stepped = replace(self, time_s=self.parameters, elements=self.parameters, flops=self.parameters, uses=1.0)
        return replace(measurement, block=block, optimizer=_scaled(measurement.optimizer, stepped), launches=None)


def _scaled(part: BlockPart, ratio: _Sizes) -> BlockPart:
    """Operators that are no products have FLOPs by their elements."""
    rows = tuple(
        replace(
            row,
            time_s=row.time_s * ratio.time_s,
            flops=row.flops * (ratio.flops if row.weights else ratio.elements),
            bytes=row.bytes * ratio.elements,
            weights=row.weights * ratio.parameters,
            calls=row.calls * ratio.uses,
        )
        for row in part.operators
    )
    return replace(part, operators=rows, framework_s=part.framework_s * ratio.uses)


def _sizes(candidate: Candidate) -> _Sizes:
    kind, config = KINDS[candidate.kind], candidate.config
    return _Sizes(
        time_s=candidate.time_s,
        elements=max(elements_read(candidate.placed), 1),
        parameters=max(parameter_count(candidate.placed), 1),
        flops=max(kind.flops(config), 1.0),
        uses=kind.uses(config),
    )
