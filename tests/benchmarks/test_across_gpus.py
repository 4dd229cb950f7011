"""Factors across GPUs: what a proxy's making may know, the command line on small tables, and what it refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from benchmark_programs import Program

from benchmarks.across.contestants import SELECTED, selected
from benchmarks.across.figures import AcrossRow
from benchmarks.across.grid_times import GridTimes
from benchmarks.across.operator_selection import Trait
from benchmarks.across.pairs import Pair, Timed, trait_of
from benchmarks.across.suites import Member, Operator, Suite, resnet50, vgg16
from benchmarks.across_gpus import all_choices, compared
from benchmarks.csv_tables import read
from statsnet.devices.operator_work import work_of
from statsnet.devices.tables.row import TableRow
from statsnet.devices.tables.words import named
from statsnet.errors import UsageError

PROGRAM = "across_gpus.py"
DEVICES = ("nvidia-v100", "nvidia-m40", "nvidia-titan-xp", "amd-vega-fe")


def gemm(m: int, n: int, k: int, time_s: dict[str, float]) -> TableRow:
    return TableRow(
        source="deepbench", operator="gemm", dtype="float32", dims=named("gemm", (1, m, n, k)), variant="NN",
        time_s=time_s,
    )  # fmt: skip


def table(seed: int = 0) -> list[TableRow]:
    """Products whose times scatter by a tenth around each device's own rate."""
    rng = np.random.default_rng(seed)
    sizes = [(m, n, 512) for m in (64, 256, 1024, 2048) for n in (128, 512, 1024, 4096)]
    rates = dict(zip(DEVICES, (14e12, 6e12, 11e12, 9e12), strict=True))
    return [
        gemm(*s, {d: float(1e-5 + 2 * np.prod(s) / r * rng.lognormal(0, 0.1)) for d, r in rates.items()}) for s in sizes
    ]


def suite_of(rows: list[TableRow], devices: tuple[str, ...] = DEVICES) -> Suite:
    member = Member(name="products", operators=tuple(Operator(row=r, calls=3.0) for r in rows), step_s={})
    return Suite(number=3, name="products", members=(member,), devices=devices)


def pair_of(rows: list[TableRow], a: str, b: str) -> Pair:
    pairs = Timed(suite_of(rows), GridTimes(rows)).pairs(())
    return next(p for p in pairs if (p.a, p.b) == (a, b))


def test_the_device_that_checks_never_changes_the_proxy() -> None:
    rows = table()
    b = DEVICES[2]
    changed = [replace(r, time_s={**r.time_s, b: r.time_s[b] * (1 + i)}) for i, r in enumerate(rows)]
    before, after = pair_of(rows, DEVICES[0], b), pair_of(changed, DEVICES[0], b)
    assert selected(before).tolist() == selected(after).tolist()
    assert before.suite_factor != after.suite_factor
    assert b not in before.sample.rows


def test_a_device_that_is_only_evaluated_is_no_row() -> None:
    pairs = list(Timed(suite_of(table()), GridTimes(table())).pairs((DEVICES[3],)))
    assert {DEVICES[3]} <= {d for p in pairs for d in (p.a, p.b)}
    assert all(DEVICES[3] in (p.a, p.b) and DEVICES[3] not in p.sample.rows for p in pairs)
    assert len(pairs) == 6


