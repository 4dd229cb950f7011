"""The core: a few workloads of each domain, so that a suite's round takes minutes where all of them take an hour.

In a benchmark's mix `core.cv:1` stands for them as `cv:1` does for every workload of the domain.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    return ",".join(f"{name}:{weight!r}" for part in parse_mix(mix) for name, weight in _members(*part))


def _members(name: str, weight: float) -> Iterator[tuple[str, float]]:
    domain = name.removeprefix("core.")
    if domain == name or domain not in CORE:
        yield name, weight
        return
    for workload in CORE[domain]:
        yield f"{domain}/{workload}", weight / len(CORE[domain])
