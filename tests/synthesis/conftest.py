"""A small target; a signature and a bench that measure on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthesis_builders import TINY, bench_setup, small_signature

from statsnet.measure.cache import MeasurementCache
from statsnet.measure.process import run
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.signatures.model import Signature
from statsnet.signatures.target import Target, target_of
from statsnet.synthesis.live_bench import LiveBench


@pytest.fixture
def target() -> Target:
    return target_of(small_signature())


@pytest.fixture(scope="module")
def profile() -> Signature:
    """A tiny workload's signature."""
    return run(ProfileWorkload(model=TINY, min_time_s=0.01)).signature


@pytest.fixture
def bench(tmp_path: Path, profile: Signature) -> LiveBench:
    environment = profile.measurements[0].environment
    return LiveBench(bench_setup(MeasurementCache(tmp_path / "cache"), environment=environment))
