"""A device as a file: models of its operators' times, how good they are, and where they come from. JSON, packed with
gzip if the file's name ends in .gz."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Meta

from statsnet.devices.fit_performance import fit_device
from statsnet.devices.hardware import float32_of
from statsnet.devices.operator_work import work_of
from statsnet.devices.performance_model import Count, KindModel, Positive, Prediction, predict_rows
from statsnet.devices.reached import SIXTEEN_BIT, Reached, reached_by
from statsnet.devices.tables.provenance import RECORDING, Provenance, doubt_of, provenance_of
from statsnet.devices.tables.row import Direction, TableRow
from statsnet.devices.tables.words import LARGEST_WORK, check_dims, check_sizes
from statsnet.display import Displayed
from statsnet.errors import FileFormatError, UsageError
from statsnet.progress import Report, silent
from statsnet.signatures.canonical import write_bytes_atomically
from statsnet.signatures.gzipped import read_unpacked
from statsnet.signatures.strict_json import check_parts

KIND = "statsnet.device"
VERSION = 3
MAX_BYTES = 64 * 2**20
TITLE = "a recorded device"
_HINT = "statsnet device import makes one from tables"

Word = Annotated[str, Meta(max_length=400)]
Size = Annotated[int, Meta(ge=0, le=LARGEST_WORK)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactTime:
    """An operator of a recording, and the seconds of one call."""

    operator: Word
    dtype: Word
    dims: tuple[tuple[Word, Size], ...]
    variant: Word
    direction: Direction
    time_s: Positive

    @property
    def key(self) -> tuple[object, ...]:
        """As a row's, without its source."""
        return (self.operator, self.dtype, self.dims, self.variant, self.direction)


@dataclass(frozen=True, kw_only=True, repr=False)
class DeviceRecord(Displayed):
    """Everything known of a device that is not here. `exact` are operators of recordings, which are too few of a kind
    for a model; `left_out` says what of the sources was not used, and why."""

    kind: ClassVar[str] = KIND
    device: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,79}\Z")]
    models: tuple[KindModel, ...]
    reached: Reached
    sources: tuple[Provenance, ...]
    measured: Count
    exact: tuple[ExactTime, ...] = ()
    left_out: tuple[Word, ...] = ()

    @cached_property
    def _by_operator(self) -> dict[tuple[str, str, str], list[KindModel]]:
        found: dict[tuple[str, str, str], list[KindModel]] = {}
        for model in self.models:
            found.setdefault((model.operator, model.dtype, model.direction), []).append(model)
        return found

    @cached_property
    def _exact(self) -> dict[tuple[object, ...], float]:
        return {e.key: e.time_s for e in self.exact}

    def exact_s(self, row: TableRow) -> float | None:
        """Seconds of this very operator in a recording; None if none has it."""
        return self._exact.get(row.key[1:])

    def model_for(self, row: TableRow) -> KindModel | None:
        """The model of a row's kind; of several the one from its source, else one that knows its variant, else the one
        with most rows. The 16 bit dtypes stand for each other."""
        names = {name for name, _ in row.dims}
        for dtype in (row.dtype, SIXTEEN_BIT.get(row.dtype, "")):
            of_kind = self._by_operator.get((row.operator, dtype, row.direction), [])
            models = [m for m in of_kind if {*m.names} == names]
            if models:
                return max(models, key=lambda m: (m.source == row.source, row.variant in m.variants, m.rows))
        return None

    @cached_property
    def _rates(self) -> Reached:
        """What it reached. Tables in 16 bit say nothing of float32, which matrix units do not compute: that rate is the
        data sheet's."""
        float32 = float32_of(self.device)
        if float32 is None or "float32" in self.reached.flops_per_s:
            return self.reached
        return replace(self.reached, flops_per_s={**self.reached.flops_per_s, "float32": float32})

    def roofline(self, dtype: str, flops: float, nbytes: float) -> Prediction:
        """An operator that no source has, from its work."""
        return self._rates.estimate(dtype, flops, nbytes)

    def predict(self, rows: Sequence[TableRow]) -> list[Prediction]:
        """Times of operators; the rows' own times are not looked at. What was recorded exactly has that time, what no
        source has is estimated from the roofline, and the evidence says so."""
        out: dict[int, Prediction] = {}
        groups: dict[int, tuple[KindModel, list[int]]] = {}
        for i, row in enumerate(rows):
            if (time_s := self.exact_s(row)) is not None:
                out[i] = Prediction(time_s=time_s, evidence="exact")
            elif (model := self.model_for(row)) is not None:
                groups.setdefault(id(model), (model, []))[1].append(i)
            else:
                work = work_of(row.operator, row.dtype, dict(row.dims), row.variant)
                out[i] = self.roofline(row.dtype, *work)
        for model, places in groups.values():
            times_s = predict_rows(model, self.device, [rows[i] for i in places])
            out |= {i: Prediction(time_s=float(time_s)) for i, time_s in zip(places, times_s, strict=True)}
        return [out[i] for i in range(len(rows))]


