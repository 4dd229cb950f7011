"""Work that the profiler sees in a step and the capture does not: in threads of the model's own, in compiled regions,
in CUDA graphs. A signature without it would be wrong, so it is named with its share of the time, or refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from statsnet.errors import ModelError
from statsnet.measure.profiler_events import PACKAGED, TRACED, Event, StepEvents, profiling
from statsnet.profiling.beside_calls import work_beside
from statsnet.profiling.capture import OpCall
from statsnet.profiling.event_names import COMPILED
from statsnet.profiling.timeline import join_by_name, join_in_order
from statsnet.signatures.categories import base_name
from statsnet.signatures.collectives import group_size, is_collective, kind_of
from statsnet.signatures.operators import tensors_of
from statsnet.workloads.hidden_operators import WITHOUT_COMPILER

MOST_UNSEEN = 0.02
"""A signature may lack this share of a step's calls or time."""

LONGEST_NAMED = 5

WITHOUT_HIGHER_ORDER = (
    "use --mode inference, or write it with Python's if and for (attention: scaled_dot_product_attention) for profiling"
)

_ENGINE = "autograd::engine::"
_TRACES = "AutogradOp"
"""How the names end of autograd functions that trace what they differentiate: those of higher-order operators."""
_TRACES_IF_TRAINED = "FlexAttentionAutogradOp"
"""This one is there without gradients, too, and then traces nothing."""
_FORWARD_MODE = "aten._has_same_storage_numel.default"
_FORWARD_MODE_EVENT = "aten::_has_same_storage_numel"
"""Asked whenever a tensor gets a tangent."""
_GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Seconds of one profiled step in events that belong to no captured call, by name; those in threads of the model's
    own, and those on a GPU that a CUDA graph launched, are also added up. `unmatched` of `timed` captured calls have no
    event, the others took `operators_s`. If derivatives of higher-order operators are `traced` in the step, events of
    no work look like work; if a part is `compiled`, some of its work has no event."""

    step_s: float
    by_name: dict[str, float] = field(default_factory=dict)
    in_threads_s: float = 0.0
    in_graphs_s: float = 0.0
    unmatched: int = 0
    timed: int = 0
    operators_s: float = 0.0
    is_forward_mode: bool = False
    is_traced: bool = False
    is_compiled: bool = False

    @property
    def time_share(self) -> float:
        return sum(self.by_name.values()) / self.step_s if self.step_s else 0.0

    @property
    def thread_share(self) -> float:
        """The part of threads of the model's own in the time of all operators: on a busy machine, starting them may
        take most of a step."""
        return self.in_threads_s / (self.in_threads_s + self.operators_s) if self.in_threads_s else 0.0

    @property
    def share(self) -> float:
        """How much is missing, by time or by calls."""
        return max(self.time_share, self.call_share, self.thread_share)

    @property
    def call_share(self) -> float:
        return self.unmatched / self.timed if self.timed else 0.0

    @property
    def shares(self) -> list[tuple[str, float]]:
        """Names with their shares of the step's time, the largest first."""
        ordered = sorted(self.by_name.items(), key=lambda item: -item[1])
        return [(name, time_s / self.step_s if self.step_s else 0.0) for name, time_s in ordered]

    @property
    def is_too_much(self) -> bool:
        """Whether more is missing than a signature may lack."""
        return self.is_traced or self.share > MOST_UNSEEN

    @property
    def beside_operators(self) -> Unseen:
        """The part that no other choice of operators explains: threads of the model's own, graphs, compiled regions."""
        by_name = {name: time_s for name, time_s in self.by_name.items() if name.startswith(COMPILED)}
        others = {"threads of the model's own": self.in_threads_s, "CUDA graphs": self.in_graphs_s}
        by_name |= {name: time_s for name, time_s in others.items() if time_s}
        return replace(self, by_name=by_name, unmatched=0)

    def check(self) -> None:
        """Raise ModelError if over MOST_UNSEEN of the calls or of the time is not known."""
        if not self.is_too_much:
            return
        if self.is_traced:
            raise ModelError(
                "the step cannot be told operator by operator",
                cause="in each step torch traces the derivative of a higher-order operator (torch.cond, while_loop, "
                "scan, flex_attention) anew, on tensors without data",
                hint=WITHOUT_HIGHER_ORDER,
            )
        shares = ", ".join(f"{name} {share:.1%}" for name, share in self.shares[:LONGEST_NAMED])
        cause, hint = self._why()
        raise ModelError(
            f"{self.share:.1%} of the step cannot be told operator by operator",
            cause=cause + (f" (of the step's time: {shares})" if shares else ""),
            hint=hint,
        )

    def _why(self) -> tuple[str, str]:
        half_s = 0.5 * sum(self.by_name.values())
        if self.in_threads_s > half_s:
            return (
                "the model computes in threads of its own, and only the thread that runs the step is captured",
                "run these parts one after another while you profile: a loop or map() in place of a pool's",
            )
        if PACKAGED in self.by_name:
            return (
                "the model runs an AOTInductor package, which is compiled and runs in one piece",
                "profile the model or exported program that it was made of; --setting compile=inductor measures that "
                "compiled",
            )
        if any(name.startswith(COMPILED) for name in self.by_name) or (self.is_compiled and self.unmatched):
            return (
                "a part of the model is compiled, and runs in one piece",
                f"leave torch.compile out of the model, as {WITHOUT_COMPILER}=1 does, and use --setting "
                "compile=inductor to measure it compiled",
            )
        if self.in_graphs_s > half_s:
            return (
                "the model launches a CUDA graph of its own, whose kernels belong to no operator",
                "leave the graph out of the model, and use --setting graphs=cuda to measure the step as one",
            )
        if self.is_forward_mode:
            return (
                "the model takes derivatives in forward mode (jvp), whose operators the profiler shows inside others",
                "take them in reverse mode (vjp, grad), or profile the parts without them",
            )
        if self.time_share > MOST_UNSEEN:
            return (
                "it is spent in calls that torch's dispatcher does not show to a capture",
                "register the extension's functions with torch.library, or call them outside of the model",
            )
        return (
            f"{self.unmatched} of {self.timed} captured calls were not found in profiled steps, which differ from them",
            "make successive steps call the same operators, or report the model's operators if they do",
        )


