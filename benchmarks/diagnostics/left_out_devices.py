"""Does a proxy that was made from a GPU's record follow its suite to a GPU that its making did not know?

    python benchmarks/diagnostics/left_out_devices.py [--device NAME] [--others NAME ...] [--mix MIX] [--mode inference]
        [--dtype DTYPE] [--ways 1,2,3] [--rounds 2] [--candidates 360] [--budget SECONDS] [--most 12]
        [--profiles DIR]

Makes proxies as `statsnet synthesize --device recorded:NAME` does, in several ways. Each of the others whose record
knows much of the mix is left out in turn: it is in no row. They are given by name or file; by default they are all
devices of the tables that the product would take as rows. The factors of the suite and of the proxy come from the
left-out record, operator by operator, as other_devices.py does. Prints one Markdown table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from benchmarks.console import markdown_table, parser, report, start
from statsnet.devices.make_proxy import MakeOptions, open_bench
from statsnet.devices.other_devices import OtherDevices, Times, known_share
from statsnet.devices.recorded_bench import RecordedBench, recorded_device
from statsnet.errors import UsageError
from statsnet.progress import Progress
from statsnet.proxy.spec import Proxy
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Signature
from statsnet.signatures.target import target_of_mix
from statsnet.synthesis.bench.bench import BenchSetup
from statsnet.synthesis.effort import QUICK
from statsnet.synthesis.problem import Design, ProxyRequest, prepare, usual_budget_of
from statsnet.synthesis.synthesize import finish

LEAST_KNOWN = 0.4
"""A device checks if its record knows operators that take this share of the mix's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How proxies are made: whether blocks have their own sizes first, and whether other devices and the risk of cut
    sizes are rows. Blocks are resized where they are not, as the product does (synthesis/next_network.py)."""

    own_sizes: bool
    has_devices: bool

    def setup(self, setup: BenchSetup) -> BenchSetup:
        """The product's, changed."""
        return replace(setup, own_sizes=self.own_sizes, elsewhere=setup.elsewhere if self.has_devices else None)


WAYS = {
    "modelled devices, cut sizes": Way(own_sizes=False, has_devices=False),
    "modelled devices, own sizes": Way(own_sizes=True, has_devices=False),
    "own sizes, real devices, risk (the product)": Way(own_sizes=True, has_devices=True),
    "cut sizes, real devices": Way(own_sizes=False, has_devices=True),
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
    options = parser(__doc__)
    options.add_argument("--device", default="nvidia-h100-sxm")
    options.add_argument("--others", nargs="+", default=[], metavar="NAME", help="devices that are rows, and check")
    options.add_argument("--mix", default="llm:1")
    options.add_argument("--mode", default="inference")
    options.add_argument("--dtype", help="count the members in it; default: that of the mix")
    options.add_argument("--ways", default="1,2,3", help=", ".join(f"{i}: {w}" for i, w in enumerate(WAYS, 1)))
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--candidates", type=int, default=360)
    options.add_argument("--budget", type=float, help="seconds; default: the product's for a GPU, in all ways")
    options.add_argument("--profiles", type=Path)
    options.add_argument("--most", type=int, default=12, help="devices that are left out")
    given = options.parse_args()
    ways = _ways(given.ways)
    if min(given.rounds, given.candidates, given.most) < 1:
        raise UsageError("--rounds, --candidates and --most are at least 1")
    effort = replace(
        QUICK,
        rounds=given.rounds,
        least_rounds=given.rounds,
        free_rounds=given.rounds,
        candidates=given.candidates,
        candidates_in_order=given.candidates,
    )
    make = MakeOptions(
        mode=given.mode, dtype=given.dtype, device=f"recorded:{given.device}", profiles=given.profiles, effort=effort
    )  # fmt: skip
    rows = list(compared(given.mix, make, ways, given.budget, given.most, given.others))
    print(table(rows, given.device, given.mix))


def _ways(text: str) -> dict[str, Way]:
    known = {str(number): name for number, name in enumerate(WAYS, 1)}
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"'{unknown[0]}' is no way", hint=f"--ways takes some of {','.join(known)}")
    return {known[name]: WAYS[known[name]] for name in names}


