"""Does a proxy that was made from a GPU's record follow its suite to a GPU that its making did not know?

    .venv/bin/python benchmarks/diagnostics/left_out_devices.py [--device NAME] [--mix MIX] [--mode inference]
        [--ways 1,2,3,4,5] [--rounds 2] [--candidates 360] [--budget SECONDS] [--most 12] [--profiles DIR]

Makes proxies as `statsnet synthesize --device recorded:NAME` does, in several ways. Each other device whose record
knows much of the mix is left out in turn: it is in no row. The suite's and the proxy's factor come from the left-out
record, operator by operator, as other_devices.py does. Prints one Markdown table.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from statsnet.devices.device_record import load_record
from statsnet.devices.make_proxy import MakeOptions, open_bench
from statsnet.devices.other_devices import OtherDevices, known_share
from statsnet.devices.record_folder import record_paths
from statsnet.devices.recorded_bench import RecordedBench
from statsnet.devices.table_times import TableTimes
from statsnet.proxy.spec import Proxy
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Signature
from statsnet.signatures.target import target_of_mix
from statsnet.synthesis.bench import BenchSetup
from statsnet.synthesis.effort import QUICK
from statsnet.synthesis.elsewhere import Fate
from statsnet.synthesis.problem import Design, ProxyRequest, prepare, usual_budget_of
from statsnet.synthesis.synthesize import finish

LEAST_KNOWN = 0.4
"""A device checks if its record knows operators that take this share of the mix's time."""


@dataclass(frozen=True, slots=True)
class Known:
    """Part of what is known of other devices: those at these `places`, and the risk of cut sizes or not."""

    other: OtherDevices
    places: tuple[int, ...]
    has_risk: bool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.other.names[i] for i in self.places)

    def fate(self, op: str, phase: str, args: Sequence[Any], outputs: Sequence[Any]) -> Fate:
        """Of one call."""
        whole = self.other.fate(op, phase, args, outputs)
        return Fate(factors=tuple(whole.factors[i] for i in self.places), risk=whole.risk if self.has_risk else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How proxies are made: whether blocks have their own sizes first, and which rows there are."""

    own_sizes: bool
    has_devices: bool
    has_risk: bool

    def setup(self, setup: BenchSetup, other: OtherDevices, left_out: str) -> BenchSetup:
        """The product's, changed. The device that is left out is in no row."""
        places = tuple(i for i, name in enumerate(other.names) if self.has_devices and name != left_out)
        known = Known(other, places, self.has_risk) if self.has_devices or self.has_risk else None
        return replace(setup, own_sizes=self.own_sizes, elsewhere=known)


WAYS = {
    "modelled devices, cut sizes (as it was)": Way(own_sizes=False, has_devices=False, has_risk=False),
    "modelled devices, own sizes": Way(own_sizes=True, has_devices=False, has_risk=False),
    "own sizes, risk": Way(own_sizes=True, has_devices=False, has_risk=True),
    "own sizes, real devices": Way(own_sizes=True, has_devices=True, has_risk=False),
    "own sizes, real devices, risk (the product)": Way(own_sizes=True, has_devices=True, has_risk=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One proxy on one left-out device."""

    way: str
    device: str
    suite_factor: float
    proxy_factor: float
    latency_s: float
    blocks: int

    @property
    def error(self) -> float:
        return abs(self.proxy_factor / self.suite_factor - 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="nvidia-h100-sxm")
    parser.add_argument("--mix", default="llm:1")
    parser.add_argument("--mode", default="inference")
    parser.add_argument("--ways", default="1,2,3,4,5")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--candidates", type=int, default=360)
    parser.add_argument("--budget", type=float, help="seconds; default: the product's for a GPU, in all ways")
    parser.add_argument("--profiles", type=Path)
    parser.add_argument("--most", type=int, default=12, help="devices that are left out")
    given = parser.parse_args()
    effort = replace(
        QUICK, rounds=given.rounds, least_rounds=given.rounds, free_rounds=given.rounds, candidates=given.candidates
    )
    options = MakeOptions(mode=given.mode, device=f"recorded:{given.device}", profiles=given.profiles, effort=effort)
    mix, bench = open_bench(given.mix, options)
    assert isinstance(bench, RecordedBench) and isinstance(bench.recorded.model, TableTimes)
    here = bench.recorded.model
    checks = _checks(here, mix, given.profiles)[: given.most]
    target = target_of_mix(mix, bench.measure_members(mix, bench.machine_speed())[1])
    budget_s = given.budget or usual_budget_of(target, given.mode, own_sizes=True)
    request = ProxyRequest(mix_text=given.mix, budget_s=budget_s)
    other = bench.setup.elsewhere
    assert isinstance(other, OtherDevices)
    rows: list[Row] = []
    for number in given.ways.split(","):
        name, way = list(WAYS.items())[int(number) - 1]
        proxy = None
        for there in checks:
            if proxy is None or way.has_devices:  # else no device takes part in making it
                changed = replace(bench, setup=way.setup(bench.setup, other, there))
                proxy = finish(prepare(mix, changed, request, Design()))
            rows.append(_row(name, proxy, mix, here, other, there))
            print(f"{name:45} {there:38} {rows[-1].error:.2%}", flush=True)
    print(_table(rows, given.device, given.mix))


def _checks(here: TableTimes, mix: Mix, profiles: Path | None) -> list[str]:
    """The devices whose records know most of the mix, except `here`; those that know most of it first."""
    found = []
    for name, path in record_paths(ProfilesDB(profiles).path).items():
        if name != here.record.device:
            share = known_share(TableTimes(load_record(path)), here, mix)
            if share >= LEAST_KNOWN:
                found.append((-share, name))
    return [name for _, name in sorted(found)]


def _row(way: str, proxy: Proxy, mix: Mix, here: TableTimes, other: OtherDevices, there: str) -> Row:
    suite = sum(m.weight * _factor(m.signature, here, other, there) for m in mix.members)
    suite /= sum(m.weight for m in mix.members)
    blocks = len({str(b.config) for t in proxy.spec.towers for b in t.blocks})
    return Row(way=way, device=there, suite_factor=suite, proxy_factor=_factor(proxy.signature, here, other, there),
               latency_s=proxy.latency_s, blocks=blocks)  # fmt: skip


def _factor(signature: Signature, here: TableTimes, other: OtherDevices, there: str) -> float:
    place = other.names.index(there)
    here_s = there_s = 0.0
    for c in signature.clusters:
        time_s = c.calls * here.estimate(c.op, c.phase, c.args, c.outputs).time_s
        here_s += time_s
        there_s += time_s * other.fate(c.op, c.phase, c.args, c.outputs).factors[place]
    return there_s / here_s


def _table(rows: Sequence[Row], device: str, mix: str) -> str:
    lines = [
        "", f"{mix} on {device}, {len({r.device for r in rows})} devices left out in turn", "",
        "| way | step | different blocks | mean error | worst error | on |", "|---|---:|---:|---:|---:|---|",
    ]  # fmt: skip
    for way in dict.fromkeys(r.way for r in rows):
        own = [r for r in rows if r.way == way]
        worst = max(own, key=lambda r: r.error)
        lines.append(
            f"| {way} | {1e3 * np.mean([r.latency_s for r in own]):.0f} ms | {np.mean([r.blocks for r in own]):.0f} "
            f"| {np.mean([r.error for r in own]):.2%} | {worst.error:.2%} | {worst.device} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
