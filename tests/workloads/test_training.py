"""Training as people do it: their own losses, any optimizers, accumulation, gradients inside the model."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from statsnet.errors import WorkloadError  # noqa: E402
from statsnet.profiling.capture import capture_step  # noqa: E402
from statsnet.profiling.memory import memory_record  # noqa: E402
from statsnet.workloads import build, make_step  # noqa: E402
from statsnet.workloads.losses import ProjectionLoss, own_loss  # noqa: E402
from statsnet.workloads.optimizers import name_of  # noqa: E402
from statsnet.workloads.stepping import Stepper  # noqa: E402

MODELS = """
import torch
from torch import nn

class Sparse(nn.Linear):
    sparse = True

def sparse_by_name():
    return Sparse(6, 2), (torch.ones(4, 6),)

def held():
    net = _net()
    return {"model": net, "args": (torch.randn(4, 6),), "optimizer": torch.optim.AdamW(net.parameters())}

def held_in_a_list():
    made = held()
    return {**made, "optimizer": [made["optimizer"]]}

def _net():
    return nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 2))

class Pair:
    def __init__(self, parameters):
        parameters = list(parameters)
        self.parts = [torch.optim.Muon([p for p in parameters if p.ndim == 2], lr=1e-4),
                      torch.optim.AdamW([p for p in parameters if p.ndim != 2], lr=1e-4)]

    def step(self):
        for part in self.parts:
            part.step()

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad()

class Lion:
    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.momentum = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self):
        for p, m in zip(self.parameters, self.momentum):
            p.sub_(1e-4 * (0.9 * m + 0.1 * p.grad).sign())
            m.lerp_(p.grad, 0.01)

def _several(parameters):
    first, *rest = parameters
    one, two = torch.optim.SGD([first], lr=0.1), torch.optim.Adam(rest, lr=0.1, foreach=True)
    return [one, two], [torch.optim.lr_scheduler.StepLR(one, 1), torch.optim.lr_scheduler.ReduceLROnPlateau(two)]

def _lbfgs(parameters):
    return torch.optim.LBFGS(parameters, lr=1e-3, max_iter=3)

class Margin(nn.Module):
    def __init__(self):
        super().__init__()
        self.classes = nn.Parameter(torch.randn(5, 2))
        self.seen = []

    def forward(self, outputs):
        self.seen.append(outputs.detach())
        return (outputs @ self.classes.t()).logsumexp(1).mean() + torch.cat(self.seen).mean()

def margin():
    return {"model": _net(), "args": (torch.randn(3, 6),), "loss": Margin()}

class Ascending(torch.optim.SGD):
    def step(self, closure=None):
        assert closure is not None, "sharpness-aware minimization requires closure"
        super().step()
        closure()
        super().step()

class Scaled:
    def __init__(self, parameters, scaler):
        self.inner, self.scaler = torch.optim.Adam(parameters, fused=True), scaler

    def zero_grad(self, set_to_none=True):
        self.inner.zero_grad(set_to_none)

    def step(self):
        self.scaler.step(self.inner)
        self.scaler.update()

def _with(optimizer, **more):
    return {"model": _net(), "args": torch.randn(3, 6), "optimizer": optimizer, **more}

def pair(): return _with(Pair)
def failing(): return _with(lambda parameters: 1 / 0)
def head_alone(): return _with(lambda parameters: torch.optim.AdamW([*parameters][-2:]))
def lion(): return _with(Lion)
def several(): return _with(_several)
def lbfgs(): return _with(_lbfgs)
def ascending(): return _with(lambda parameters: Ascending(parameters, lr=1e-4))
def scaled():
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    return _with(lambda parameters: Scaled(parameters, scaler), loss=lambda out: scaler.scale(out.sum()))
def unscaled(): return _with(lambda parameters: Scaled(parameters, torch.amp.GradScaler("cpu")))
def nested():
    rows = torch.nested.nested_tensor([torch.randn(n, 6) for n in (3, 5)], layout=torch.jagged)
    return _net(), (rows,)
def failing_loss(): return _with("sgd", loss=lambda out: out[9])
def failing_model(): return {"model": _net(), "args": torch.randn(3, 7)}
def no_step(): return _with(lambda parameters: [torch.optim.SGD(parameters), object()])

def accumulated(accumulation: int = 4):
    batches = [torch.randn(n, 6) for n in (3, 3, 3, 3, 5, 5, 3, 3)]
    return {"model": _net(), "inputs": batches, "accumulation": accumulation}

