"""Checks a reference workload against published figures: parameters, and FLOPs of a forward pass."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import Any

import pytest
import torch
from closed_forms_language import CLOSED_FORMS as LANGUAGE
from closed_forms_other import CLOSED_FORMS as OTHER
from closed_forms_vision import CLOSED_FORMS as VISION
from multiply_adds import SHORTER, chain
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from statsnet.workloads import BuiltWorkload, Step, Workload, all_workloads, build, make_step

LANGUAGES, IMAGES = {"llm", "nlp", "speech"}, {"cv", "detection", "generation"}
"""Domains. So that two processes share the work, each has tests of its own, and so has the rest."""

FLOPS_TOLERANCE = {
    "cv/googlenet": 0.06,  # the paper's table rounds every layer to whole millions; exact: 1.58 G
    "nlp/bert_base": 0.04,  # torch's counter does not know attention on a CPU: 0.6 of 22.4 GFLOP
    "cv/vit_base": 0.045,  # the same
    "cv/swin_tiny": 0.035,
    "cv/clip": 0.02,
}


def on_meta(entry: Workload, overrides: Mapping[str, int]) -> BuiltWorkload:
    return build(entry.full_name, mode="inference", device="meta", preset="standard", overrides=dict(overrides))


class Flops(TorchDispatchMode):
    """Counts by torch's formulas: 2 per multiply-add, convolutions and matrix products only. FlopCounterMode counts as
    much, but looks at every module and at every operator's decomposition, too, and takes half as long again."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if (formula := flop_registry.get(func.overloadpacket)) is not None:
            self.total += formula(*args, **(kwargs or {}), out_val=out)
        return out


def forward_flops(step: Step) -> int:
    """Without oneDNN, so that an LSTM's products are seen."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*TF32", category=UserWarning)
        with torch.backends.mkldnn.flags(enabled=False), Flops() as counter:
            step(0)
    return counter.total


def gpt2_multiply_adds(tokens: int, width: int = 768) -> int:
    """Per token and layer 12 width^2 (query, key, value, output: 4; two layers: 8), then the vocabulary."""
    return tokens * (12 * 12 * width**2 + width * 50257)


def deepspeech2_multiply_adds(frames: int) -> int:
    """Two convolutions and the character layer; torch's counter sees a GRU's products as well."""
    steps = frames // 2
    convolutions = steps * 32 * (81 * 41 * 11 + 41 * 32 * 21 * 11)
    gates = 3 * 800
    recurrent = 2 * gates * (1312 + 800) + 4 * 2 * gates * (800 + 800)
    return convolutions + steps * (recurrent + 800 * 29)


CLOSED_FORMS = {
    **VISION,
    **LANGUAGE,
    **OTHER,
    "recsys/dlrm": chain(13, 512, 256, 64, 16) + 27 * 27 * 16 + chain(16 + 351, 512, 256, 1),
    "recsys/ncf": chain(256, 256, 128, 64) + 128,
    "recsys/din": 100 * (chain(512, 80, 40, 1) + 128) + chain(128, 128) + chain(256, 80, 40, 1),
    "nlp/gpt2": gpt2_multiply_adds(128),
    "speech/deepspeech2": deepspeech2_multiply_adds(**SHORTER["speech/deepspeech2"]),
}
"""Multiply-adds of one sample by hand, where nobody published a figure."""


def of_domains(domains: Collection[str]) -> list[Any]:
    """One case for each of the domains' workloads."""
    return [pytest.param(e, id=e.full_name) for e in all_workloads() if e.builtin and e.domain in domains]


def check_figures(entry: Workload) -> None:
    """Of the whole model; FLOPs of one sample where a figure was published, and by hand where there is a form."""
    built = on_meta(entry, entry.sample)
    assert sum(parameter.numel() for parameter in built.model.parameters()) == entry.parameters
    if entry.full_name in SHORTER:
        built = on_meta(entry, {**entry.sample, **SHORTER[entry.full_name]})
    flops = forward_flops(make_step(built))
    assert entry.flops or entry.full_name in CLOSED_FORMS
    if entry.flops:
        tolerance = FLOPS_TOLERANCE.get(entry.full_name, 0.01)
        assert flops == pytest.approx(entry.flops, rel=tolerance)
    if entry.full_name in CLOSED_FORMS:
        assert flops == 2 * CLOSED_FORMS[entry.full_name]
