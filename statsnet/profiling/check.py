"""A workload's counts compared with those of torch: FLOPs with `FlopCounterMode`, calls with the profiler."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch._ops import HigherOrderOperator
from torch.utils.flop_counter import FlopCounterMode, _FlopCounterMode, flop_registry

from statsnet import environment
from statsnet.errors import ModelError, StatsNetError
from statsnet.measure.task import Context, Progress, Task
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.capture import CaptureMode, OpCall, operand_tensors, wraps_others
from statsnet.profiling.costs import cost_of
from statsnet.profiling.draws import prepared
from statsnet.profiling.higher_order import derivatives_seen, run_in_parts
from statsnet.profiling.joining import Variant
from statsnet.profiling.own_operators import is_own, run_seen_inside
from statsnet.profiling.trace import captured
from statsnet.profiling.unseen import Unseen, look_for_unseen
from statsnet.profiling.unwatched_capture import look_nearer
from statsnet.workloads import Successive, make_step

TOLERANCE = 0.01
"""FLOPs agree if they differ by no more than this share."""

WARM_UPS = 2
FURTHER = 3
"""Captures that tell whether a step that disagrees is the same each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCheck:
    """An operator for which torch has a formula: captured calls, and FLOPs of a step as counted here and by torch.
    `exception` names why the two rightly differ, if they do."""

    op: str
    calls: int
    flops: float
    torch_flops: float
    exception: str = ""

    @property
    def agrees(self) -> bool:
        return _agree(self.flops, self.torch_flops)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What agrees with torch and what does not. `uncounted` are captured calls of operators without a formula here;
    `torch_failed` says why torch could not count; `unseen` what the profiler saw beside the captured calls."""

    operators: tuple[OperatorCheck, ...]
    uncounted: tuple[tuple[str, int], ...]
    unseen: Unseen
    torch_failed: str = ""

    @property
    def flops(self) -> float:
        return sum(o.flops for o in self.operators if not o.exception)

    @property
    def torch_flops(self) -> float:
        return sum(o.torch_flops for o in self.operators if not o.exception)

    @property
    def flops_agree(self) -> bool:
        """Whether the sums agree, those that rightly differ left out."""
        return _agree(self.flops, self.torch_flops)

    @property
    def calls_agree(self) -> bool:
        """Whether the profiler saw the captured calls and no others that take time."""
        return not self.unseen.is_too_much


def _agree(flops: float, torch_flops: float) -> bool:
    return abs(flops - torch_flops) <= TOLERANCE * max(flops, torch_flops)


@dataclass(frozen=True, kw_only=True)
class CheckWorkload(Task[Check]):
    """Counts one step three times, at the same draw of random numbers: captured, under FlopCounterMode, profiled."""

    model: Model
    device: str = "cpu"

    def run(self, context: Context) -> Check:
        context.report(Progress(stage="building the model"))
        built = self.model.build(self.device)
        step = make_step(built, optimizer=self.model.optimizer)
        for index in range(WARM_UPS):
            step(index)
        context.report(Progress(stage="counting", done=0.3))
        kind = environment.select(built.device)
        turn = Successive(step, itertools.repeat(0), step.prepare)

        def capture(by: type[CaptureMode]) -> list[OpCall]:
            return captured(prepared(turn, 0), device="meta", phases=None, by=by)

        def look(calls: list[OpCall]) -> Unseen:
            return look_for_unseen(prepared(turn, 0), calls, device=kind)[0]

        by: type[CaptureMode] = CaptureMode
        calls = capture(by)
        torch_flops, failed = _counted_by_torch(turn)
        unseen = look(calls)
        if (nearer := look_nearer(unseen, calls, capture, look)) is not None:
            unseen, calls, by = nearer
        found = compared(calls, torch_flops, failed, unseen)
        if not (found.flops_agree and found.calls_agree):
            _require_alike(calls, (capture(by) for _ in range(FURTHER)))
        return found


def _require_alike(calls: list[OpCall], others: Iterable[list[OpCall]]) -> None:
    """Raise ModelError if the step is another one when it is captured again."""
    keys = Variant.of(calls).keys
    if any(Variant.of(other).keys != keys for other in others):
        raise ModelError(
            "no two steps are alike, so that none can be counted twice",
            cause="the model draws from a generator of its own, or keeps count of its steps where nobody sees it",
            hint="leave out --check: a profile is the average of steps that vary",
        )


def compared(calls: Sequence[OpCall], torch_flops: dict[str, float], torch_failed: str, unseen: Unseen) -> Check:
    """The captured calls beside what torch counted of each operator ("aten.mm")."""
    ours: dict[str, float] = defaultdict(float)
    number: Counter[str] = Counter()
    uncounted: Counter[str] = Counter()
    exceptions: dict[str, str] = defaultdict(str)
    known = {str(op) for op in flop_registry}
    for call in calls:
        if call.metadata:
            continue
        name = call.op.rpartition(".")[0]
        cost = cost_of(call.op, call.args, call.outputs)
        if cost is None:
            uncounted[name] += 1
        if name in known:
            ours[name] += cost.flops if cost else 0.0
            number[name] += 1
            exceptions[name] = exceptions[name] or _exception(name, call)
    rows: list[OperatorCheck] = []
    for name in sorted({*ours, *torch_flops}):
        row = OperatorCheck(op=name, calls=number[name], flops=ours[name], torch_flops=torch_flops.get(name, 0.0))
        rows.append(row if row.agrees else replace(row, exception=exceptions[name]))
    rows.sort(key=lambda row: -max(row.flops, row.torch_flops))
    return Check(
        operators=() if torch_failed else tuple(rows),
        uncounted=tuple(uncounted.most_common()),
        unseen=unseen,
        torch_failed=torch_failed,
    )


def _exception(name: str, call: OpCall) -> str:
    """Why FLOPs of a call rightly differ from torch's."""
    if "attention" in name:
        if any(arg is True for arg in call.args):  # a scale of 1 equals it
            return "causal: torch counts the masked half too"
        return "torch counts masked and padded positions in its own way"
    if name == "aten.convolution_backward" and any(isinstance(arg, int) and arg > 1 for arg in call.args[-2:-1]):
        return "groups: torch counts the gradients of grouped convolutions as dense"
    wanted = call.args[-1] if call.args else None
    if name == "aten.convolution_backward" and isinstance(wanted, list) and wanted[-1] is True:
        return "bias: torch leaves out its gradient"
    if any(isinstance(arg, dict) and ("elements" in arg or "sparse" in arg) for arg in call.args):
        return "sparse or nested: torch counts it as dense"
    if any(isinstance(arg, dict) and str(arg.get("dtype", "")).startswith("complex") for arg in call.args):
        return "complex: torch counts a product of complex numbers as one of real numbers"
    return ""


