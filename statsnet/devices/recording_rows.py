"""Operators of imported recordings as rows of a table: the other source of records beside published tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from statsnet.devices.names import canonical_name, is_known
from statsnet.devices.operator_mapping import table_operator
from statsnet.devices.tables.checks import fault_of
from statsnet.devices.tables.provenance import RECORDING
from statsnet.devices.tables.row import Merged, TableRow
from statsnet.errors import FileFormatError, UsageError
from statsnet.recordings.imported import Imported
from statsnet.recordings.kinds import kind_of
from statsnet.recordings.reading import ReadRecording, read_recording
from statsnet.signatures.categories import COLLECTIVE
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Cluster, Signature
from statsnet.signatures.storage import load_signature
from statsnet.units import plural

ENDINGS = (".json", ".json.gz")
HOST_COPIES = ("memcpy_htod", "memcpy_dtoh")
"""Their times are those of the bus, not of the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRows:
    """Rows with times by device; `notes` has a sentence for whatever was left out, and what a trace's reader notes."""

    rows: tuple[TableRow, ...]
    notes: tuple[str, ...]


def is_recording(path: Path) -> bool:
    """Whether a path is a trace or a signature rather than a table."""
    return path.name.endswith(ENDINGS) and not path.is_dir()


def read_recordings(paths: Sequence[Path], device: str) -> RecordedRows:
    """The operators of traces and of signatures with measurements. One that names no device, or by a name that fits
    several, is taken to be of `device`. An operator that several recordings have has the median of its times.

    Raises FileFormatError for a file that is neither, UsageError for one in which nothing was timed.
    """
    merged, notes = Merged(), []
    for path in paths:
        read = _read(path)
        signature = read.signature
        notes += [f"{path.name}: {note}" for note in read.notes]
        timed = [m for m in signature.measurements if any(m.cluster_time_s)]
        if not timed:
            raise UsageError(
                f"no operator in '{path}' has a time",
                cause="it was counted, or recorded without kernels", hint="give a recording of a whole step",
            )  # fmt: skip
        for measurement in timed:
            name, note = _device_of(measurement, device, path)
            left_out = _add(merged, signature, measurement, name)
            notes += [note] if note else []
            notes += [
                f"{path.name}: {plural(count, 'operator')} left out: {why}" for why, count in sorted(left_out.items())
            ]
    return RecordedRows(rows=tuple(merged.rows()), notes=tuple(notes))


def _read(path: Path) -> Imported:
    if not path.is_file():
        raise UsageError(f"'{path}' is not there", hint="name a recording, a signature or a table")
    try:
        return Imported(signature=load_signature(path), notes=())
    except FileFormatError as error:
        if kind_of(path) != "chrome_trace":
            raise FileFormatError(
                f"'{path}' has no times", cause="an execution trace or a model has shapes alone",
                hint="give a trace of torch.profiler, or a signature that was measured",
            ) from error  # fmt: skip
    return read_recording(ReadRecording(trace=str(path)))


def _device_of(measurement: Measurement, device: str, path: Path) -> tuple[str, str]:
    """The device's name, and a note if it is the user's word alone."""
    given = measurement.environment.get("device_name") or measurement.environment.get("cpu_model")
    if given and is_known(str(given)):
        return canonical_name(str(given)), ""
    called = f"calls its device '{given}'" if given else "names no device"
    name = canonical_name(device)
    return name, f"{path.name} {called}: taken to be {name}"


def _add(merged: Merged, signature: Signature, measurement: Measurement, device: str) -> Counter[str]:
    """Add a signature's operators; returns why others were left out, counted."""
    left_out: Counter[str] = Counter()
    for cluster, time_s in timed_operators(signature, measurement, left_out):
        row = table_operator(cluster.op, cluster.args, cluster.outputs).row(RECORDING, {device: time_s / cluster.calls})
        if fault := fault_of(row):
            left_out[fault] += 1
        else:
            merged.add(row)
    return left_out


def timed_operators(
    signature: Signature, measurement: Measurement, left_out: Counter[str]
) -> Iterator[tuple[Cluster, float]]:
    """The operators whose times are the device's own, with the seconds of all their calls. Why others are left out is
    counted."""
    timed = zip(signature.clusters, measurement.cluster_time_s, measurement.kernels, strict=True)
    for cluster, time_s, kernel in timed:
        if not time_s or not cluster.calls:
            continue
        if kernel and kernel.endswith(HOST_COPIES):
            left_out["copies from or to the host"] += 1
        elif cluster.category == COLLECTIVE:
            left_out["they wait for other devices"] += 1
        else:
            yield cluster, time_s