class Forces(nn.Module):
    def __init__(self):
        super().__init__()
        self.energy = _net()

    def forward(self, x):
        x = x.detach().requires_grad_()
        energy = self.energy(x).sum()
        return energy.detach(), torch.autograd.grad(energy, x, create_graph=self.training)[0]

class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(6, 6), None

    def forward(self, x):
        self.head = self.head or nn.Linear(6, 2)
        return self.head(self.first(x))

def late(): return Late(), torch.randn(3, 6)

def late_with_loss(): return {"model": Late(), "args": torch.randn(3, 6), "loss": torch.sum}

def made_for_inference():
    torch.set_grad_enabled(False)
    return _net(), torch.randn(3, 6)

def computed_inputs():
    net = _net()
    return net, net[0](torch.randn(3, 6))

class Groups(nn.Linear):
    def parameters(self, recurse=True): return [{"params": list(super().parameters()), "lr": 1.0}]

def groups(): return Groups(6, 2), torch.randn(3, 6)

class Ends(nn.Linear):
    def forward(self, x): raise SystemExit(3)

class Unasked(nn.Linear):
    def train(self): return super().train(True)
    def eval(self): return super().train(False)

def unasked(): return Unasked(6, 2), torch.randn(3, 6)

def ends(): return {"model": Ends(6, 2), "args": torch.randn(3, 6), "loss": torch.sum}

def forces(): return Forces(), torch.randn(3, 6)

class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = _net()

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.utils.checkpoint.checkpoint(self.net, x, use_reentrant=False)

