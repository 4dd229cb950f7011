"""The reference workloads against published figures, and one real step of each at the tiny preset."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Mapping

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from closed_forms_language import CLOSED_FORMS as LANGUAGE  # noqa: E402
from closed_forms_other import CLOSED_FORMS as OTHER  # noqa: E402
from closed_forms_other import SHORTER  # noqa: E402
from closed_forms_vision import CLOSED_FORMS as VISION  # noqa: E402
from multiply_adds import chain  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from reference_workloads.synthetic import lengths, zipf_ids  # noqa: E402
from statsnet.workloads import BuiltWorkload, Step, Workload, all_workloads, build, make_step  # noqa: E402
from statsnet.workloads.loading import resolve  # noqa: E402
from statsnet.workloads.losses import tensors_in  # noqa: E402

EVERY = [entry for entry in all_workloads() if entry.builtin]
each = pytest.mark.parametrize("entry", EVERY, ids=lambda entry: entry.full_name)

SIZES_OF_INPUT = {
    "batch", "sequence", "frames", "history", "image", "proposals", "text", "words", "views", "every",
}  # fmt: skip
"""`every` n-th row of a table of operators is run."""

CUT = {
    "generation/flux": {"layers", "single_layers"},
    "generation/sdxl_unet": {"layers"},
    "llm/gptj": {"layers"},
    "llm/llama2_70b_prefill": {"layers"},
    "llm/llama3_8b_decode": {"layers"},
    "llm/llama3_8b_prefill": {"layers"},
    "llm/mixtral": {"layers"},
    "recsys/dlrm_dcnv2": {"max_rows"},
}
"""What `small` cuts of models that do not fit into a small machine."""

WITHOUT_GRADIENT = {
    "detection/faster_rcnn": 0.18,  # frozen first stages, as the suites freeze them
    "detection/mask_rcnn": 0.08,
    "detection/retinanet": 0.13,
    "detection/seglink": 0.10,
    "graph/rgat": 0.21,  # relations of the last layer that end elsewhere than in papers
    "recsys/ranking_distillation": 0.5,  # the teacher
    "rl/dqn": 0.5,  # the target network
    "speech/whisper_base": 0.02,  # fixed positions
    "micro/deepbench_conv": 0.6,  # the rows of the other mode
    "micro/deepbench_gemm": 0.4,
    "micro/deepbench_rnn": 0.5,
}
"""Share of the parameter tensors that get no gradient."""

FLOPS_TOLERANCE = {
    "cv/googlenet": 0.06,  # the paper's table rounds every layer to whole millions; exact: 1.58 G
    "nlp/bert_base": 0.04,  # torch's counter does not know attention on a CPU: 0.6 of 22.4 GFLOP
    "cv/vit_base": 0.045,  # the same
    "cv/swin_tiny": 0.035,
    "cv/clip": 0.02,
}


def on_meta(entry: Workload, overrides: Mapping[str, int]) -> BuiltWorkload:
    return build(entry.full_name, mode="inference", device="meta", preset="standard", overrides=dict(overrides))


def forward_flops(step: Step) -> int:
    """By torch: 2 per multiply-add, convolutions and matrix products only. Without oneDNN it sees into LSTMs."""
    step.built.model.requires_grad_(False)  # the counter's hooks do not bear parameters among the inputs
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*TF32", category=UserWarning)
        with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
            step(0)
    return int(counter.get_total_flops())


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
    "speech/deepspeech2": deepspeech2_multiply_adds(200),
}
"""Multiply-adds of one sample by hand, where nobody published a figure."""


@each
def test_parameters_and_forward_flops_are_as_published(entry: Workload) -> None:
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


@each
def test_presets_are_arguments_of_the_factory(entry: Workload) -> None:
    accepted = inspect.signature(resolve(entry.full_name).factory).parameters
    assert "batch" in accepted or entry.domain == "micro"
    for preset in entry.presets.values():
        assert set(preset) <= set(accepted)
    for name in ("standard", "small"):  # these are the published model: only what goes in changes
        assert set(entry.presets[name]) <= SIZES_OF_INPUT | CUT.get(entry.full_name, set())


@each
def test_a_tiny_inference_step_is_finite(entry: Workload) -> None:
    step = make_step(build(entry.full_name, mode="inference", preset="tiny"))
    outputs = list(tensors_in(step(0)))
    assert outputs
    for output in outputs:
        assert output.isfinite().all()
        assert not output.requires_grad
    if entry.domain != "micro":
        assert any(output.shape[:1] == (entry.presets["tiny"]["batch"],) for output in outputs)


@each
def test_a_tiny_training_step_moves_the_weights(entry: Workload) -> None:
    built = build(entry.full_name, mode="training", preset="tiny")
    step = make_step(built)
    for index in range(2):
        loss = step(index)
    assert loss.shape == ()
    assert loss.isfinite()
    with_gradient = 0
    trained = [p for p in built.model.parameters() if p.grad is not None]
    every = list(built.model.parameters())
    assert len(trained) >= (1 - WITHOUT_GRADIENT.get(entry.full_name, 0.0)) * len(every)
    for parameter in trained:
        gradient = parameter.grad.coalesce().values() if parameter.grad.is_sparse else parameter.grad
        assert gradient.isfinite().all()
        with_gradient += bool(gradient.abs().max() > torch.finfo(torch.float32).tiny)
    assert with_gradient >= 0.85 * len(trained)


@pytest.mark.parametrize("name", ["dlrm", "ncf", "din"])
def test_steps_of_recommenders_look_up_fresh_rows(name: str) -> None:
    built = build(name, mode="inference", preset="tiny")
    first, second = built.inputs[0][0], built.inputs[1][0]
    assert len(built.variants()) == 1
    assert any(not torch.equal(a, b) for a, b in zip(first, second, strict=True) if a.dtype == torch.int64)


def test_sparse_gradients_are_announced() -> None:
    assert build("dlrm", mode="training", preset="tiny").sparse_gradients
    assert not build("ncf", mode="training", preset="tiny").sparse_gradients


def test_zipf_ids_have_the_shares_of_a_power_law() -> None:
    torch.manual_seed(0)
    ids = zipf_ids(10_000, (200_000,), 1.0)
    assert ids.min() == 0
    assert ids.max() < 10_000
    share = (ids == 0).double().mean().item()
    assert share == pytest.approx(math.log(2) / math.log(10_001), rel=0.03)
    assert (zipf_ids(3, (1000,)) < 3).all()


def test_padded_lengths_fill_the_batch() -> None:
    drawn = lengths(64, 100, 4)
    assert drawn[0] == 100
    assert drawn.min() >= 4
    assert drawn.max() == 100
