"""A small target; a signature and a bench that measure on this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from synthesis_builders import TINY, bench_setup, small_signature

from statsnet.measure.cache import MeasurementCache
from statsnet.measure.process import run
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.signatures.model import Signature
from statsnet.signatures.target import Target, target_of
from statsnet.synthesis.bench.live_bench import LiveBench


@pytest.fixture
def target() -> Target:
    return target_of(small_signature())


@pytest.fixture(scope="module")
def profile() -> Signature:
    """A tiny workload's signature, with the times of a quiet machine: operators and the time between them are the
    step."""
    found = run(ProfileWorkload(model=TINY, min_time_s=0.01)).signature
    (measured,) = found.measurements
    share = 0.9 * measured.latency_s / measured.operator_time_s
    times_s = tuple(None if t is None else share * t for t in measured.cluster_time_s)
    quiet = replace(measured, cluster_time_s=times_s, framework_time_s=0.1 * measured.latency_s, idle_time_s=0.0)
    return replace(found, measurements=(quiet,))


@pytest.fixture
def bench(tmp_path: Path, profile: Signature) -> LiveBench:
    environment = profile.measurements[0].environment
    return LiveBench(bench_setup(MeasurementCache(tmp_path / "cache"), environment=environment))
