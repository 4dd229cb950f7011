"""Building with seed, dtype and fake tensors; the step, its phases, loss and optimizers."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from statsnet.errors import UsageError, WorkloadError  # noqa: E402
from statsnet.signatures.model import Phase  # noqa: E402
from statsnet.workloads import build, make_step  # noqa: E402
from statsnet.workloads.losses import ProjectionLoss, tensors_in  # noqa: E402
from statsnet.workloads.optimizers import SETTINGS  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples"


class Recorder(TorchDispatchMode):
    """Names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_the_seed_decides_weights_and_inputs_and_nothing_else_changes() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, same, other = (build("alexnet", mode="inference", preset="tiny", seed=s) for s in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    for built, equal in ((same, True), (other, False)):
        assert torch.equal(first.inputs[0][0][0], built.inputs[0][0][0]) is equal
        weights = zip(first.model.parameters(), built.model.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in weights) is equal


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_dtype_casts_model_and_floating_inputs(dtype: str) -> None:
    built = build("dlrm", mode="inference", preset="tiny", dtype=dtype)
    dense, indices, _ = built.inputs[0][0]
    assert dense.dtype == getattr(torch, dtype)
    assert indices.dtype == torch.int64
    assert make_step(built)(0).dtype == getattr(torch, dtype)


def test_mode_decides_train_or_eval() -> None:
    built = build("alexnet", mode="training", preset="tiny")
    assert built.model.training
    make_step(built, "inference")
    assert not built.model.training


def test_phases_are_announced_in_order() -> None:
    step = make_step(build("ncf", mode="training", preset="tiny"))
    seen: list[str] = []
    step.on_phase = seen.append
    step(0)
    assert tuple(seen) == get_args(Phase)[1:]
    inference = make_step(build("ncf", mode="inference", preset="tiny"))
    inference.on_phase = seen.append
    inference(0)
    assert seen[3:] == ["forward"]


def test_a_step_runs_no_random_operator_for_the_default_loss() -> None:
    step = make_step(build("ncf", mode="training", preset="tiny"))
    with Recorder() as recorder:
        step(0)
    assert not [name for name in recorder.names if "rand" in name or "normal" in name]


def test_the_default_loss_has_the_directions_as_gradients() -> None:
    loss = ProjectionLoss()
    a = torch.zeros(3, 4, requires_grad=True)
    b = torch.zeros(5, requires_grad=True)
    outputs = {"a": a, "rest": (b, [torch.arange(3)], None)}
    assert len(list(tensors_in(outputs))) == 3
    loss(outputs).backward()
    for output in (a, b):
        assert output.grad is not None
        assert (output.grad != 0).all()
        assert 0.3 < output.grad.norm() < 2
    again = torch.zeros(3, 4, requires_grad=True)
    ProjectionLoss()(again).backward()
    assert torch.equal(again.grad, a.grad)


def test_outputs_without_gradient_cannot_be_trained() -> None:
    with pytest.raises(WorkloadError, match="cannot be trained") as caught:
        ProjectionLoss()((torch.ones(2), torch.arange(2)))
    assert "no_grad" in caught.value.cause
    with pytest.raises(WorkloadError, match="cannot be trained") as caught:
        ProjectionLoss()(torch.arange(2))
    assert "floating point" in caught.value.cause


def test_outputs_that_depend_on_parameters_only_unwatched_say_so() -> None:
    """Under a capture, torch.cond hides parameters that it uses from autograd."""
    loss = ProjectionLoss()
    loss(torch.ones(2, requires_grad=True))
    with pytest.raises(WorkloadError) as caught:
        loss(torch.ones(2))
    assert "higher-order" in caught.value.cause
    assert "inference" in caught.value.hint


@pytest.mark.parametrize("name", SETTINGS)
def test_every_optimizer_moves_the_weights(name: str) -> None:
    built = build(
        str(EXAMPLES / "own_model.py:make"), mode="training", batch=2, overrides={"width": 8}, dtype="float64"
    )
    before = [parameter.detach().clone() for parameter in built.model.parameters()]
    step = make_step(built, optimizer=name)
    step(0)
    assert step.optimizer_name == name
    assert all(not torch.equal(a, b) for a, b in zip(before, built.model.parameters(), strict=True))


def test_sparse_gradients_work_with_sgd_and_are_refused_elsewhere() -> None:
    built = build("dlrm", mode="training", preset="tiny")
    make_step(built)(0)
    assert next(built.model.parameters()).grad.is_sparse
    with pytest.raises(UsageError, match="sparse") as caught:
        make_step(built, optimizer="adam")
    assert "sgd" in caught.value.hint
    dense = build("dlrm", mode="training", preset="tiny", overrides={"sparse": "false"})
    make_step(dense, optimizer="adam")(0)


def test_an_unknown_optimizer_names_the_known() -> None:
    with pytest.raises(UsageError) as caught:
        make_step(build("ncf", mode="training", preset="tiny"), optimizer="lion")
    assert "adamw" in caught.value.hint


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # torch's Adagrad
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
@pytest.mark.parametrize("name", ["alexnet", "dlrm", "din", "deepspeech2"])
def test_a_training_step_runs_on_fake_tensors(name: str, optimizer: str) -> None:
    built = build(name, mode="training", preset="tiny", device="meta", dtype="bfloat16")
    assert built.fake_mode is not None
    assert all(isinstance(parameter, FakeTensor) for parameter in built.model.parameters())
    assert all(parameter.dtype == torch.bfloat16 for parameter in built.model.parameters())
    step = make_step(built, optimizer=optimizer)
    with Recorder() as recorder:
        assert isinstance(step(0), FakeTensor)
    assert any("backward" in call or "mm" in call for call in recorder.names)


def test_a_given_fake_mode_is_used() -> None:
    mode = FakeTensorMode()
    built = build("ncf", mode="inference", device="meta", fake_mode=mode)
    assert built.fake_mode is mode
    assert next(built.model.parameters()).fake_mode is mode


def test_the_examples_run() -> None:
    for name in ("make", "trained"):
        built = build(str(EXAMPLES / f"own_model.py:{name}"), mode="training", batch=2, overrides={"width": 8})
        step = make_step(built)
        assert all(step(index).isfinite() for index in range(3))


def test_llama_70b_is_built_and_stepped_without_memory() -> None:
    pytest.importorskip("transformers")
    target = str(EXAMPLES / "llama_70b.py:llama_70b")
    built = build(target, mode="inference", device="meta", dtype="bfloat16", overrides={"sequence": "128"})
    assert sum(parameter.numel() for parameter in built.model.parameters()) == 70_553_706_496
    assert make_step(built)(0).logits.shape == (1, 128, 128_256)