def compared(
    mix_text: str,
    make: MakeOptions,
    ways: Mapping[str, Way],
    budget_s: float | None,
    most: int,
    others: Sequence[str] = (),
) -> Iterator[Row]:
    """A row for each way and each device that is left out. Raises UsageError if no record can check."""
    mix, bench = open_bench(mix_text, make)
    if not isinstance(bench, RecordedBench):
        raise UsageError(f"'{make.device}' is no recorded device", hint="statsnet device list shows those that are")
    if (own := str(make.device).removeprefix("recorded:")) in others:
        raise UsageError(f"'{own}' cannot check itself", hint="leave it out of --others")
    here, db = bench.recorded.model, ProfilesDB(make.profiles)
    named = {name: recorded_device(name, db, make.mode).model for name in others}
    other = _among(named, here, mix) if others else bench.setup.elsewhere
    if not isinstance(other, OtherDevices):
        raise UsageError(f"'{make.device}' was not made from tables", hint="--others names the devices to compare with")
    known = sorted((-share, name) for name, share in other.shares.items() if share >= LEAST_KNOWN)
    checks = [name for _, name in known][:most]
    if not checks:
        raise UsageError("no other record knows enough of the mix", cause=f"each knows less than {LEAST_KNOWN:.0%}")
    target = target_of_mix(mix, bench.measure_members(mix, bench.machine_speed())[1])
    own_sizes = bench.setup.own_sizes
    request = ProxyRequest(mix_text=mix_text, budget_s=budget_s or usual_budget_of(target, own_sizes=own_sizes))
    made: dict[str, Proxy] = {}
    for there in checks:
        if others:
            rows = _among({name: times for name, times in named.items() if name != there}, here, mix)
            without = replace(bench, setup=replace(bench.setup, elsewhere=rows))
        else:
            without = cast(RecordedBench, open_bench(mix_text, replace(make, without_devices=(there,)))[1])
        for name, way in ways.items():
            if name not in made or way.has_devices:  # else no device takes part in making it
                made[name] = finish(prepare(mix, replace(without, setup=way.setup(without.setup)), request, Design()))
            row = _row(name, made[name], mix, here, other, there)
            report(Progress(stage=f"{name}, {there}: {row.error:.2%}"))
            yield row


def _among(known: Mapping[str, Times], here: Times, mix: Mix) -> OtherDevices:
    """Those that know enough of the mix. Of cut sizes, nothing is known for them."""
    shares = {name: known_share(times, here, mix) for name, times in known.items()}
    rows = {name: times for name, times in known.items() if shares[name] >= LEAST_KNOWN}
    return OtherDevices(here, rows, None, [], shares)


def _row(way: str, proxy: Proxy, mix: Mix, here: Times, other: OtherDevices, there: str) -> Row:
    suite = sum(m.weight * _factor(m.signature, here, other, there) for m in mix.members)
    suite /= sum(m.weight for m in mix.members)
    blocks = len({str(b.config) for t in proxy.spec.towers for b in t.blocks})
    return Row(way=way, device=there, suite_factor=suite, proxy_factor=_factor(proxy.signature, here, other, there),
               latency_s=proxy.latency_s, blocks=blocks)  # fmt: skip


def _factor(signature: Signature, here: Times, other: OtherDevices, there: str) -> float:
    place = other.names.index(there)
    here_s = there_s = 0.0
    for c in signature.clusters:
        time_s = c.calls * here.estimate(c.op, c.phase, c.args, c.outputs).time_s
        here_s += time_s
        there_s += time_s * other.fate(c.op, c.phase, c.args, c.outputs).factors[place]
    return there_s / here_s


def table(rows: Sequence[Row], device: str, mix: str) -> str:
    """Mean and worst error of each way."""
    lines = []
    for way in dict.fromkeys(r.way for r in rows):
        own = [r for r in rows if r.way == way]
        worst = max(own, key=lambda r: r.error)
        figures = [np.mean([getattr(r, name) for r in own]) for name in ("latency_s", "blocks", "error")]
        means = [f"{1e3 * figures[0]:.0f} ms", f"{figures[1]:.0f}", f"{figures[2]:.2%}"]
        lines.append([way, *means, f"{worst.error:.2%}", worst.device])
    header = ("way", "step", "different blocks", "mean error", "worst error", "on")
    left_out = len({r.device for r in rows})
    return f"{mix} on {device}, {left_out} devices left out in turn\n\n{markdown_table(header, lines)}"


if __name__ == "__main__":
    start(main)
