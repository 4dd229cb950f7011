"""Every reader of a file or text that a stranger may have written, with small inputs that it takes in.

A reader goes as far as a command does that only looks: from the file to the tables on the terminal, and for signatures
on to the blocks that would stand for their operators.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.fuzzing import commands, result_seeds, seeds
from benchmarks.fuzzing.limits import TIME_S
from benchmarks.fuzzing.mutation import Choices, changed_bytes, changed_document
from statsnet.analysis.audit import problems_of_signature
from statsnet.analysis.audit_files import audit_file
from statsnet.blocks import readings
from statsnet.devices.cut_risk import load_risk
from statsnet.devices.device_record import load_record
from statsnet.devices.tables.reading import read_all
from statsnet.errors import StatsNetError
from statsnet.evaluation.scenario_compare import NamedScenario, scenario_standings
from statsnet.evaluation.standings import NamedResult, standings
from statsnet.exports.build_manifest import manifest_of_signature
from statsnet.exports.simulator_proxy import manifest_of_simulation
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.ncu_csv import read_counters
from statsnet.measure.rounds_log import RoundsLog
from statsnet.profiling.coarse_scalars import coarse_arguments
from statsnet.profiling.costs import cost_of
from statsnet.profiling.operator_schemas import is_replayable, misfit
from statsnet.profiling.replay_task import Replayed
from statsnet.proxy.spec import source_of, texts_of
from statsnet.recordings.execution_trace import read_execution_trace
from statsnet.recordings.kineto import read_kineto
from statsnet.recordings.onnx_model import read_onnx
from statsnet.reporting.device import record_report
from statsnet.reporting.front import front_svg, load_search
from statsnet.reporting.html.of_proxy import proxy_section
from statsnet.reporting.html.of_result import result_section
from statsnet.reporting.html.of_scenario import scenario_section
from statsnet.reporting.html.of_signature import signature_section
from statsnet.reporting.proxy import fit_report, proxy_report
from statsnet.reporting.scenarios import scenario_report, scenario_standings_report
from statsnet.reporting.signature import signature_report
from statsnet.reporting.standings import standings_report
from statsnet.reporting.validation import validation_report
from statsnet.signatures import packed
from statsnet.signatures.documents import ProxySpec
from statsnet.signatures.levels import coarsen
from statsnet.signatures.mix_file import load_mix_file
from statsnet.signatures.mix_request import parse_mix
from statsnet.signatures.storage import load_fit, load_result, load_scenario, load_signature, load_spec, validate
from statsnet.signatures.target import target_of
from statsnet.synthesis.search.study import Study
from statsnet.synthesis.search.study_storage import OwnJournal
from statsnet.workloads.settings import parse_settings

T = TypeVar("T")

KEY = "ab" * 32
"""Of the cache's one entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """`read` is given a file called `name`, and may take `time_s`; `seeds` are contents that it takes in. Of `document`
    (JSON; of `lines`, each is one), values are changed as well as bytes. `make` makes contents in a way of its own."""

    name: str
    read: Callable[[Path], object]
    seeds: Callable[[], Sequence[bytes]]
    document: bool = False
    lines: bool = False
    make: Callable[[bytes], bytes] | None = None
    time_s: float = TIME_S

    @property
    def inputs(self) -> Sequence[bytes]:
        """The seeds, made once. Empty where a package is missing that reads them."""
        return _kept(self.seeds)

    def content(self, data: bytes) -> bytes:
        """One of the seeds, changed as these bytes choose."""
        if self.make is not None:
            return self.make(data)
        choices = Choices(data)
        seed = choices.one_of(self.inputs)
        if self.lines and choices.below(4):
            return _changed_line(seed, choices)
        if not self.document or choices.below(8) == 0:
            return changed_bytes(seed, choices)
        packed_too = seed.startswith(b"\x1f\x8b")
        text = changed_document(_unpacked(seed) if packed_too else seed, choices)
        return gzip.compress(text, 1, mtime=0) if packed_too and choices.below(4) == 0 else text


@cache
def _kept(made: Callable[[], Sequence[bytes]]) -> Sequence[bytes]:
    return made()


@cache
def _unpacked(seed: bytes) -> bytes:
    return gzip.decompress(seed)


def _changed_line(seed: bytes, choices: Choices) -> bytes:
    lines = seed.splitlines()
    at = choices.below(len(lines))
    lines[at] = changed_document(lines[at], choices)
    return b"\n".join(lines) + b"\n"


def look_once() -> None:
    """From now on what was read is looked at in one way, chosen by the file's content, and seldom in one of those that
    draw. Looking takes LOOKING of the time at most: it takes ten times as long as reading. Of many inputs, all ways see
    some."""
    global _spared
    _spared = _Spared()


class _Spared:
    """Says whether there is time for a look. Time is that of the processor."""

    def __init__(self) -> None:
        self._began_s, self._looked_s = time.process_time(), 0.0

    @property
    def has_time(self) -> bool:
        return self._looked_s <= LOOKING * (time.process_time() - self._began_s)

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        begin_s = time.process_time()
        try:
            yield
        finally:
            self._looked_s += time.process_time() - begin_s


_spared: _Spared | None = None
LOOKING = 0.25
SELDOM = 128
"""One in so many inputs is drawn: a picture or a table on a terminal takes as long as reading a hundred files."""


def _look(path: Path, *looks: Callable[[], object], drawn: Sequence[Callable[[], object]]) -> None:
    """In all these ways, each of which may refuse what the others take."""
    if _spared is None:
        _each([*looks, *drawn], lambda look: look())
    elif _spared.has_time:
        turn, number = divmod(zlib.crc32(path.read_bytes()), SELDOM)
        kind = looks if number else drawn
        with _spared.looking():
            _each(kind[turn % len(kind) :][:1], lambda look: look())


def _signature(path: Path) -> None:
    signature = load_signature(path)
    clusters = signature.clusters
    _look(
        path,
        lambda: signature_report(signature),
        lambda: coarsen(signature, "coarse", cost_of),
        lambda: coarsen(signature, "statistical", cost_of),
        lambda: _each(clusters, lambda c: cost_of(c.op, c.args, c.outputs)),
        lambda: _each(clusters, lambda c: misfit(c.op, c.args) if is_replayable(c.op) else None),
        lambda: _each(clusters, lambda c: readings([c])),
        lambda: _each(signature.motifs, lambda motif: readings([clusters[i] for i in motif.clusters])),
        lambda: target_of(signature),
        lambda: manifest_of_signature(signature, "signature"),
        lambda: problems_of_signature(signature, coarse_arguments),
        lambda: signature_section("signature", signature),
        drawn=[lambda: _shown(signature_report(signature))],
    )


def _each(parts: Iterable[T], look: Callable[[T], object]) -> None:
    for part in parts:
        with contextlib.suppress(StatsNetError):
            look(part)


def _shown(report: Sequence[Any]) -> None:
    """As on a terminal. Raises ValueError if control characters would reach it."""
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=200, markup=False, highlight=False, emoji=False).print(*report)
    if any(not (c.isprintable() or c in "\n") for c in out.getvalue()):
        raise ValueError("a control character reaches the terminal")


def _spec(path: Path) -> None:
    spec = load_spec(path)
    _look(
        path,
        lambda: proxy_report(spec, None),
        lambda: proxy_section("proxy", spec, None, None),
        lambda: source_of(spec),
        lambda: audit_file(path, path.name),
        drawn=[lambda: _shown(proxy_report(spec, None))],
    )


def _fit(path: Path) -> None:
    fit = load_fit(path)
    spec = _small_spec() if fit.simulation is None else seeds.simulator_proxy_of_two().spec
    _look(
        path,
        lambda: fit_report(fit),
        lambda: None if fit.simulation is None else manifest_of_simulation(spec, fit),
        lambda: proxy_section("proxy", spec, fit, None),
        lambda: texts_of(spec, fit),
        drawn=[lambda: _shown(fit_report(fit))],
    )


@cache
def _small_spec() -> ProxySpec:
    document = json.loads(seeds.specs()[0])
    spec: ProxySpec = validate(document, document["kind"])
    return spec


def _result(path: Path) -> None:
    result = load_result(path)
    both = [NamedResult(name=name, result=result) for name in ("a", "b")]
    _look(
        path,
        lambda: validation_report(result),
        lambda: result_section("result", result),
        lambda: standings_report(standings(both)),
        drawn=[lambda: _shown(validation_report(result)), lambda: _shown(standings_report(standings(both)))],
    )


def _scenario(path: Path) -> None:
    result = load_scenario(path)
    both = [NamedScenario(name=name, result=result) for name in ("a", "b")]
    _look(
        path,
        lambda: scenario_report(result),
        lambda: scenario_section("scenario", result),
        lambda: scenario_standings_report(scenario_standings(both)),
        lambda: audit_file(path, path.name),
        drawn=[
            lambda: _shown(scenario_report(result)),
            lambda: _shown(scenario_standings_report(scenario_standings(both))),
        ],
    )


def _search(path: Path) -> None:
    search = load_search(path)
    _look(
        path,
        lambda: proxy_section("proxy", _small_spec(), None, search),
        lambda: audit_file(path, path.name),
        drawn=[lambda: front_svg(search)],
    )


def _device(path: Path) -> None:
    record = load_record(path)
    _look(path, lambda: record_report(record), drawn=[lambda: _shown(record_report(record))])


def _cache(path: Path) -> None:
    place = path.parent / KEY[:2] / f"{KEY}.json"
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(path.read_bytes())
    MeasurementCache(path.parent).get(KEY, Replayed)


def _packed(path: Path) -> None:
    for file in packed.files(path):
        packed.read(file, 1 << 20)


def _journal(path: Path) -> None:
    """As `synthesize --resume` goes on with it. Optuna draws the next design slowly."""
    storage = OwnJournal(path=path, resume=True)
    with storage.held(), contextlib.closing(Study(storage, result_seeds.SEARCH)) as study:
        study.tried()
        _look(path, lambda: study.claim(9), drawn=[lambda: study.claim(9)])


def _joined(path: Path) -> None:
    """An execution trace beside a recording that lacks shapes."""
    trace = path.with_name("ab")
    if not trace.exists():
        trace.write_bytes(seeds.trace_without_shapes())
    read_kineto(trace, execution_trace=path)


def _text(read: Callable[[str], object]) -> Callable[[Path], object]:
    return lambda path: read(path.read_bytes().decode("utf-8", errors="replace"))


READERS: dict[str, Reader] = {
    reader.name.partition(".")[0]: reader
    for reader in (
        Reader(name="signature.json", read=_signature, seeds=seeds.signatures, document=True),
        Reader(name="spec.json", read=_spec, seeds=seeds.specs, document=True),
        Reader(name="fit.json", read=_fit, seeds=seeds.fits, document=True),
        Reader(name="result.json", read=_result, seeds=result_seeds.results, document=True),
        Reader(name="scenario.json", read=_scenario, seeds=result_seeds.scenarios, document=True),
        Reader(name="search.json", read=_search, seeds=result_seeds.searches, document=True),
        Reader(name="device.json", read=_device, seeds=seeds.devices, document=True),
        Reader(name="trace.json", read=read_kineto, seeds=seeds.traces, document=True),
        Reader(name="execution_trace.json", read=read_execution_trace, seeds=seeds.execution_traces, document=True),
        Reader(name="ncu.csv", read=read_counters, seeds=seeds.counters),
        Reader(name="model.onnx", read=read_onnx, seeds=seeds.onnx_models),
        Reader(name="cache.json", read=_cache, seeds=seeds.cache_entries, document=True),
        Reader(name="table.csv", read=lambda p: read_all([p]), seeds=seeds.tables),
        Reader(name="packed.zip", read=_packed, seeds=seeds.archives),
        Reader(name="log.jsonl", read=lambda p: RoundsLog(p, here="here"), seeds=result_seeds.logs, lines=True),
        Reader(name="journal.log", read=_journal, seeds=result_seeds.journals, lines=True),
        Reader(name="risk.json", read=load_risk, seeds=seeds.risks, document=True),
        Reader(name="joined_nodes.json", read=_joined, seeds=seeds.joined_traces, document=True),
        Reader(name="mix.yaml", read=load_mix_file, seeds=seeds.mix_files),
        Reader(name="mix_text.txt", read=_text(parse_mix), seeds=seeds.mix_texts),
        Reader(name="settings.txt", read=_text(parse_settings), seeds=seeds.settings),
        Reader(name="command.json", read=commands.run_line, seeds=commands.command_lines, make=commands.changed_line,
               time_s=20.0),
    )
}  # fmt: skip