def check_collectives(works: int, calls: list[OpCall]) -> None:
    """Raise ModelError if a step, all of whose threads were profiled, began more of its processes' collectives
    (`works`) than were captured."""
    known = sum(_works_of(call) for call in calls if is_collective(call.op))
    if works > known:
        raise ModelError(
            f"{works - known} of the step's {works} collectives run in threads where nothing is captured",
            cause="a communication hook begins them, and computes, when another has ended, as DDP's PowerSGD does; or, "
            "in a loop, the steps that communicate were not among those captured",
            hint="count the step with --device meta, or profile it without this hook; those that only cast "
            "(fp16_compress_hook) can be profiled",
        )


def _works_of(call: OpCall) -> int:
    """How many works gloo makes of a collective, at most: of a reduce-scatter a sum for each tensor of its lists."""
    if base_name(call.op) == "monitored_barrier_":
        return 2 * (group_size(call) or 1)  # an answer from each process and one to each
    lists = [len(tensors_of([arg])) for arg in call.args] if kind_of(call.op) == "reduce_scatter" else []
    return max([1, *lists])


def look_for_unseen(step: Callable[[], Any], calls: list[OpCall], *, device: str) -> tuple[Unseen, StepEvents]:
    """Profile one step, all its threads, with shapes; and say what of it the captured calls lack."""
    with profiling(device, record_shapes=True, all_threads=True) as session:
        step()
    events = StepEvents.take(session)
    return unseen_in(events, calls, device=device), events


def unseen_in(step: StepEvents, calls: list[OpCall], *, device: str) -> Unseen:
    """What a profiled step holds beside the captured calls."""
    known = _in_threads(step)
    matched = join_in_order(_without(step, known), calls)
    if matched is None:
        matched = join_by_name(step, calls)
    taken = {id(event) for event in matched.values()}
    seconds = work_beside(step.roots, taken, calls)
    in_threads_s = sum(work_beside([root for root in step.roots if id(root) in known], taken, calls).values())
    in_graphs_s = 0.0
    if device == "cuda":
        seconds, in_graphs_s = _unseen_kernels(step, taken)
    return Unseen(
        step_s=step.step.elapsed_s,
        by_name=dict(seconds),
        in_threads_s=0.0 if device == "cuda" else in_threads_s,
        in_graphs_s=in_graphs_s,
        unmatched=sum(1 for call in calls if not call.metadata) - len(matched),
        timed=sum(1 for call in calls if not call.metadata),
        is_forward_mode=any(call.op == _FORWARD_MODE for call in calls) or _FORWARD_MODE_EVENT in seconds,
        operators_s=sum(event.elapsed_s for event in matched.values()),
        is_traced=_is_traced({event.name for event in step.inside}),
        is_compiled=any(event.name.startswith(COMPILED) for event in step.inside),
    )


def _is_traced(names: Collection[str]) -> bool:
    """Whether a derivative was traced and nothing tells where."""
    if TRACED in names:
        return False
    is_trained = any(name.endswith(f"{_TRACES_IF_TRAINED}Backward") for name in names)
    return any(n.endswith(_TRACES) and (is_trained or not n.endswith(_TRACES_IF_TRAINED)) for n in names)


def in_one_thread(step: StepEvents) -> StepEvents:
    """The step without what threads of the model's own did meanwhile."""
    return _without(step, _in_threads(step))


def _in_threads(step: StepEvents) -> set[int]:
    """The ids of outermost events in threads of the model's own."""
    own = {id(event) for event in step.step.children}
    return {id(root) for root in step.roots if id(root) not in own and not root.name.startswith(_ENGINE)}


def _without(step: StepEvents, left_out: Collection[int]) -> StepEvents:
    roots = [root for root in step.roots if id(root) not in left_out]
    return replace(step, roots=roots)


def _unseen_kernels(step: StepEvents, taken: Collection[int]) -> tuple[dict[str, float], float]:
    """Seconds of kernels on a GPU whose operator is no captured call, by the name of what launched them."""
    placed: set[int] = set()
    launchers: dict[int, str] = {}
    stack: list[tuple[Event, bool]] = [(root, False) for root in step.roots]
    while stack:
        event, is_inside = stack.pop()
        is_inside = is_inside or id(event) in taken
        for kernel in event.kernels:
            launchers[id(kernel)] = event.name
            if is_inside:
                placed.add(id(kernel))
        stack.extend((child, is_inside) for child in event.children)
    seconds: dict[str, float] = defaultdict(float)
    in_graphs_s = 0.0
    for kernel in step.on_device:
        if id(kernel) in placed or kernel.is_copy:
            continue
        launcher = launchers.get(id(kernel), "no operator")
        seconds[launcher] += kernel.elapsed_s
        in_graphs_s += kernel.elapsed_s if launcher.startswith(_GRAPH_LAUNCHES) or launcher == "no operator" else 0.0
    return seconds, in_graphs_s


def largest(unseen: Iterable[Unseen]) -> Unseen:
    """The one that lacks the largest share of its time or calls."""
    return max(unseen, key=lambda each: each.share)
