"""What a user should know of how a signature's steps were measured, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Signature
from statsnet.units import format_duration

SHORT_STEP_S = 100e-6
MANY_CALLS = 10_000
MUCH_RECORDING = 0.2
"""Events whose recording takes longer than this share of the step are named."""


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


def _measured(measurement: Measurement, calls: float) -> Iterator[str]:
    if (variation := measurement.variation) is not None:
        yield (
            f"steps are not alike: the average of {variation.steps} is given, {variation.distinct} of them distinct. "
            f"Work varies by {variation.work_deviation:.0%}, the mean is known to ±{variation.work_error:.1%} "
            f"(time ±{variation.time_error:.1%})"
        )
    if measurement.unmatched_calls:
        yield f"{measurement.unmatched_calls:.4g} calls a step were not found in profiled steps, and have no time"
    is_notable = measurement.latency_s < SHORT_STEP_S or calls > MANY_CALLS
    if measurement.recording_s and (is_notable or measurement.recording_s > MUCH_RECORDING * measurement.latency_s):
        yield (
            f"recording its events lengthened a profiled step by {format_duration(measurement.recording_s)}, which was "
            f"taken off; the step itself takes {format_duration(measurement.latency_s)}"
        )
