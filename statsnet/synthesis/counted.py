"""Hardware counters of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from statsnet.profiling.gpu_activity import Launch
from statsnet.profiling.hardware_counters import by_place, counters_of
from statsnet.synthesis.single_block import SEGMENTS

Job = dict[str, Any]


def counted_columns(columns: Sequence[Job], job: Job, how: str) -> tuple[list[Job], str]:
    """Results of `jobs.measure_candidates` with `counters` in each row whose kernels were counted; and where there are
    none, why."""
    launches: list[Launch] = []
    begins = [0]
    for column in columns:
        for data in column["launches"]:
            launch = Launch(**data)
            place = None if launch.cluster is None else begins[-1] + launch.cluster
            launches.append(replace(launch, cluster=place))
        begins.append(begins[-1] + sum(len(column[segment]["operators"]) for segment in SEGMENTS))
    counters, why = counters_of(job, launches, begins[-1], how)
    values = iter(by_place(counters, begins[-1]))
    return [_column(column, values) for column in columns], why


def _column(column: Job, values: Any) -> Job:
    parts = {
        segment: {
            **column[segment],
            "operators": [{**row, "counters": next(values)} for row in column[segment]["operators"]],
        }
        for segment in SEGMENTS
    }
    return {**column, **parts}