def checkpointed(): return Checkpointed(), torch.randn(3, 6)
"""


@pytest.fixture
def models(tmp_path: Path) -> str:
    path = tmp_path / "trained_models.py"
    path.write_text(MODELS)
    return str(path)


@pytest.mark.parametrize(
    ("name", "state_bytes"),
    [  # matrices 6 x 6 and 2 x 6, biases 6 and 2
        ("pair", (36 + 12) * 4 + 2 * (6 + 2) * 4 + 2 * 4),  # momentum; two moments and a counter for each bias
        ("lion", (36 + 12 + 8) * 4),
        ("several", 2 * (12 + 8) * 4 + 3 * 4),
        ("scaled", 2 * (36 + 12 + 8) * 4 + 4 * 4),
        ("lbfgs", None),
        ("checkpointed", 0),
    ],
)
def test_anything_with_step_trains_the_model(models: str, name: str, state_bytes: int | None) -> None:
    built = build(f"{models}:{name}", mode="training")
    before = [parameter.detach().clone() for parameter in built.model.parameters()]
    step = make_step(built)
    phases: list[str] = []
    step.on_phase = phases.append
    assert all(step(index).isfinite() for index in range(2))
    assert all(not torch.equal(a, b) for a, b in zip(before, built.model.parameters(), strict=True))
    assert {"forward", "backward", "optimizer"} == set(phases)
    if state_bytes is not None:
        assert sum(t.numel() * t.element_size() for t in step.optimizer.state()) == state_bytes


def test_an_optimizer_that_asks_for_a_closure_evaluates_the_loss_itself(models: str) -> None:
    step = make_step(build(f"{models}:lbfgs", mode="training"))
    phases: list[str] = []
    step.on_phase = phases.append
    step(0)
    assert phases == ["optimizer", *(["forward", "backward", "optimizer"] * 3)]


def test_an_optimizer_that_will_not_step_without_a_closure_has_gradients_before(models: str) -> None:
    step = make_step(build(f"{models}:ascending", mode="training"))
    phases: list[str] = []
    step.on_phase = phases.append
    step(0)
    assert phases == ["forward", "backward", "optimizer"] * 2
    assert not step.optimizer.needs_closure  # which would put the parameters back before each step


def test_one_that_evaluates_the_loss_itself_begins_each_step_anew(models: str) -> None:
    step = make_step(build(f"{models}:lbfgs", mode="training"))
    losses = [step(index).item() for index in range(4)]
    assert len(set(losses)) == 1
    assert step._loss(step.built.model(*step.built.inputs[0][0])).item() < losses[0]  # it has moved meanwhile


@pytest.mark.parametrize("name", ["late", "late_with_loss"])
def test_layers_that_the_model_makes_when_it_runs_are_trained_too(models: str, name: str) -> None:
    step = make_step(build(f"{models}:{name}", mode="training"))
    before = step.built.model.head.weight.detach().clone()
    step(0)
    assert not torch.equal(before, step.built.model.head.weight)


@pytest.mark.parametrize("name", ["made_for_inference", "computed_inputs", "groups", "unasked"])
def test_what_files_do_besides_does_not_end_training(models: str, name: str) -> None:
    """Gradients that one switched off, the history of inputs that one computed, which backward goes through once, and
    groups of parameters in the place of parameters."""
    step = make_step(build(f"{models}:{name}", mode="training"))
    assert all(step(index).isfinite() for index in range(2))


def test_a_model_that_ends_the_program_is_an_error(models: str) -> None:
    with pytest.raises(WorkloadError, match="failed") as caught:
        make_step(build(f"{models}:ends", mode="training"))
    assert "SystemExit: 3" in caught.value.cause


def test_nested_outputs_can_be_trained(models: str) -> None:
    step = make_step(build(f"{models}:nested", mode="training"))
    assert step(0).isfinite()
    assert all(parameter.grad.abs().sum() > 0 for parameter in step.built.model.parameters())


@pytest.mark.parametrize(("name", "mode", "part"), [
    ("unscaled", "training", "the optimizer's step()"), ("failing_loss", "training", "loss(model"),
    ("failing_model", "inference", "model(*args"),
])  # fmt: skip
def test_what_to_run_by_itself_is_what_failed(models: str, name: str, mode: str, part: str) -> None:
    step = make_step(build(f"{models}:{name}", mode=mode))
    with pytest.raises(WorkloadError) as caught:
        step(0)
    first = "model.train() and then " if mode == "training" else ""
    assert caught.value.hint.startswith(f"run {first}{part}")


def test_what_has_no_step_is_refused_before_anything_runs(models: str) -> None:
    with pytest.raises(WorkloadError, match="could not be made") as caught:
        make_step(build(f"{models}:no_step", mode="training"))
    assert "object has no step()" in caught.value.cause
    layer = nn.Linear(2, 2)
    both = [torch.optim.LBFGS([layer.weight]), torch.optim.SGD([layer.bias])]
    with pytest.raises(WorkloadError, match="LBFGS needs a closure"):
        Stepper(both, layer.parameters())


def test_a_loss_with_parameters_and_state_is_a_part_of_the_model(models: str) -> None:
    built = build(f"{models}:margin", mode="training", dtype="float64")
    assert isinstance(built.loss, nn.Module)
    before = built.loss.classes.detach().clone()
    step = make_step(built, optimizer="sgd_momentum")
    for index in range(6):
        step(index)
    assert before.dtype == torch.float64
    assert not torch.equal(before, built.loss.classes)
    assert len(built.loss.seen) < 4  # all steps after the second begin with the same
    memory = memory_record(built.whole, built.inputs_of(0), lambda: step(0), device="cpu", optimizer=step.optimizer)
    assert memory["parameter_count"] == 6 * 6 + 6 + 6 * 2 + 2 + 5 * 2


def test_an_accumulated_step_takes_several_batches_and_one_optimizer_call(models: str) -> None:
    built = build(f"{models}:accumulated", mode="training")
    assert built.variants() == [(0, 0.5), (1, 0.5)]  # 3 3 3 3 | 5 5 3 3
    step = make_step(built, optimizer="sgd")
    phases: list[str] = []
    step.on_phase = phases.append
    step(1)
    assert phases == ["forward", "backward"] * 4 + ["optimizer"]
    gradient = built.model[0].weight.grad.clone()
    built.model.zero_grad()
    loss = step._loss
    sum(loss(built.model(x)) / 4 for (x,), _ in built.inputs[4:]).backward()
    assert torch.allclose(gradient, built.model[0].weight.grad, atol=1e-4)


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_a_model_may_take_gradients_in_its_forward(models: str, mode: str) -> None:
    step = make_step(build(f"{models}:forces", mode=mode))
    assert step(0) is not None
    assert step.differentiates is (mode == "inference")


def scalar(value: float) -> Any:
    return torch.tensor(value, requires_grad=True)


WIDE = torch.ones(3, requires_grad=True)


@pytest.mark.parametrize(
    ("outputs", "loss"),
    [
        (scalar(2.0), 2.0),
        ({"loss": scalar(2.0), "aux_loss": scalar(1.0), "logits": WIDE}, 2.0),
        ({"loss_box": scalar(2.0), "loss_class": scalar(1.0), "boxes": WIDE}, 3.0),
        ({"nll": scalar(2.0), "kl": scalar(1.0), "hits": torch.arange(3)}, 3.0),
        ((scalar(2.0), WIDE), 2.0),
        ((scalar(2.0), scalar(1.0)), 3.0),
        (SimpleNamespace(loss=scalar(2.0), logits=WIDE), 2.0),
        ({"logits": WIDE}, None),
        ({"loss": None, "logits": WIDE}, None),
        (torch.tensor(2.0), None),
        ((WIDE, scalar(1.0)), None),
    ],
)
def test_a_models_own_loss_is_found(outputs: Any, loss: float | None) -> None:
    found = own_loss(outputs)
    assert (None if found is None else found.item()) == loss


def test_a_loss_beside_other_outputs_does_not_leave_their_layers_untrained() -> None:
    """As that of a codebook beside a reconstruction. A loss that is made of all outputs is the whole."""
    encoder, decoder = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    hidden = encoder(torch.ones(2, 4))
    ProjectionLoss()((hidden.square().mean(), decoder(hidden))).backward()
    assert decoder.weight.grad is not None
    beside = torch.nn.Parameter(torch.ones(()))
    ProjectionLoss()({"reconstruction_loss": 2 * beside, "x": decoder(hidden.detach())}).backward()
    assert beside.grad == 2.0  # once, not projected too
    logits = decoder(encoder(torch.ones(2, 4)))
    for outputs in (
        (logits.mean(), logits.view(-1)),
        {"loss": hidden.detach().mean() + encoder.bias.sum(), "x": logits},
    ):
        loss = own_loss(outputs)
        assert ProjectionLoss()(outputs) is loss


def test_only_tables_have_sparse_gradients(models: str) -> None:
    step = make_step(build(f"{models}:sparse_by_name", mode="training"), optimizer="adamw")
    assert step(0).isfinite()


@pytest.mark.parametrize("name", ["held", "held_in_a_list"])
def test_an_optimizer_that_was_made_with_the_model_steps_its_parameters_without_a_device(
    models: str, name: str
) -> None:
    """There, a cast gives the model new parameters."""
    built = build(f"{models}:{name}", mode="training", device="meta", dtype="bfloat16")
    own = {id(parameter) for parameter in built.model.parameters()}
    (optimizer,) = built.optimizer if isinstance(built.optimizer, list) else [built.optimizer]
    assert {id(p) for group in optimizer.param_groups for p in group["params"]} == own
    calls = capture_step(lambda: make_step(built)(0), device="meta")
    assert any("addcdiv" in call.op or "adam" in call.op for call in calls)


@pytest.mark.parametrize(
    ("optimizer", "name"),
    [
        (lambda p: torch.optim.AdamW(p, lr=1e-3), "adamw"),
        (lambda p: torch.optim.Adam(p), "adam"),
        (lambda p: torch.optim.SGD(p, lr=0.1), "sgd"),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-5), "sgd_momentum"),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), "custom"),  # runs other operators than any name
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-5, nesterov=True), "custom"),
        (lambda p: torch.optim.AdamW(p, amsgrad=True), "custom"),
        (lambda p: torch.optim.NAdam(p), "nadam"),
    ],
)
def test_torchs_own_optimizers_are_known_by_what_they_run(optimizer: Any, name: str) -> None:
    assert name_of(optimizer([torch.nn.Parameter(torch.ones(2))])) == name


def test_a_scheduler_is_no_optimizer_of_torchs() -> None:
    inner = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    assert name_of(torch.optim.lr_scheduler.StepLR(inner, 1)) == name_of(None) == "custom"


def test_the_group_with_most_parameters_says_what_an_optimizer_runs() -> None:
    weights, biases = ([torch.nn.Parameter(torch.ones(2)) for _ in range(n)] for n in (3, 1))
    groups = [{"params": weights, "weight_decay": 1e-4}, {"params": biases}]
    assert name_of(torch.optim.SGD(groups, lr=0.1, momentum=0.9)) == "sgd_momentum"


def test_an_optimizer_of_that_name_that_the_model_brings_stays(models: Path) -> None:
    """It may step some parameters only."""
    built = build(f"{models}:head_alone", mode="training")
    assert make_step(built).optimizer_name == "adamw"
    step = make_step(build(f"{models}:head_alone", mode="training"), optimizer="adamw")
    assert step.optimizer is not None
    (group,) = step.optimizer.only_optimizer.param_groups
    assert len(group["params"]) == 2
    assert make_step(build(f"{models}:failing", mode="training"), optimizer="adamw").optimizer_name == "adamw"
    other = make_step(build(f"{models}:head_alone", mode="training"), optimizer="sgd")
    assert other.optimizer is not None and type(other.optimizer.only_optimizer) is torch.optim.SGD
