"""Do the records of devices, made from published tables, agree with recordings of whole steps on these devices?

    python benchmarks/diagnostics/recorded_device_check.py RECORDING... [--device NAME] [--profiles DIR]

RECORDINGs are traces of torch.profiler, or folders of them. Each is imported, and each operator's kernel time in its
busiest step is compared with the record of the device that it names (or NAME). Per kind of operator: its share of the
kernel time, what was measured and predicted, and the median of predicted ÷ measured over calls.

The tables were timed warm, in loops or graphs; a step's operators find their weights in memory. Copies from and to the
host and collectives are left out. Kernels below 10 µs are shown apart: they are bound by their start, not by work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from benchmarks.console import markdown_table, parser, start
from statsnet.devices.device_record import DeviceRecord, load_record
from statsnet.devices.names import canonical_name, device_named
from statsnet.devices.operator_mapping import mapped
from statsnet.devices.performance_model import Evidence
from statsnet.devices.record_folder import is_record_file, record_paths
from statsnet.devices.recording_rows import timed_operators
from statsnet.devices.table_times import TableTimes
from statsnet.errors import UsageError
from statsnet.recordings.kineto import read_kineto
from statsnet.signatures.categories import base_name
from statsnet.signatures.database import default_profiles_dir
from statsnet.signatures.model import Signature

SHORT_S = 10e-6
COLUMNS = ("operator", "share", "measured µs", "predicted µs", "predicted ÷ measured", "median call",
           "exact", "modelled", "roofline")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One operator of a step: `measured_s` and `predicted_s` are of all its calls."""

    kind: str
    calls: float
    measured_s: float
    predicted_s: float
    evidence: Evidence

    @property
    def is_short(self) -> bool:
        return self.measured_s / self.calls < SHORT_S


def checked_operators(signature: Signature, record: DeviceRecord) -> list[Checked]:
    """The operators with kernels of a recorded step, each with its prediction."""
    (measurement,) = signature.measurements
    times = TableTimes(record)
    out = []
    for cluster, time_s in timed_operators(signature, measurement, Counter()):
        estimate = times.estimate(cluster.op, cluster.phase, cluster.args, cluster.outputs)
        parts = mapped(cluster.op, cluster.args, cluster.outputs) or ()
        kind = f"{parts[0].operator} {parts[0].dtype}" if parts else base_name(cluster.op)
        out.append(Checked(kind=kind, calls=cluster.calls, measured_s=time_s,
                           predicted_s=cluster.calls * estimate.time_s, evidence=estimate.evidence))  # fmt: skip
    return out


def weighted_median(values: Iterable[tuple[float, float]]) -> float:
    """Of (value, weight)."""
    ordered = sorted(values)
    half, seen = sum(w for _, w in ordered) / 2, 0.0
    for value, weight in ordered:
        seen += weight
        if seen >= half:
            return value
    raise ValueError("no values")


def row_of(title: str, operators: Sequence[Checked], total_s: float) -> list[str]:
    """A line of the table."""
    measured_s, predicted_s = sum(o.measured_s for o in operators), sum(o.predicted_s for o in operators)
    ratio = weighted_median((o.predicted_s / o.measured_s, o.calls) for o in operators)
    shares = [sum(o.predicted_s for o in operators if o.evidence == e) / predicted_s for e in get_args(Evidence)]
    return [
        title, f"{measured_s / total_s:.1%}", f"{1e6 * measured_s:,.0f}", f"{1e6 * predicted_s:,.0f}",
        f"{predicted_s / measured_s:.2f}", f"{ratio:.2f}", *(f"{share:.0%}" for share in shares),
    ]  # fmt: skip


def table_of(operators: Sequence[Checked], shown: float = 0.005) -> str:
    """Kinds of operators by their share of the kernel time; those below `shown` are added up."""
    total_s = sum(o.measured_s for o in operators)
    kinds: dict[str, list[Checked]] = {}
    for operator in operators:
        kinds.setdefault(operator.kind, []).append(operator)
    ordered = sorted(kinds.items(), key=lambda k: -sum(o.measured_s for o in k[1]))
    large = [(k, of) for k, of in ordered if sum(o.measured_s for o in of) >= shown * total_s]
    rest = [o for k, of in ordered if k not in dict(large) for o in of]
    short, long = [o for o in operators if o.is_short], [o for o in operators if not o.is_short]
    lines = [
        *(row_of(kind, of, total_s) for kind, of in large),
        *([row_of("others", rest, total_s)] if rest else []),
        *([row_of("*calls from 10 µs*", long, total_s)] if long else []),
        *([row_of("*calls below 10 µs*", short, total_s)] if short else []),
        row_of("**all**", operators, total_s),
    ]
    return markdown_table(COLUMNS, lines)


def recordings_in(paths: Iterable[Path]) -> list[Path]:
    """Files, and the traces in folders."""
    return [
        file
        for path in paths
        for file in (sorted((*path.glob("*.json"), *path.glob("*.json.gz"))) if path.is_dir() else [path])
    ]


def device_of(signature: Signature) -> str:
    """The canonical name of the device that a recording names. Raises UsageError if it names none."""
    name = signature.measurements[0].environment.get("device_name")
    if not name:
        raise UsageError("the recording does not name its device", hint="give --device")
    return canonical_name(str(name))


def record_named(name: str, profiles: Path) -> DeviceRecord:
    """The record that `name` stands for: a file, or a device of the database.

    Raises UsageError if it names none or several, FileFormatError if the file is damaged.
    """
    if is_record_file(name):
        return load_record(Path(name))
    paths = record_paths(profiles)
    return load_record(paths[device_named(name, paths.keys())])


def main() -> None:
    options = parser(__doc__)
    options.add_argument("recordings", nargs="+", type=Path)
    options.add_argument("--device", help="a record, instead of the device that a recording names")
    options.add_argument("--profiles", type=Path, default=default_profiles_dir())
    chosen = options.parse_args()
    for path in recordings_in(chosen.recordings):
        signature = read_kineto(path).signature
        name = chosen.device or device_of(signature)
        record = record_named(name, chosen.profiles)
        print(f"\n## {path.name.partition('.json')[0]} ({signature.mode}) against {record.device}\n")
        print(table_of(checked_operators(signature, record)))


if __name__ == "__main__":
    start(main)