def build_record(
    rows: Sequence[TableRow],
    device: str,
    *,
    keep_doubtful: bool = False,
    report: Report = silent,
) -> DeviceRecord:
    """The record of a device from the rows that have its time. Raises UsageError if there are none, or too few."""
    here = [row for row in rows if device in row.time_s]
    if not here:
        known = sorted({d for row in rows for d in row.time_s})
        raise UsageError(
            f"no source has times of '{device}'",
            cause=f"they have {', '.join(known[:40]) or 'none'}", hint="give one of these names",
        )  # fmt: skip
    doubts = Counter(doubt for row in here if (doubt := doubt_of(row, device))) if not keep_doubtful else Counter()
    clean = [row for row in here if keep_doubtful or not doubt_of(row, device)]
    models = fit_device(clean, device, report)
    exact = tuple(_exact_time(row, device) for row in clean if row.source == RECORDING)
    if not models and not exact:
        raise UsageError(
            f"the sources have too few clean times of '{device}'",
            cause="; ".join(doubts) or f"{len(clean)} operators of many kinds",
            hint="add tables or recordings, or --keep-doubtful if operators were left out as doubtful",
        )
    sources = sorted({row.source for row in clean})
    left_out = [f"{count} operators: {why}" for why, count in sorted(doubts.items())]
    return DeviceRecord(
        device=device, models=tuple(models), reached=reached_by(clean, device),
        sources=tuple(provenance_of(source) for source in sources), measured=len(clean), exact=exact,
        left_out=tuple(left_out),
    )  # fmt: skip


def _exact_time(row: TableRow, device: str) -> ExactTime:
    return ExactTime(operator=row.operator, dtype=row.dtype, dims=row.dims, variant=row.variant,
                     direction=row.direction, time_s=row.time_s[device])  # fmt: skip


def record_bytes(record: DeviceRecord) -> bytes:
    """The record as JSON; the same record gives the same bytes."""
    data = {"kind": KIND, "schema_version": VERSION, **msgspec.to_builtins(record)}
    return msgspec.json.encode(_rounded(data), order="sorted") + b"\n"


def save_record(path: Path, record: DeviceRecord) -> None:
    """Write a record. Raises FileFormatError if `load_record` would refuse it, StatsNetError if it cannot be
    written."""
    content = record_bytes(record)
    record_in(path, msgspec.json.decode(content))
    if path.name.endswith(".gz"):
        content = gzip.compress(content, compresslevel=9, mtime=0)
    write_bytes_atomically(path, content)


def load_record(path: Path) -> DeviceRecord:
    """A record, checked. Raises FileFormatError if it cannot be read, is damaged, or of another kind or version."""
    return record_in(path, read_plain(path))


def read_record(path: Path) -> DeviceRecord:
    """As `load_record`, but it is not looked at whether its models give times."""
    return _converted(path, read_plain(path))


def record_in(path: Path, data: Mapping[str, Any]) -> DeviceRecord:
    """The record that a file's JSON object is. Raises FileFormatError, which names the file, if it is none."""
    record = _converted(path, data)
    try:
        for exact in record.exact:
            check_dims(exact.operator, dict(exact.dims))
        for model in record.models:
            _check(model)
    except ValueError as error:
        raise _refused(path, error) from error
    return record


def _converted(path: Path, data: Mapping[str, Any]) -> DeviceRecord:
    content = content_of(path, data, KIND, VERSION, title=TITLE, hint=_HINT)
    try:
        return msgspec.convert(content, DeviceRecord, strict=True)
    except msgspec.ValidationError as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: Exception) -> FileFormatError:
    return FileFormatError(f"'{path}' is not {TITLE}", cause=str(error), hint=_HINT)


def content_of(
    path: Path, data: Mapping[str, Any], kind: str, version: int, *, title: str, hint: str
) -> dict[str, Any]:
    """A file's JSON object without its kind and version. Raises FileFormatError if these are others."""
    if data.get("kind") != kind or data.get("schema_version") != version:
        raise FileFormatError(
            f"'{path}' is not {title} that this StatsNet reads",
            cause=f"its kind is {str(data.get('kind'))[:40]!r}, version {str(data.get('schema_version'))[:20]}",
            hint=hint,
        )
    return {k: v for k, v in data.items() if k not in ("kind", "schema_version")}


def read_plain(path: Path) -> dict[str, Any]:
    """A JSON object, packed or not. Raises FileFormatError if it is none."""
    content = read_unpacked(path, most=MAX_BYTES)
    check_parts(content, path)
    try:
        data = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        cause = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise FileFormatError(f"'{path}' cannot be read as JSON", cause=cause, hint="take the file again") from error
    if not isinstance(data, dict):
        raise FileFormatError(f"'{path}' is no file of StatsNet", cause="it holds no JSON object")
    return data


def _check(model: KindModel) -> None:
    """Raises ValueError for a model that cannot be evaluated."""
    if not model.variants:
        raise ValueError("a model without variants")
    flags = len(model.variants) if len(model.variants) > 1 else 0
    if model.trees is not None:
        model.trees.check()
        if len(model.trees.thresholds) != len(model.features) + flags:
            raise ValueError(f"the trees of {model.operator} do not have as many features as the model")
    if (p := model.process) is not None:
        if not len(p.dims) == len(p.variants) == len(p.weights) or len(p.mean) != len(model.features) + flags:
            raise ValueError(f"the process of {model.operator} has parts of different lengths")
        if any(len(d) != len(model.names) for d in p.dims) or len(p.mean) != len(p.scale):
            raise ValueError(f"the process of {model.operator} has dims of another operator")
        if any(not 0 <= v < len(model.variants) for v in p.variants):
            raise ValueError(f"the process of {model.operator} has an unknown variant")
        for dims in p.dims:
            check_sizes(model.names, dims)
    try:
        sample = dict.fromkeys(model.names, 1)
        with np.errstate(all="ignore"):
            time_s = model.predict("", [tuple(sample.values())], [model.variants[0]])
        if not np.isfinite(time_s).all():
            raise ValueError(f"the model of {model.operator} gives no times")
    except (KeyError, IndexError) as error:
        raise ValueError(f"the model of {model.operator} needs what its dims do not give: {error}") from error


def _rounded(value: Any) -> Any:
    """Six significant digits for numbers, so that files are small."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(v) for v in value]
    return value
