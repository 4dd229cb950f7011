"""The reference workloads against published figures, and one real step of each at the tiny preset."""

from __future__ import annotations

import inspect
import math
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from reference_workloads.synthetic import lengths, zipf_ids  # noqa: E402
from statsnet.workloads import Workload, all_workloads, build, get, make_step  # noqa: E402
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


def forward_flops(entry: Workload) -> int:
    """FLOPs of one sample by torch: 2 per multiply-add, convolutions and matrix products only."""
    step = make_step(build(entry.full_name, mode="inference", device="meta", overrides=dict(entry.sample)))
    with FlopCounterMode(display=False) as counter:
        step(0)
    return int(counter.get_total_flops())


@each
def test_parameters_are_as_published(entry: Workload) -> None:
    built = build(entry.full_name, mode="training", preset="standard", device="meta")
    assert sum(parameter.numel() for parameter in built.model.parameters()) == entry.parameters


@pytest.mark.parametrize(
    "entry", [entry for entry in EVERY if entry.flops], ids=lambda entry: entry.full_name
)
def test_forward_flops_are_as_published(entry: Workload) -> None:
    tolerance = FLOPS_TOLERANCE.get(entry.full_name, 0.01)
    assert forward_flops(entry) == pytest.approx(entry.flops, rel=tolerance)


def chain(*widths: int) -> int:
    """Multiply-adds of fully connected layers with these widths."""
    return sum(a * b for a, b in pairwise(widths))


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
    "recsys/dlrm": chain(13, 512, 256, 64, 16) + 27 * 27 * 16 + chain(16 + 351, 512, 256, 1),
    "recsys/ncf": chain(256, 256, 128, 64) + 128,
    "recsys/din": 100 * (chain(512, 80, 40, 1) + 128) + chain(128, 128) + chain(256, 80, 40, 1),
    "nlp/gpt2": gpt2_multiply_adds(128),
    "speech/deepspeech2": deepspeech2_multiply_adds(200),
    "cv/cifar_resnet": 555_422_720,
    "cv/rgbd_resnet50": 4_126_992_384,
    "cv/facenet": 3 * 1_417_662_304,
    "cv/spatial_transformer": 771_300,
}
"""Multiply-adds of one sample by hand, where nobody published a figure."""


WITHOUT_A_FIGURE = {
    "detection/cpn", "detection/crnn", "detection/dssd", "detection/faster_rcnn", "detection/mask_rcnn",
    "detection/retinanet", "detection/seglink", "detection/unet3d", "generation/cyclegan",
    "generation/image_captioning", "generation/image_compression", "generation/object_reconstruction",
    "generation/vae", "generation/video_prediction", "generation/wgan", "graph/gcn", "graph/graphsage",
    "graph/rgat", "llm/gptj", "llm/llama2_70b_prefill", "llm/llama3_8b_decode", "llm/llama3_8b_prefill",
    "llm/mamba", "llm/mixtral", "micro/ai_matrix_gemm", "micro/ai_matrix_layers", "micro/ai_matrix_rnn",
    "micro/deepbench_all_reduce", "micro/deepbench_conv", "micro/deepbench_gemm", "micro/deepbench_rnn",
    "micro/deepbench_sparse", "micro/dnnmark", "nlp/aoa_reader", "nlp/bert_large", "nlp/bidaf", "nlp/enas",
    "nlp/gnmt", "nlp/memn2n", "nlp/rnn_lm", "nlp/sentiment", "nlp/seq2seq", "nlp/summarization",
    "nlp/transformer_base", "recsys/dien", "recsys/dlrm_dcnv2", "recsys/ranking_distillation",
    "recsys/sasrec", "recsys/two_tower", "recsys/wide_deep", "rl/a3c", "rl/dqn", "rl/minigo",
    "speech/deepspeech1", "speech/rnnt", "speech/wav2vec2_base", "speech/whisper_base",
}  # fmt: skip
"""Nobody published their FLOPs, and no closed form is written yet."""


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_forward_flops_follow_from_the_published_sizes(name: str) -> None:
    assert forward_flops(get(name)) == 2 * CLOSED_FORMS[name]


def test_every_model_is_checked_for_its_flops() -> None:
    assert {e.full_name for e in EVERY if e.flops is None} == set(CLOSED_FORMS) | WITHOUT_A_FIGURE


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
