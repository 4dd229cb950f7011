"""The reference workloads: their presets, and real steps of each at the tiny one."""

from __future__ import annotations

import inspect
import math

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from reference_workloads.synthetic import lengths, zipf_ids  # noqa: E402
from statsnet.workloads import Workload, all_workloads, build, make_step  # noqa: E402
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
