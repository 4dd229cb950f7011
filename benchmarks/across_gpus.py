"""Does a proxy that was made on one GPU follow its suite to GPUs that its making never saw?

    python benchmarks/across_gpus.py --tables DIR ... [--suites 1,2,3,4] [--evaluate-only DIR ...]
        [--hide DEVICE ...] [--longest-share 0.5] [-o FILE]
    python benchmarks/across_gpus.py --tables DIR ... --hide-each 2 [--suites 1,2,3,4]
    python benchmarks/across_gpus.py --kept FILE

The folders hold published tables of operators' times (docs/across-gpus.md). For each ordered pair of devices A and B,
every contestant is made from A's times and from the tables of the other devices, and its factor from A to B is
compared with the suite's. B's times only check. Devices in --evaluate-only, and those of --hide, are never known to any
proxy's making; if there are any, the pairs with one of them count. --hide-each hides every choice of so many of a
suite's devices, one after the other. The last line gives the mean and worst error of the selected operators for each
suite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from benchmarks import csv_tables
from benchmarks.across.contestants import DRAWS, PROXIES, RANDOM, RATIOS, random_by_time
from benchmarks.across.figures import AcrossRow, last_line, summary
from benchmarks.across.grid_times import GridTimes
from benchmarks.across.hidden import HiddenChoices, choices_summary, hidden_choices
from benchmarks.across.model_tables import read_published
from benchmarks.across.pairs import FARTHEST_OFF, LONGEST_SHARE, Pair, Timed
from benchmarks.across.suites import SUITES
from benchmarks.console import parser, report, start
from statsnet.devices.tables.row import TableRow
from statsnet.errors import UsageError
from statsnet.progress import Progress

T = TypeVar("T")

WANTED = {"aiconfigurator": "bfloat16", "deepbench": "float32", "miopen": "float32"}
"""Source -> the dtype of its suite."""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--kept", type=Path, metavar="FILE", help="print this table, compute nothing")
    options.add_argument("--tables", nargs="+", type=Path, metavar="DIR", help="folders of published tables")
    options.add_argument("--evaluate-only", nargs="+", type=Path, default=[], metavar="DIR")
    options.add_argument("--hide", nargs="+", default=[], metavar="DEVICE", help="evaluate these only, too")
    options.add_argument("--hide-each", type=int, metavar="N", help="all choices of N hidden devices, one by one")
    options.add_argument("--suites", default="1,2,3,4")
    options.add_argument(
        "--longest-share", type=float, default=LONGEST_SHARE, help="a proxy takes at most this share of a pass"
    )
    options.add_argument("-o", "--output", type=Path, help="write every pair's figures there")
    chosen = options.parse_args()
    if chosen.kept:
        rows = csv_tables.read(chosen.kept, AcrossRow)
    elif not chosen.tables:
        raise UsageError("no tables are named", hint="--tables DIR with published tables, or --kept FILE")
    elif chosen.hide_each is not None:
        if chosen.hide_each < 1:
            raise UsageError(f"{chosen.hide_each} devices cannot be hidden", hint="--hide-each 1, or more")
        if chosen.hide or chosen.evaluate_only or chosen.output:
            raise UsageError("--hide-each chooses the hidden devices itself, and prints figures of choices, not pairs",
                             hint="leave out --hide, --evaluate-only and -o")  # fmt: skip
        numbers = _numbers(chosen.suites)
        found = _needed([*all_choices(numbers, chosen.tables, chosen.hide_each, chosen.longest_share)])
        print(choices_summary(found))
        return
    else:
        numbers = _numbers(chosen.suites)
        rows = _needed([*compared(numbers, chosen.tables, chosen.evaluate_only, chosen.longest_share, chosen.hide)])
        if chosen.output:
            csv_tables.write(chosen.output, AcrossRow, rows, one_machine=False)
    print(summary(rows))
    print(last_line(rows))


def _needed(rows: list[T]) -> list[T]:
    if not rows:
        raise UsageError(
            "no suite has a pair of devices to compare in these tables",
            cause="a device needs nearly all of a suite's operators",
            hint="docs/across-gpus.md says which tables a suite needs",
        )
    return rows


def _numbers(text: str) -> list[int]:
    names = [name.strip() for name in text.split(",")]
    known = {str(number): number for number in SUITES}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"'{unknown[0]}' is no suite", hint=f"--suites takes some of {','.join(known)}")
    return [known[name] for name in names]


def compared(
    suites: Sequence[int],
    folders: Sequence[Path],
    evaluate_only: Sequence[Path],
    longest_share: float = LONGEST_SHARE,
    hidden: Sequence[str] = (),
) -> Iterator[AcrossRow]:
    """All contestants on all pairs of devices; those that are hidden are only evaluated."""
    for timed, unseen in _timed(suites, folders, evaluate_only, longest_share, hidden):
        for pair in timed.pairs(unseen):
            yield from _rows(pair)


def all_choices(
    suites: Sequence[int], folders: Sequence[Path], count: int, longest_share: float = LONGEST_SHARE
) -> Iterator[HiddenChoices]:
    """What the selected operators are worth where `count` of a suite's devices are hidden, for each suite that has
    more."""
    for timed, _ in _timed(suites, folders, (), longest_share, ()):
        if (found := hidden_choices(timed, count)) is not None:
            yield found


def _timed(
    suites: Sequence[int],
    folders: Sequence[Path],
    evaluate_only: Sequence[Path],
    longest_share: float,
    hidden: Sequence[str],
) -> Iterator[tuple[Timed, frozenset[str]]]:
    """The suites of some tables, with those of their devices that are only evaluated."""
    report(Progress(stage="reading tables"))
    tables = read_published([*folders, *evaluate_only], _keep)
    unseen = read_published(evaluate_only, _keep).devices if evaluate_only else frozenset[str]()
    if evaluate_only and not unseen:
        raise UsageError(
            f"no row of a suite in {' '.join(map(str, evaluate_only))}",
            cause="the tables there are empty, or of other operators or dtypes",
            hint="docs/across-gpus.md says which tables a suite needs",
        )
    if unknown := sorted({*hidden} - tables.devices):
        raise UsageError(
            f"no table has the device '{unknown[0]}'", hint=f"--hide takes some of {', '.join(sorted(tables.devices))}"
        )
    unseen |= {*hidden}
    for note in tables.notes:
        report(Progress(stage=note))
    times = GridTimes(tables.rows)
    for number in suites:
        found = SUITES[number](tables)
        if not found:
            report(Progress(stage=f"suite {number}: these tables lack it"))
        for suite in found:
            report(Progress(stage=f"suite {number}: {suite.name}, {len(suite.devices)} devices"))
            if absent := sorted(unseen - {*suite.devices}):
                report(Progress(stage=f"  not in it, for lack of rows: {', '.join(absent)}"))
            if unseen and unseen <= {*absent}:
                continue
            timed = Timed(suite, times, longest_share)
            for device, operator in timed.wrong:
                report(Progress(stage=f"  {FARTHEST_OFF:.0f} times off on {device}, left out: {operator}"))
            if timed.left_out:
                report(Progress(stage=f"  {len(timed.left_out)} operators are not in all tables and left out"))
            yield timed, unseen & {*suite.devices}


def _keep(row: TableRow) -> bool:
    return WANTED.get(row.source) == row.dtype


def _rows(pair: Pair) -> Iterator[AcrossRow]:
    for name, make in PROXIES.items():
        counts = make(pair)
        yield _row(pair, name, pair.factor(counts), float(counts @ pair.sample.choice.time_s), int((counts > 0).sum()))
    for seed in range(DRAWS):
        counts = random_by_time(pair, seed)
        yield _row(
            pair, RANDOM, pair.factor(counts), float(counts @ pair.sample.choice.time_s), int((counts > 0).sum())
        )
    for name, ratio in RATIOS.items():
        factor = ratio(pair)
        if factor is not None:
            yield _row(pair, name, factor, None, None)


def _row(pair: Pair, contestant: str, factor: float, run_s: float | None, operators: int | None) -> AcrossRow:
    return AcrossRow(
        suite=pair.suite.number,
        name=pair.suite.name,
        contestant=contestant,
        device_a=pair.a,
        device_b=pair.b,
        suite_factor=pair.suite_factor,
        step_factor=pair.step_factor,
        proxy_factor=factor,
        proxy_s=run_s,
        operators=operators,
        exact_share=pair.exact,
    )


if __name__ == "__main__":
    start(main)
