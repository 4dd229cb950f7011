"""Every class of a library, profiled and checked: what a case comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from cli_support import GOLDEN

from benchmarks import breadth, csv_tables
from benchmarks.breadth import Both
from benchmarks.drawn.by_name import does_not_run
from statsnet.errors import MeasurementError, ProcessError, WorkloadError
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.check import Check, OperatorCheck
from statsnet.profiling.tasks import Profile
from statsnet.profiling.unseen import Unseen
from statsnet.signatures.storage import load_signature


def both(flops: float, torch_flops: float, **seen: Any) -> Both:
    product = OperatorCheck(op="aten.mm", calls=1, flops=flops, torch_flops=torch_flops)
    unseen = Unseen(step_s=2.0, timed=10, **seen)
    check = Check(operators=(product,), uncounted=(("mine.odd", 3),), unseen=unseen)
    return Both(profile=Profile(signature=load_signature(GOLDEN)), check=check)


@pytest.mark.parametrize(
    ("found", "outcome", "reason"),
    [
        (both(100.0, 100.5), "right", None),
        (both(100.0, 200.0), "wrong", "aten.mm: 100 here, 200 by torch"),
        (both(1.0, 1.0, unmatched=2), "wrong", "2 of 10 calls not seen"),
        (both(1.0, 1.0, by_name={"a": 0.1, "b": 0.5}), "wrong", "b 25.0% of the step not captured; a 5.0%"),
        (does_not_run("Odd", "it has no inputs"), "no case", "it has no inputs"),
        (WorkloadError("the model cannot be trained", cause="it has no parameters"), "no case", "no parameters"),
        (MeasurementError("no", cause="threads"), "refused", "threads"),
        (ProcessError("it ended", cause="a signal"), "wrong", "a signal"),
    ],
)
def test_what_a_case_comes_to(
    found: Both | Exception, outcome: str, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any) -> Both:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(breadth, "run", run)
    row = breadth.measured("transformers", "Odd", "inference")
    assert row.outcome == outcome
    assert row.reason is None if reason is None else row.reason is not None and reason in row.reason
    if isinstance(found, Both):
        assert (row.flops_ratio, row.uncounted) == (
            pytest.approx(found.check.flops / found.check.torch_flops),
            "mine.odd 3",
        )


def test_what_did_not_end_in_time_is_run_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []
    too_slow = MeasurementError("a measuring process did not end within 240 s")

    def measured(family: str, name: str, mode: str, _: Path | None) -> breadth.Row:
        asked.append(name)
        return breadth.Row(family=family, name=name, mode=mode, outcome="refused", reason=str(too_slow))

    monkeypatch.setitem(breadth.FAMILIES, "operators", ("", {}, lambda: ["tanh", "tan"]))
    monkeypatch.setattr(breadth, "measured", measured)
    table = tmp_path / "breadth.csv"
    command = ["breadth.py", str(table), "--families", "operators", "--modes", "inference", "--only", "tan"]
    monkeypatch.setattr("sys.argv", command)
    assert [breadth.main(), breadth.main()] == [0, 0]
    assert asked == ["tan", "tan"]


@pytest.mark.parametrize("is_in_time", [True, False])
def test_again_replaces_what_is_chosen_once_there_is_a_new_line(
    is_in_time: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def row(name: str, outcome: str, reason: str | None = None) -> breadth.Row:
        return breadth.Row(family="operators", name=name, mode="inference", outcome=outcome, reason=reason)

    new = row("tan", "right") if is_in_time else row("tan", "refused", f"it {breadth.TOO_SLOW} 240 s")
    monkeypatch.setitem(breadth.FAMILIES, "operators", ("", {}, lambda: ["exp", "tan", "tanh"]))
    monkeypatch.setattr(breadth, "measured", lambda *_: new)
    table = tmp_path / "breadth.csv"
    before = [row(name, "refused", "no") for name in ("exp", "tan", "tanh")]
    csv_tables.write(table, breadth.Row, before, one_machine=False)
    command = ["breadth.py", str(table), "--families", "operators", "--modes", "inference", "--again", "refused"]
    monkeypatch.setattr("sys.argv", [*command, "--only", "tan"])
    breadth.main()
    exp, tan, tanh = before
    assert csv_tables.read(table, breadth.Row) == [exp, new if is_in_time else tan, tanh]


class Asking(torch.nn.Linear):
    """Asks for labels in training."""

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        if self.training and labels is None:
            raise ValueError("labels must be given")
        return super().forward(x)


def asking() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return Asking(4, 4), (torch.ones(2, 4),)


def test_what_asks_for_more_in_training_is_no_case_there() -> None:
    task = breadth.ProfileAndCheck(model=Model(target=f"{__file__}:asking", mode="training"))
    with pytest.raises(WorkloadError, match="does not run by itself in training") as raised:
        task.run(Context())
    assert breadth._outcome_of(raised.value) == "no case"
    assert "labels must be given" in raised.value.cause


class OneWay(torch.autograd.Function):
    """Has a backward pass that fails."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        raise ValueError("no way back")


class Forward(torch.nn.Linear):
    """Only its forward pass runs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return OneWay.apply(super().forward(x))  # type: ignore[no-any-return, no-untyped-call]


def forward() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return Forward(4, 4), (torch.ones(2, 4),)


def test_what_fails_in_its_backward_pass_is_no_case_in_training() -> None:
    task = breadth.ProfileAndCheck(model=Model(target=f"{__file__}:forward", mode="training"))
    with pytest.raises(WorkloadError, match="does not run by itself in training") as raised:
        task.run(Context())
    assert breadth._outcome_of(raised.value) == "no case"
    assert "no way back" in raised.value.cause