class _Counter(FlopCounterMode):
    """Without torch's tracker of modules, which fails where a model takes gradients in its forward. A tensor that wraps
    others, such as a jagged one, is asked for its operators on these, as in the capture: torch's own counter takes it
    for a plain one and fails. Higher-order operators and people's own are taken apart as there, too."""

    class Everything(nullcontext[None]):
        parents = frozenset({"Global"})

    class Mode(_FlopCounterMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            tensors = operand_tensors(args, kwargs or {})
            if any(map(wraps_others, tensors)):
                return NotImplemented
            if isinstance(func, HigherOrderOperator):
                return run_in_parts(func, args, kwargs or {}, self)
            if is_own(func):
                return run_seen_inside(func, args, kwargs or {}, tensors, within=self)
            return super().__torch_dispatch__(func, types, args, kwargs)  # type: ignore[no-untyped-call]

    def __init__(self) -> None:
        super().__init__(display=False)
        self.mod_tracker = self.Everything()  # type: ignore[assignment]

    def __enter__(self) -> Self:
        self.flop_counts.clear()
        self.mode = self.Mode(self)
        self.mode.__enter__()
        return self


def _counted_by_torch(turn: Successive) -> tuple[dict[str, float], str]:
    """FLOPs by operator, and why there are none."""
    run = prepared(turn, 0)
    try:
        with torch.compiler.set_stance("force_eager"), _Counter() as counter:
            assert counter.mode is not None  # it is entered
            with derivatives_seen(counter.mode):
                run()
    except StatsNetError as error:
        return {}, (error.cause or error.message).splitlines()[0]
    found = counter.get_flop_counts().get("Global", {})
    return {str(op): float(flops) for op, flops in found.items()}, ""
