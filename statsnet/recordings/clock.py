"""Whether a recording's times can be microseconds, as the format has them.

`displayTimeUnit` says only how a viewer shows them. What tells the unit is what takes about as long on every machine:
views, empty tensors and launches take 0.1 to 100 µs of the host's time. In 32 recordings of ten devices the shortest
tenth of such calls takes 0.2 to 30 µs.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from statsnet.errors import FileFormatError
from statsnet.recordings.chrome_trace import Recording
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.model import Signature
from statsnet.units import plural

SHORTEST_US, LONGEST_US = 0.1, 100.0
FEWEST, FEWEST_VIEWS = 5, 20
"""Fewer calls are no proof that times are too short, or too long."""

LEAST_US = 1.0
"""The longest event of a recording takes longer; in seconds, all of it would be less than a few nanoseconds."""

LATEST_DATE_NS = 4_100_000_000 * 10**9
"""The year 2099."""

MOST_FLOPS_PER_S, MOST_BYTES_PER_S = 4e16, 2e14
"""No single device of today reaches these rates, with Winograd's savings and caches counted in."""

HINT = "convert the times of its events (ts, dur) to microseconds, or export it anew with export_chrome_trace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why the times seem to be in another unit. It is certain if nothing else explains them."""

    unit: str
    why: str
    is_certain: bool

    def note(self) -> str:
        """For whoever reads the signature."""
        return f"the times may be {self.unit}, not microseconds: {self.why}"


def check_clock(recording: Recording, name: str) -> list[str]:
    """A note if the times may be in another unit. Raises FileFormatError if they are."""
    doubt = _by_date(recording) or _by_longest(recording) or _by_host(recording)
    if doubt is None:
        return []
    if doubt.is_certain:
        raise FileFormatError(f"the times in '{name}' are {doubt.unit}, not microseconds", cause=doubt.why, hint=HINT)
    return [doubt.note()]


def _by_date(recording: Recording) -> Doubt | None:
    """By the date on which it began, where the file has one."""
    base_ns = recording.head.get("baseTimeNanoseconds")
    first_ns = min((event.start_ns for event in recording.events), default=0)
    if recording.undated and not any(recording.operators):
        return Doubt(
            unit="nanoseconds", is_certain=True, why=f"{recording.undated} events begin more than 290 years after the "
            "beginning of their clock",
        )  # fmt: skip
    if isinstance(base_ns, int) and 0 < base_ns <= LATEST_DATE_NS < base_ns + first_ns:
        years = (base_ns + first_ns) / 1e9 / 86400 / 365.2425
        return Doubt(unit="nanoseconds", is_certain=True, why=f"it begins in the year {1970 + years:.0f}")
    return None


def _by_longest(recording: Recording) -> Doubt | None:
    lengths = [event.end_ns - event.start_ns for event in recording.events]
    longest_us = max(lengths, default=0) / 1e3
    if not any(recording.operators) or not 0 < longest_us < LEAST_US:
        return None
    why = f"the longest of {len(lengths)} events would take {longest_us:.3g} µs"
    return Doubt(unit="milliseconds or seconds", why=why, is_certain=len(lengths) + recording.copies >= FEWEST)


def _by_host(recording: Recording) -> Doubt | None:
    """By calls that do little. Too long ones are proof only if they are views: an empty tensor may wait for memory of
    the device, and some tools run each kernel several times within one launch."""
    timed = [e for e in recording.events if e.end_ns > e.start_ns]
    small = [e for e in timed if e.kind == "operator" and is_metadata(e.name.replace("::", "."))]
    views = [e for e in small if "empty" not in e.name]
    launches = [e for e in timed if e.kind == "launch" and "Launch" in e.name]
    proven = len(views) >= FEWEST_VIEWS
    calls = views if proven else [*small, *launches]
    lengths = sorted((e.end_ns - e.start_ns) / 1e3 for e in calls)
    if not lengths:
        return None
    usual, short = median(lengths), lengths[len(lengths) // 10]
    what = "views" if proven else "views, empty tensors and launches"
    if usual < SHORTEST_US:
        return Doubt(
            unit="milliseconds",
            why=f"half of the {len(lengths)} {what} would take less than {usual:.2g} µs of the host's time",
            is_certain=len(lengths) >= FEWEST,
        )  # fmt: skip
    if short > LONGEST_US:
        return Doubt(
            unit="nanoseconds", is_certain=proven,
            why=f"nine tenths of the {len(lengths)} {what} would take more than {short:.0f} µs of the host's time",
        )  # fmt: skip
    return None


def check_rates(signature: Signature, name: str) -> list[str]:
    """A note if operators took less time than any device needs. Raises FileFormatError if most of the work did."""
    too_fast, fast_s, all_s = 0, 0.0, 0.0
    (measurement,) = signature.measurements
    for cluster, time_s in zip(signature.clusters, measurement.cluster_time_s, strict=True):
        moved = (cluster.bytes_read or 0.0) + (cluster.bytes_written or 0.0)
        least_s = cluster.calls * max((cluster.flops or 0.0) / MOST_FLOPS_PER_S, moved / MOST_BYTES_PER_S)
        if time_s and least_s:
            all_s += least_s
            too_fast += time_s < least_s
            fast_s += least_s if time_s < least_s else 0.0
    if not too_fast:
        return []
    kinds = plural(too_fast, "kind")
    if fast_s > all_s / 2:
        raise FileFormatError(
            f"the times in '{name}' are shorter than any device could be",
            cause=f"{kinds} of operators, with most of the work, would run at more than {MOST_FLOPS_PER_S:.0e} FLOP/s "
            f"or {MOST_BYTES_PER_S:.0e} byte/s",
            hint=f"{HINT}; if they are microseconds, kernels or shapes are missing: record the whole step anew",
        )
    return [f"{kinds} of operators took less time than any device needs: their kernels or shapes are not all recorded"]
