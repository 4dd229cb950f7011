"""What the benchmarks share: the core's mixes, where results are kept, and what is said of progress.

The core is a few workloads of each domain, so that a suite's round takes minutes where all of them take an hour. In a
benchmark's mix `core.cv:1` stands for them as `cv:1` does for every workload of the domain.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from statsnet.environment import slug
from statsnet.measure.process import measuring_environment
from statsnet.progress import Progress
from statsnet.signatures.mix import parse_mix

CORE = {
    "cv": ("alexnet", "googlenet", "mobilenet_v2", "resnet50", "vgg16"),
    "nlp": ("bert_base", "gpt2"),
    "recsys": ("din", "dlrm", "ncf"),
    "speech": ("deepspeech2",),
}

MIXES = (
    "core.recsys:0.5,core.cv:0.5",
    "core.cv:1",
    "core.nlp:0.7,core.recsys:0.3",
    "core.cv:1,core.nlp:1,core.recsys:1,core.speech:1",
    "core.recsys:1",
    "cv/resnet50:1",
)


def spelled_out(mix: str) -> str:
    """The mix as `statsnet synthesize --mix` takes it. Raises UsageError as that does."""
    return ",".join(
        f"{name}:{weight!r}" for part in parse_mix(mix) for name, weight in _members(part.name, part.weight)
    )


def results_file(name: str) -> Path:
    """Where a benchmark's results of this environment are kept."""
    return Path("benchmarks/results") / slug(measuring_environment()) / name


def report(progress: Progress) -> None:
    """What is being done, and where it is known how long the rest takes, to stderr."""
    left = "" if progress.remaining_s is None else f", {progress.remaining_s / 60:.0f} min left"
    print(f"{progress.stage}{left}", file=sys.stderr, flush=True)


def _members(name: str, weight: float) -> Iterator[tuple[str, float]]:
    domain = name.removeprefix("core.")
    if domain == name or domain not in CORE:
        yield name, weight
        return
    for workload in CORE[domain]:
        yield f"{domain}/{workload}", weight / len(CORE[domain])
