"""What benchmarks measure: the core workloads, the six mixes, the settings, and the kinds of machine.

The core is a few workloads of each domain, so that a round over a suite takes minutes, not an hour. In a benchmark's
mix, `core.cv:1` stands for them, as `cv:1` stands for every workload of the domain.
"""

from __future__ import annotations

from collections.abc import Iterator

from statsnet.signatures.mix_request import parse_mix

CORE = {
    "cv": ("alexnet", "googlenet", "mobilenet_v2", "resnet50", "vgg16"),
    "nlp": ("bert_base", "gpt2"),
    "recsys": ("din", "dlrm", "ncf"),
    "speech": ("deepspeech2",),
}

MIXES = {
    "recommendation + vision": "core.recsys:0.5,core.cv:0.5",
    "vision": "core.cv:1",
    "language + recommendation": "core.nlp:0.7,core.recsys:0.3",
    "four domains": "core.cv:1,core.nlp:1,core.recsys:1,core.speech:1",
    "recommendation": "core.recsys:1",
    "ResNet-50": "cv/resnet50:1",
}
"""Name -> mix."""

SETTINGS = "threads=1,onednn=sse41,mkl=compatible,aten=default,dtype=bfloat16"
"""None of them is used to make a proxy."""

MACHINES = {
    "cpu-amd-epyc-f26m2-2t-torch2.13": "AMD EPYC family 26 model 2",
    "cpu-amd-epyc-f25m17-2t-torch2.13": "AMD EPYC family 25 model 17",
    "cpu-amd-epyc-f25m1-2t-torch2.13": "AMD EPYC family 25 model 1",
    "cpu-intel-xeon-f6m207-2t-torch2.13": "Intel Xeon family 6 model 207",
    "cpu-intel-xeon-f6m167-2t-torch2.13": "Intel Xeon family 6 model 167",
    "cpu-intel-xeon-f6m106-2t-torch2.13": "Intel Xeon family 6 model 106",
    "cuda-nvidia-h100-80gb-hbm3-torch2.11": "NVIDIA H100",
}
"""Folder of results -> the kind of machine. All CPUs are those of virtual machines with two cores."""


USUAL = "usual"
"""The step that `statsnet synthesize` chooses if nobody says how long it is to be."""


def compression_of(text: str) -> float | None:
    """How many times shorter than its suite a proxy's step is to be; None for USUAL. Raises ValueError."""
    return None if text == USUAL else float(text)


def compression_text(compression: float | None) -> str:
    """As `compression_of` reads it."""
    return USUAL if compression is None else f"{compression:g}"


def step_named(compression: float | None) -> str:
    """What a table puts behind a proxy's mode."""
    return ", usual step" if compression is None else f" at {compression:g}"


def mix_text(name: str) -> str:
    """A mix by its name, or as it is spelled."""
    return MIXES.get(name, name)


def mix_name(mix: str) -> str:
    """The name of one of MIXES; any other mix as it is spelled."""
    return next((name for name, text in MIXES.items() if text == mix), mix)


def spelled_out(mix: str) -> str:
    """The mix as `statsnet synthesize --mix` takes it. Raises UsageError as that does."""
    return ",".join(
        f"{name}:{weight!r}" for part in parse_mix(mix) for name, weight in _members(part.name, part.weight)
    )


def _members(name: str, weight: float) -> Iterator[tuple[str, float]]:
    domain = name.removeprefix("core.")
    if domain == name or domain not in CORE:
        yield name, weight
        return
    for workload in CORE[domain]:
        yield f"{domain}/{workload}", weight / len(CORE[domain])
