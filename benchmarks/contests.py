"""Who stands for a suite: its proxy, the ways of others, the proxy's method with a part taken out, or with a search."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablations import ABLATIONS
from baselines import NETWORKS, baseline_source, representatives
from core import spelled_out
from timings import Subject

from statsnet.cli.synthesize import mix_slug
from statsnet.evaluation.suite import SuiteMember, suite_of
from statsnet.measure.cache import MeasurementCache
from statsnet.proxy.folder import open_proxy
from statsnet.proxy.spec import write_proxy
from statsnet.signatures.canonical import canonical_json
from statsnet.synthesis.problem import Problem, prepare
from statsnet.synthesis.search import search
from statsnet.synthesis.synthesize import synthesize

PROXY = "statsnet"
LIMITS = {"min_time_s": 10.0, "max_time_s": 10.0}
"""Of what each process of a group times: 10 to 25 windows of it, as a rule."""

REPRESENTATIVES = 3
"""Workloads in the subset that stands for a suite; AIBench takes 3 of 17."""

SUBSET = "subset"
OTHERS = (SUBSET, *NETWORKS)
"""Other people's ways."""

SEARCHED = "searched"
SEARCH_TRIALS = 16
"""Designs that are tried before the best is made: what a search earns over the solver alone."""

VARIANTS = (*ABLATIONS, SEARCHED)
"""The proxy's own method, changed; with OTHERS, all that may stand beside the proxy."""

Weighted = tuple[float, Subject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A suite, and one way to stand for it: subjects with their weights."""

    mix: str
    mode: str
    compression: float
    method: str
    suite: Sequence[Weighted]
    stand_in: Sequence[Weighted]

    def subjects(self) -> Iterable[Subject]:
        return (subject for _, subject in (*self.suite, *self.stand_in))


def contests(
    mix: str,
    mode: str,
    compression: float,
    folder: Path,
    *,
    ways: Collection[str],
    say: Callable[[str], None],
    cache: MeasurementCache,
) -> list[Contest]:
    """A mix's proxy, made now where it is not in `folder` yet, and, what else is to stand for its
    suite: names of OTHERS and VARIANTS."""
    options: dict[str, Any] = {"mode": mode, "compression": compression, "cache": cache}
    name = f"{mix_slug(mix)}.{mode}.{compression:g}"
    made = folder / name
    if not made.exists():
        say(f"making the proxy of {mix}, {mode}, {compression:g} times shorter")
        write_proxy(synthesize(spelled_out(mix), **options), made, mix_text=spelled_out(mix))
    spec = open_proxy(made).spec
    members = suite_of(spec)
    suite = [(m.weight, member_subject(m, spec)) for m in members]
    stand_ins: dict[str, list[Weighted]] = {PROXY: [(1.0, network_subject(made, f"{name}, {PROXY}"))]}
    if SUBSET in ways:
        signatures = [m.signature for m in members if m.signature]
        if len(signatures) < len(members):  # profiled when the proxy was made
            profiled = {m.name: m.signature for m in prepare(spelled_out(mix), **options).target.members}
            signatures = [profiled[m.name] for m in members]
        count = min(REPRESENTATIVES, len(members))
        chosen = representatives(signatures, [m.weight for m in members], count)
        stand_ins[SUBSET] = [(weight, suite[i][1]) for i, weight in chosen.items()]
    if SEARCHED in ways:
        best = folder / f"{name}.{SEARCHED}"
        if not best.exists():
            say(f"searching for a better proxy of {mix}, {mode}")
            _search(spelled_out(mix), best, options)
        stand_ins[SEARCHED] = [(1.0, network_subject(best, f"{name}, {SEARCHED}"))]
    for way in ways:
        if way in _SOURCES:
            network = folder / f"{name}.{way.replace(' ', '-')}"
            if not (network / "network.py").exists():
                say(f"making '{way}' for {mix}, {mode}")
                _write(network, _SOURCES[way](prepare(spelled_out(mix), **options)))
            stand_ins[way] = [(1.0, network_subject(network, f"{name}, {way}"))]
    return [
        Contest(mix=mix, mode=mode, compression=compression, method=method, suite=suite, stand_in=stand_in)
        for method, stand_in in stand_ins.items()
    ]


_SOURCES: dict[str, Callable[[Problem], str]] = {
    **{
        name: lambda problem, choose=choose: baseline_source(problem, choose)
        for name, choose in NETWORKS.items()
    },
    **ABLATIONS,
}


def _search(mix: str, folder: Path, options: dict[str, Any]) -> None:
    journal = folder.with_name(f"{folder.name}.journal")
    found = search(mix, journal=journal, trials=SEARCH_TRIALS, time_limit_s=None, resume=True, **options)
    record = {"search.json": canonical_json(found.to_dict())}
    write_proxy(found.proxy, folder, mix_text=mix, search=record)


def _write(folder: Path, source: str) -> None:
    """network.py alone: these have neither spec nor fit."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "network.py").write_text(source, encoding="utf-8")


def network_subject(folder: Path, label: str) -> Subject:
    """The network in a folder, told from others by its source."""
    digest = hashlib.sha256((folder / "network.py").read_bytes()).hexdigest()
    job = {"kind": "time_proxy", "folder": str(folder.resolve()), "network_sha256": digest, "device": "cpu"}
    return Subject(
        identity=digest, label=label, job=lambda setting: {**job, **LIMITS, "setting": setting.to_dict()}
    )


def member_subject(member: SuiteMember, spec: dict[str, Any]) -> Subject:
    """A workload of a proxy's suite in the proxy's mode; one that several suites share is one subject."""
    name = f"{spec['mode']} {member.name}"
    return Subject(
        identity=name, label=name, job=lambda setting: member.timing_job(spec, "cpu", setting, **LIMITS)
    )
