"""A drawn mix's signatures and networks, and what is compared. What is there already is not made again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.drawn.draw import Mix, target_of, workload_file
from benchmarks.ways.baselines import NETWORKS
from benchmarks.ways.comparisons import LIMITS, MAKERS, PROXY, Comparison, network_subject
from statsnet.devices.make_proxy import MakeOptions
from statsnet.errors import MeasurementError
from statsnet.evaluation.factors import subjects_of
from statsnet.evaluation.suite import SuiteMember
from statsnet.measure.cache import MeasurementCache
from statsnet.progress import Progress, Report
from statsnet.proxy.folder import ProxyFolder, open_proxy
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.member_key import key_of, keyed
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.storage import load_signature
from statsnet.signatures.target import target_of_mix
from statsnet.synthesis.budget import usual_budget_of
from statsnet.synthesis.problem import ProxyRequest

ROOT = Path(__file__).parents[2]
"""Where the drawn files find this package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMix:
    """A mix of workloads whose files are in a folder. With `floor_s`, its networks' step is at least that long."""

    folder: Path
    number: int
    mode: str
    members: Mix
    floor_s: float | None = None

    @property
    def text(self) -> str:
        """As `statsnet synthesize --mix` takes it: names of files and weights, and no name of a model."""
        return ",".join(f"{self.signature(m.workload)}:{m.weight!r}" for m in self.members)

    def signature(self, workload: int) -> Path:
        return self.folder / f"signature_{workload}.{self.mode}.json"

    def network(self, way: str) -> Path:
        floor = "" if self.floor_s is None else f".{self.floor_s * 1e3:g}ms"
        return self.folder / f"mix_{self.number}{floor}.{way}"

    @property
    def proxy(self) -> ProxyFolder:
        return open_proxy(self.network(PROXY))


def profile(mix: DrawnMix, report: Report) -> None:
    """Profile each member as a customer does, in a command of its own. Raises MeasurementError if that fails."""
    for member in mix.members:
        path = mix.signature(member.workload)
        if path.exists():
            continue
        report(Progress(stage=f"profiling workload {member.workload}"))
        target = target_of(workload_file(mix.folder, member.workload))
        command = [sys.executable, "-m", "statsnet", "profile", target, "--mode", mix.mode, "-o", str(path)]
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=mix.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise MeasurementError(f"'{target}' cannot be profiled", cause=done.stderr.strip())


def make_network(mix: DrawnMix, way: str, report: Report) -> None:
    """The network of one way, from the signatures' files alone."""
    path = mix.network(way)
    if (path / "network.py").exists():
        return
    report(Progress(stage=f"making '{way}' for mix {mix.number}"))
    options = MakeOptions(mode=mix.mode, cache=MeasurementCache())
    MAKERS[way](ProxyRequest(mix_text=mix.text, budget_s=_budget_s(mix)), options, path)


def _budget_s(mix: DrawnMix) -> float | None:
    """The usual budget, but at least the floor; None where there is no floor, or it changes nothing."""
    if mix.floor_s is None:
        return None
    usual_s = usual_budget_of(target_of_mix(resolve_mix(mix.text, mix.mode, ProfilesDB())), own_sizes=False)
    return mix.floor_s if usual_s < mix.floor_s else None


def members_of(mix: DrawnMix) -> list[SuiteMember]:
    """The members of the mix's proxy, which knows no name of theirs, as the models that their signatures are of.

    Raises UsageError or FileFormatError as `open_proxy` does.
    """
    files = {m.workload: mix.signature(m.workload) for m in mix.members}
    places = {keyed(load_signature(file).id, key_of(file)): workload for workload, file in files.items()}
    return [
        SuiteMember(
            name=f"workload {places[entry.signature]} of {mix.folder.name}",
            weight=entry.weight,
            latency_s_reference=entry.latency_s,
            batch=entry.batch,
            preset=entry.preset,
            optimizer=entry.optimizer,
            peak_bytes=entry.peak_bytes,
            target=target_of(workload_file(mix.folder, places[entry.signature])),
            signature=None,
        )
        for entry in mix.proxy.spec.mix
    ]


def comparisons_of(mix: DrawnMix, ways: Sequence[str]) -> list[Comparison]:
    """The real models beside the network of each way."""
    proxy, members = mix.proxy, members_of(mix)
    suite = [
        (member.weight, replace(subject, identity=f"{mix.folder.name} {subject.identity}"))
        for member, subject in zip(members, subjects_of(proxy, members, "cpu", LIMITS), strict=False)
    ]
    return [
        Comparison(
            mix=f"mix {mix.number}",
            mode=mix.mode,
            compression=None,
            way=way,
            suite=suite,
            stand_in=[(1.0, network_subject(mix.network(way), f"mix {mix.number}, {way}"))],
        )
        for way in ways
    ]


OTHERS = tuple(NETWORKS)
"""Other ways to stand for a mix, at the same run time."""