def test_convolutions_of_one_window_are_of_one_kernel_class() -> None:
    def trait(size: int, window: int, stride: int, groups: int = 1) -> Trait:
        dims = (8, 64, size, size, 128, window, window, window // 2, window // 2, stride, stride, 1, 1, groups)
        sizes = named("convolution", dims)
        row = TableRow(source="miopen", operator="convolution", dtype="float32", dims=sizes, time_s={})
        return trait_of(Operator(row=row, calls=1.0))

    assert trait(56, 3, 1).kernel_class == trait(14, 3, 1).kernel_class
    assert len({trait(56, *how).kernel_class for how in ((1, 1), (3, 1), (3, 2), (5, 1))}) == 4
    assert trait(56, 3, 2).sizes[0] == trait(28, 3, 1).sizes[0]  # as many pixels of the output
    assert trait(56, 3, 1).sizes != trait(56, 3, 1, groups=64).sizes


def test_a_suite_that_fits_has_no_error() -> None:
    pair = pair_of(table(), DEVICES[0], DEVICES[1])
    assert pair.factor(selected(pair)) == pytest.approx(pair.suite_factor, rel=3e-3)


def test_times_between_grid_points_follow_the_grid() -> None:
    def time_s(m: int, n: int, k: int) -> float:
        return float(1e-9 * m * n**0.5 * k)

    rows = [gemm(m, n, k, {"x": time_s(m, n, k)}) for m in (64, 128, 256) for n in (64, 256, 512) for k in (64, 512)]
    times = GridTimes(rows)
    asked = times.time(gemm(100, 300, 128, {}), "x")
    assert asked is not None and not asked.exact
    assert asked.time_s == pytest.approx(time_s(100, 300, 128), rel=0.02)
    exact = times.time(gemm(64, 64, 64, {}), "x")
    assert exact is not None and exact.exact
    assert times.time(gemm(64, 64, 64, {}), "y") is None
    assert times.time(gemm(10**6, 64, 64, {}), "x") is None


def test_the_networks_have_their_published_work() -> None:
    """4.1 and 15.4 billion multiply-adds an image, without fully connected layers."""
    for layers, billions in ((resnet50(), 4.09), (vgg16(), 15.35)):
        flops = sum(n * work_of("convolution", "float32", dict(named("convolution", s)))[0] for s, n in layers.items())
        batch = next(iter(layers))[0]
        assert flops / 2e9 / batch == pytest.approx(billions, rel=0.01)


def written(folder: Path, rows: list[TableRow], devices: tuple[str, ...] = DEVICES) -> Path:
    folder.mkdir()
    lines = ["suite,op,direction,dtype,dims,device,latency_us,algorithm"]
    for r in rows:
        d = dict(r.dims)
        for device in devices:
            lines.append(f"train,gemm,,fp32,{d['n']}x{d['m']}x{d['k']}_NN,{device},{1e6 * r.time_s[device]:.4f},")
    (folder / "deepbench.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_the_program_compares_devices_of_several_folders(tmp_path: Path, run_program: Program) -> None:
    known = written(tmp_path / "known", table(), DEVICES[:3])
    hidden = written(tmp_path / "hidden", table(), DEVICES[3:])
    output = tmp_path / "across.csv"
    done = run_program(PROGRAM, "--tables", known, "--evaluate-only", hidden, "--suites", "3", "-o", output)
    assert done.returncode == 0, done.stderr
    assert re.match(r"suite 3 \(.*\): mean \d+\.\d+%, worst \d+\.\d+%$", done.stdout.splitlines()[-1])
    rows = read(output, AcrossRow)
    assert all(DEVICES[3] in (r.device_a, r.device_b) for r in rows)
    assert run_program(PROGRAM, "--kept", output).stdout == done.stdout
    told = run_program(PROGRAM, "--tables", known, "--hide", "nvidia-x", "--suites", "3")
    assert "no table has the device 'nvidia-x'" in told.stderr and DEVICES[0] in told.stderr


def test_a_hidden_device_counts_as_one_that_is_only_evaluated(tmp_path: Path) -> None:
    known = written(tmp_path / "known", table(), DEVICES[:3])
    hidden = written(tmp_path / "hidden", table(), DEVICES[3:])
    elsewhere = [*compared([3], [known], [hidden])]
    assert [*compared([3], [known, hidden], [], hidden=DEVICES[3:])] == elsewhere


def test_each_choice_of_hidden_devices_gives_what_hiding_them_gives(tmp_path: Path, run_program: Program) -> None:
    folder = written(tmp_path / "tables", table())
    (found,) = all_choices([3], [folder], 2)
    assert [choice.hidden for choice in found.choices] == [*combinations(sorted(DEVICES), 2)]
    for choice in found.choices:
        rows = [r for r in compared([3], [folder], [], hidden=choice.hidden) if r.contestant == SELECTED]
        assert choice.mean == pytest.approx(np.mean([r.error for r in rows]))
        assert choice.worst == max(r.error for r in rows)
    done = run_program(PROGRAM, "--tables", folder, "--hide-each", "2", "--suites", "3")
    assert re.match(r"suite 3 \(.*\): mean \d+\.\d+%, worst \d+\.\d+%$", done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "no tables are named"),
        (["--tables", "nowhere"], "is not there"),
        (["--tables", ".", "--suites", "7"], "'7' is no suite"),
        (["--tables", ".", "--hide-each", "2", "--hide", "x"], "chooses the hidden devices itself"),
        (["--tables", ".", "--hide-each", "0"], "0 devices cannot be hidden"),
    ],
)
def test_bad_input_is_told_in_a_sentence(arguments: list[str], told: str, run_program: Program) -> None:
    done = run_program(PROGRAM, *arguments)
    assert done.returncode != 0
    assert told in done.stderr


def test_times_in_two_units_are_refused_and_a_single_wrong_one_is_left_out() -> None:
    rows, b = table(), DEVICES[2]
    many = [*rows, *(replace(r, dims=named("gemm", (1, 96, i + 1, 512))) for i in range(2) for r in rows)]
    once = [replace(r, time_s={**r.time_s, b: r.time_s[b] * (1e3 if i == 0 else 1)}) for i, r in enumerate(many)]
    timed = Timed(suite_of(once), GridTimes(once))
    assert [o.row.key for o in timed.left_out] == [rows[0].key]
    assert [(d, o.row.key) for d, o in timed.wrong] == [(b, rows[0].key)]
    assert str(timed.wrong[0][1]).startswith("gemm, forward, float32 (batch 1, m ")
    often = [replace(r, time_s={**r.time_s, b: r.time_s[b] * (1e3 if i % 3 == 0 else 1)}) for i, r in enumerate(rows)]
    with pytest.raises(UsageError, match=f"the times of {b} are not in one unit"):
        Timed(suite_of(often), GridTimes(often))


def test_a_suite_without_the_devices_to_evaluate_is_passed_over(tmp_path: Path, run_program: Program) -> None:
    known = written(tmp_path / "known", table(), DEVICES[:3])
    few = written(tmp_path / "few", table()[:4], DEVICES[3:])
    done = run_program(PROGRAM, "--tables", known, "--evaluate-only", few, "--suites", "3")
    assert done.returncode != 0
    assert f"not in it, for lack of rows: {DEVICES[3]}" in done.stderr
    assert "no suite has a pair of devices" in done.stderr
