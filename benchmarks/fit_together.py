"""How near do proxies of several processes come to what their models' processes exchange, and to how long they wait?

    python benchmarks/fit_together.py [--subjects NAME,...] [--processes 2] [-o build/together/fit.csv]
    python benchmarks/fit_together.py --kept FILE ...

The subjects are training steps that several processes make together (together/models.py). Each is profiled here and
its proxy made, unless --proxies holds it, for instance from slow_network.py; the rows are those of its fit.json. Bytes
and calls of each operation are compared per second of computation. How long a proxy waits is known only where there is
a core for each process: with more, those rows are empty. Run nothing else meanwhile.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import csv_tables
from benchmarks.console import left_out_if_it_fails, markdown_table, parser, start
from benchmarks.together.subjects import PROCESSES, SUBJECTS, SharedStep, chosen_subjects, proxy_of
from statsnet.signatures.documents import COLLECTIVE_GROUP, Fit
from statsnet.signatures.limits import MOST_PROCESSES
from statsnet.signatures.storage import load_fit


@dataclass(frozen=True, slots=True, kw_only=True)
class TogetherRow:
    """One characteristic of one proxy, with its error and the bar for it, as in fit.json. The error is None where the
    proxy has not been measured in several processes, and then `why` says why not."""

    subject: str
    processes: int
    characteristic: str
    unit: str
    target: float
    achieved: float | None = None
    error: float | None = None
    goal: float
    why: str | None = None

    @property
    def is_share(self) -> bool:
        return self.unit.startswith("share")


def main() -> int:
    options = _options()
    if options.kept:
        print(markdown([row for path in options.kept for row in csv_tables.read(path, TogetherRow)]))
        return 0
    rows: list[TogetherRow] = []
    failed: list[str] = []
    for subject in options.subjects:
        with left_out_if_it_fails(subject.name, failed):
            proxy = proxy_of(subject, options.proxies, processes=options.processes)
            rows += rows_of(subject, options.processes, load_fit(proxy / "fit.json"))
            csv_tables.write(options.output, TogetherRow, rows)
    print(markdown(rows))
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--kept", nargs="+", type=Path, metavar="FILE", help="print these tables, make nothing")
    names = ", ".join(subject.factory for subject in SUBJECTS)
    options.add_argument("--subjects", type=chosen_subjects, default=SUBJECTS, metavar="NAME,...", help=f"of {names}")
    options.add_argument("--processes", type=int, default=PROCESSES, metavar="N", help="that make a step (default: 2)")
    options.add_argument("--proxies", type=Path, default=Path("build/together"), help="what is made and measured")
    options.add_argument("-o", "--output", type=Path, default=Path("build/together/fit.csv"))
    chosen = options.parse_args()
    if not 2 <= chosen.processes <= MOST_PROCESSES:
        options.error(f"--processes is from 2 to {MOST_PROCESSES}")
    return chosen


def rows_of(subject: SharedStep, processes: int, fit: Fit) -> Iterator[TogetherRow]:
    """A row for each of the fit's characteristics of collectives."""
    for found in fit.characteristics:
        if found.group != COLLECTIVE_GROUP or found.target is None:
            continue
        yield TogetherRow(
            subject=subject.name,
            processes=processes,
            characteristic=found.name,
            unit=found.unit,
            target=found.target,
            achieved=found.achieved,
            error=found.missed_by,
            goal=found.bar or 0.0,
            why=fit.not_together if found.achieved is None else None,
        )


def markdown(rows: Sequence[TogetherRow]) -> str:
    """A line for each row, how many goals are met, then why some were not measured."""
    header = ["step of", "processes", "characteristic", "target", "achieved", "error", "goal"]
    lines = []
    for r in rows:
        unit = "points" if r.is_share else "%"
        error = "–" if r.error is None else f"{100 * r.error:+.1f} {unit}".replace("-", "−")
        missed = r.error is not None and abs(r.error) > r.goal
        figures = [_figure(r, r.target), "–" if r.achieved is None else _figure(r, r.achieved)]
        shown = f"**{error}**" if missed else error
        lines.append([r.subject, f"{r.processes}", r.characteristic, *figures, shown, f"± {100 * r.goal:.0f} {unit}"])
    known = [r for r in rows if r.error is not None]
    met = sum(abs(r.error or 0.0) <= r.goal for r in known)
    reasons = dict.fromkeys(f"{r.subject}, {r.processes} processes: {r.why}" for r in rows if r.why)
    return "\n\n".join([
        markdown_table(header, lines),
        f"{met} of {len(known)} goals are met (missed ones are bold), {len(rows) - len(known)} were not measured",
        *reasons,
    ])  # fmt: skip


def _figure(row: TogetherRow, value: float) -> str:
    return f"{100 * value:.1f} %" if row.is_share else f"{value:.4g} {row.unit}"


if __name__ == "__main__":
    start(main)
