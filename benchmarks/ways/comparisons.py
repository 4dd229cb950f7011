"""A suite beside each network, or few workloads, that may stand for it. Networks that are missing are made."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.suites import compression_text, spelled_out
from benchmarks.ways.baselines import NETWORKS, baseline_source, representatives
from statsnet.devices.make_proxy import MakeOptions, prepare_proxy, synthesize
from statsnet.environment.temporary import temporary_folder
from statsnet.evaluation.factors import subjects_of
from statsnet.evaluation.suite import suite_of
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.control import Control, Job
from statsnet.measure.engine import Pool
from statsnet.measure.rounds_log import RoundsLog, Subject
from statsnet.measure.timing_tasks import Limits, TimedStep, TimeNetwork
from statsnet.profiling.costs import cost_of
from statsnet.progress import Progress, Report
from statsnet.proxy.folder import open_proxy
from statsnet.proxy.spec import write_proxy
from statsnet.proxy.towers import Placed
from statsnet.signatures.levels import coarsen
from statsnet.signatures.mix_request import mix_slug
from statsnet.signatures.storage import save_signature
from statsnet.synthesis.problem import Problem, ProxyRequest
from statsnet.workloads.settings import RUNTIME, Setting

PROXY = "statsnet"
LIMITS = Limits(min_time_s=10.0, max_time_s=10.0)
"""How long each process of a group is timed: usually 10 to 25 windows."""

REPRESENTATIVES = 3
"""Workloads in the subset that stands for a suite; AIBench takes 3 of 17."""

SUBSET = "subset"
OTHERS = (SUBSET, *NETWORKS)
"""Other people's ways."""

COARSE = "coarse"
"""A proxy as whoever has the workloads' signatures at level `coarse` alone makes it: what that level costs."""

Weighted = tuple[float, Subject]
_Maker = Callable[[ProxyRequest, MakeOptions, Path], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A suite, and one way to stand for it: subjects with their weights. `compression` is None for the usual step."""

    mix: str
    mode: str
    compression: float | None
    way: str
    suite: Sequence[Weighted]
    stand_in: Sequence[Weighted]

    def subjects(self) -> Iterable[Subject]:
        return (subject for _, subject in (*self.suite, *self.stand_in))


def comparisons(
    mix: str,
    mode: str,
    compression: float | None,
    folder: Path,
    *,
    ways: Collection[str],
    cache: MeasurementCache,
    report: Report,
    pool: Pool | None = None,
) -> list[Comparison]:
    """A suite with its proxy, then with each of the other `ways` (of OTHERS). A network that is not in
    `folder` yet is made now, for the environment of the `pool` or of this machine."""
    options = MakeOptions(mode=mode, cache=cache, pool=pool)
    request = ProxyRequest(mix_text=spelled_out(mix), compression=compression)
    name = f"{mix_slug(mix)}.{mode}.{compression_text(compression)}"

    def network(way: str) -> list[Weighted]:
        path = folder / (name if way == PROXY else f"{name}.{way.replace(' ', '-')}")
        if not (path / "network.py").exists():
            report(Progress(stage=f"making '{way}' for {mix}, {mode}, compression {compression_text(compression)}"))
            MAKERS[way](request, options, path)
        return [(1.0, network_subject(path, f"{name}, {way}"))]

    stand_ins = {PROXY: network(PROXY)}
    proxy = open_proxy(folder / name)
    members = suite_of(proxy.spec)
    weights = [m.weight for m in members]
    suite = list(zip(weights, subjects_of(proxy, members, "cpu", LIMITS)[:-1], strict=True))
    for way in ways:
        if way != SUBSET:
            stand_ins[way] = network(way)
            continue
        signatures = [m.signature for m in members if m.signature]
        if len(signatures) < len(members):  # profiled when the proxy was made
            profiled = {m.name: m.signature for m in prepare_proxy(request, options).target.members}
            signatures = [profiled[m.name] for m in members]
        chosen = representatives(signatures, weights, min(REPRESENTATIVES, len(members)))
        stand_ins[SUBSET] = [(weight, suite[i][1]) for i, weight in chosen.items()]
    return [
        Comparison(mix=mix, mode=mode, compression=compression, way=way, suite=suite, stand_in=stand_in)
        for way, stand_in in stand_ins.items()
    ]


def _synthesize(request: ProxyRequest, options: MakeOptions, folder: Path) -> None:
    write_proxy(synthesize(request, options), folder)


def _baseline(choose: Callable[[Problem], list[tuple[Placed, int]]]) -> _Maker:
    """Writes network.py alone: there is neither spec nor fit."""

    def make(request: ProxyRequest, options: MakeOptions, folder: Path) -> None:
        text = baseline_source(prepare_proxy(request, options), choose)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "network.py").write_text(text, encoding="utf-8")

    return make


def _of_coarse_signatures(request: ProxyRequest, options: MakeOptions, folder: Path) -> None:
    members = prepare_proxy(request, options).target.members
    with temporary_folder() as place:
        files = [place / f"{number}.json" for number in range(len(members))]
        for file, member in zip(files, members, strict=True):
            save_signature(file, replace(coarsen(member.signature, "coarse", cost_of), workload=None))
        text = ",".join(f"{file}:{member.weight!r}" for file, member in zip(files, members, strict=True))
        _synthesize(replace(request, mix_text=text), options, folder)


MAKERS: dict[str, _Maker] = {
    PROXY: _synthesize,
    COARSE: _of_coarse_signatures,
    **{way: _baseline(choose) for way, choose in NETWORKS.items()},
}
"""Way -> what makes its network, in a folder."""


def network_subject(folder: Path, label: str) -> Subject:
    """The network in a folder, identified by its source. It needs no spec, unlike a proxy."""
    digest = hashlib.sha256((folder / "network.py").read_bytes()).hexdigest()
    task = TimeNetwork(folder=str(folder.resolve()), network_sha256=digest, limits=LIMITS)

    def job(setting: Setting) -> Job[TimedStep]:
        return Job(task, Control(setting=setting, label=f"{label} ({setting.name})"))

    return Subject(identity=digest, label=label, job=job)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A comparison, and the settings that it is for."""

    comparison: Comparison
    settings: tuple[Setting, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(setting.name for setting in self.settings)


def plans(
    log: RoundsLog,
    comparison: Comparison,
    settings: Sequence[Setting],
    remake: Callable[[str, Comparison], Comparison],
) -> Iterator[Plan]:
    """The comparison for the settings in which every member runs, and smaller ones for runtimes in which some do not.

    `remake` makes one for the text of a smaller mix; its name says who is missing. Where nothing is left, the
    comparison stays whole, and has failed.
    """
    by_members: dict[frozenset[str], list[Setting]] = defaultdict(list)
    for setting in settings:
        by_members[failing(log, comparison, setting) if RUNTIME in setting.in_process else frozenset()].append(setting)
    for names, those in by_members.items():
        left = [(weight, subject) for weight, subject in comparison.suite if subject.label not in names]
        if not names or not left:
            yield Plan(comparison=comparison, settings=tuple(those))
            continue
        total = sum(weight for weight, _ in left)
        mix = ",".join(f"{subject.label}:{weight / total!r}" for weight, subject in left)
        named = f"{comparison.mix} without {','.join(sorted(names))}"
        yield Plan(comparison=replace(remake(mix, comparison), mix=named), settings=tuple(those))


def failing(log: RoundsLog, comparison: Comparison, setting: Setting) -> frozenset[str]:
    """Members of the suite that do not run in a setting."""
    return frozenset(subject.label for _, subject in comparison.suite if log.failed(subject, setting) is not None)
