"""What a user should know of how a signature's steps were measured, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from statsnet.profiling.laps import Lap
from statsnet.profiling.step_trace import StepTrace
from statsnet.profiling.timeline import PAUSE_S
from statsnet.profiling.trace import MANY_CALLS
from statsnet.profiling.unseen import MOST_UNSEEN
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Signature
from statsnet.units import format_duration

SHORT_STEP_S = 100e-6
MUCH_RECORDING = 0.2
"""Events whose recording takes longer than this share of the step are named."""
MUCH_UNEXPLAINED = 0.3
"""Times that add up to so much more or less than the step are named: disturbed were other operators in each step."""
MUCH_DENORMAL = 0.1
"""Of an operator's results, and of a step."""
SURE_PAUSE_S = 1e-3
"""On a busy machine some 0.2 ms may pass between two operators in every step, with no work in them."""
SURE_PAUSE_SHARE = 0.1
"""Shorter pauses are named where they take this share of a step."""


def steps_notes(signature: Signature) -> Iterator[str]:
    """Inputs that stand for others, steps that vary, steps that are short beside what measuring them takes."""
    if (sample := signature.inputs) is not None and len(sample.stands_for) < sample.distinct:
        yield (
            f"{len(sample.stands_for)} of {sample.distinct} distinct inputs were profiled and stand for "
            f"{' + '.join(map(str, sample.stands_for))} steps: their mean work is within {sample.work_error:.1%} "
            "of that of all"
        )
    for measurement in signature.measurements[:1]:
        yield from _measured(measurement, signature.calls_per_step)


def cut_note(lap: Lap | None) -> Iterator[str]:
    """What was not looked at, for want of time."""
    if lap is not None and lap.is_cut and not (lap.goes_on or lap.grows):
        yield (
            "something tells that the model counts its steps. There was time to compare "
            f"{len(lap.order)} of them, one after another: what it does less often is left out"
        )


def pauses_note(traces: Sequence[StepTrace]) -> Iterator[str]:
    """Pauses that every profiled step has and that are a notable share of it."""
    trace = max(traces, key=lambda trace: trace.pauses_s / trace.latency_s)
    share = trace.pauses_s / trace.latency_s
    if share > (MOST_UNSEEN if trace.pauses_s > SURE_PAUSE_S else SURE_PAUSE_SHARE):
        yield (
            f"{min(share, 1.0):.0%} of a step lies in pauses of over {format_duration(PAUSE_S)} between operators: "
            "work that torch does not see, as of a C++ extension, numpy or Python, or of other programs on a busy "
            "machine. It counts as time outside operators; an extension's functions are seen once they are registered "
            "with torch.library"
        )


def denormals_note(traces: Sequence[StepTrace]) -> Iterator[str]:
    """Operators that compute numbers next to zero, where they take a notable share of a step."""
    share = max(map(_denormal_share, traces))
    if share > MUCH_DENORMAL:
        yield (
            f"{min(share, 1.0):.0%} of a step goes to operators whose results are denormal, nearer to zero than 1e-38. "
            "Many processors take up to a hundred times longer for these, and a proxy holds none. If the trained model "
            "has none either (weights drawn at random are often too small), call torch.set_flush_denormal(True) in the "
            "model's file"
        )


def _denormal_share(trace: StepTrace) -> float:
    return sum(c.time_s or 0.0 for c in trace.calls if c.denormal_share > MUCH_DENORMAL) / trace.latency_s


def _measured(measurement: Measurement, calls: float) -> Iterator[str]:
    if (variation := measurement.variation) is not None and variation.distinct == 1:
        yield f"the average of {variation.steps} steps is given; its time is known to ±{variation.time_error:.1%}"
    elif variation is not None:
        yield (
            f"steps are not alike: the average of {variation.steps} is given, {variation.distinct} of them distinct. "
            f"Work varies by {variation.work_deviation:.0%}, the mean is known to ±{variation.work_error:.1%} "
            f"(time ±{variation.time_error:.1%})"
        )
    if measurement.unmatched_calls:
        yield f"{measurement.unmatched_calls:.4g} calls a step were not found in profiled steps, and have no time"
    if measurement.unexplained_share is not None and abs(measurement.explained_share - 1) > MUCH_UNEXPLAINED:
        yield (
            f"the times of operators and of what lies between them add up to {measurement.explained_share:.0%} of the "
            "step's time, as on a machine that does other work meanwhile: let it rest and profile again, or measure "
            "longer (--min-time 10s)"
        )
    is_notable = measurement.latency_s < SHORT_STEP_S or calls > MANY_CALLS
    if measurement.recording_s and (is_notable or measurement.recording_s > MUCH_RECORDING * measurement.latency_s):
        yield (
            f"recording its events lengthened a profiled step by {format_duration(measurement.recording_s)}, which was "
            f"taken off; the step itself takes {format_duration(measurement.latency_s)}"
        )
