"""Programs over tables and records of devices: what they write, and what they refuse."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_support import GOLDEN
from clusters import mm, relu, signature
from device_tables import gemm_record, gemm_rows, plain_table, write_table

from benchmarks import record_devices
from benchmarks.diagnostics import cut_risk, left_out_devices, predicted_step, table_scatter
from statsnet.devices.cut_risk import load_risk
from statsnet.devices.device_record import build_record, load_record, save_record
from statsnet.devices.recorded_bench import RecordedBench
from statsnet.devices.tables.row import TableRow
from statsnet.devices.tables.words import named
from statsnet.errors import StatsNetError
from statsnet.proxy.folder import open_proxy
from statsnet.signatures.storage import load_signature, save_signature
from statsnet.units import format_duration

Program = Callable[..., None]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Program:
    """Runs a program's `main` with these arguments."""

    def run(main: Callable[[], None], *arguments: str | Path) -> None:
        monkeypatch.setattr(sys, "argv", ["program", *map(str, arguments)])
        main()

    return run


def test_a_record_for_each_device_with_clean_tables(
    tmp_path: Path, call: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    few = [replace(row, time_s={"acme-few": 1e-3}) for row in gemm_rows(20)]
    table = write_table(tmp_path, "t.csv", plain_table([*gemm_rows(110), *few]))
    call(record_devices.main, table, "-o", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"acme-one.json.gz", "ATTRIBUTION.md"}
    assert load_record(tmp_path / "out" / "acme-one.json.gz").measured == 110
    assert "| acme-one | plain | gemm | float32 | forward | 110 |" in capsys.readouterr().out
    call(record_devices.main, table, "--device", "few", "-o", tmp_path / "out")
    assert load_record(tmp_path / "out" / "acme-few.json.gz").measured == 20
    with pytest.raises(StatsNetError, match="'z80' names no measured device"):
        call(record_devices.main, table, "--device", "z80", "-o", tmp_path / "out")


def products(*devices: str) -> list[TableRow]:
    """On the second device each halving of m makes the factor larger."""
    return [
        TableRow(source="plain", operator="gemm", dtype="float32", dims=named("gemm", (1, 2**j, n, 64)), variant="NN",
                 time_s={device: 1e-4 * (1.0 - 0.1 * i * j) for i, device in enumerate(devices)})
        for j in range(5, 9)
        for n in range(64, 84)
    ]  # fmt: skip


def test_risks_of_cut_sizes_are_written(tmp_path: Path, call: Program, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_table(tmp_path, "t.csv", plain_table(products("acme-one", "acme-two")))
    call(cut_risk.main, table, "-o", tmp_path / "risk.json")
    assert {(e.operator, e.axis) for e in load_risk(tmp_path / "risk.json").entries} == {("gemm", "m")}
    assert "| gemm | m |" in capsys.readouterr().out
    for arguments, told in (
        (("--without", "two"), "nothing can be learnt"),
        (("--without", "z80"), "names no measured device"),
    ):
        with pytest.raises(StatsNetError, match=told):
            call(cut_risk.main, table, "-o", tmp_path / "none.json", *arguments)
    assert not (tmp_path / "none.json").exists()


def test_times_in_another_unit_are_refused(tmp_path: Path, call: Program) -> None:
    """But not those of devices that nobody asks for."""
    rows = [*gemm_rows(110), *(replace(r, time_s={"acme-off": t * 1e-3}) for r in gemm_rows(110)
                               for t in r.time_s.values())]  # fmt: skip
    table = write_table(tmp_path, "t.csv", plain_table(rows))
    call(record_devices.main, table, "--device", "one", "-o", tmp_path / "out")
    with pytest.raises(StatsNetError, match="not in the unit"):
        call(record_devices.main, table, "-o", tmp_path / "out")
    with pytest.raises(StatsNetError, match="not in the unit"):
        call(cut_risk.main, table, "-o", tmp_path / "risk.json")
    with pytest.raises(StatsNetError, match="nothing can be learnt"):
        call(cut_risk.main, table, "--without", "off", "-o", tmp_path / "risk.json")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--ways", "1,5"], "'5' is no way"),
        (["--device", "f26m2", "--mix", "recsys/ncf:1"], "was not made from tables"),
        (["--most", "0"], "at least 1"),
        (["--device", "z80"], "names no recorded device"),
        (["--mix", "nothing:1"], "nothing"),
    ],
)
def test_left_out_devices_refuses(call: Program, arguments: list[str], told: str) -> None:
    with pytest.raises(StatsNetError, match=told):
        call(left_out_devices.main, *arguments)


def test_a_record_alone_has_no_device_that_checks(tmp_path: Path, call: Program) -> None:
    save_record(tmp_path / "acme-one.json", gemm_record())
    golden = load_signature(GOLDEN)
    assert golden.workload is not None
    name, mode = golden.workload, golden.mode
    counts = tmp_path / "db" / "meta" / name.domain / f"{name.name}.{mode}.json"
    save_signature(counts, replace(golden, measurements=()))
    with pytest.raises(StatsNetError, match="no other record knows enough"):
        call(left_out_devices.main, "--device", tmp_path / "acme-one.json", "--mix", f"{name.domain}:1",
             "--mode", mode, "--profiles", tmp_path / "db")  # fmt: skip


def test_what_a_left_out_device_checks_was_made_without_it(
    tmp_path: Path, call: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the devices of --others: each is a row of the proxies that the others check."""
    here, *others = (tmp_path / f"acme-{name}.json" for name in ("one", "two", "three"))
    for path, factor in zip((here, *others), (1.0, 2.0, 3.0), strict=True):
        save_record(path, gemm_record(path.stem, factor))
    products = signature(mm(256, 512, 1024, calls=4), relu(256, 1024))
    save_signature(tmp_path / "a.json", products)
    rows: list[list[str] | None] = []

    def finish(bench: RecordedBench) -> SimpleNamespace:
        known = bench.setup.elsewhere
        rows.append([Path(name).stem for name in known.names] if known else None)
        return SimpleNamespace(signature=products, spec=SimpleNamespace(towers=[]), latency_s=0.01)

    monkeypatch.setattr(left_out_devices, "prepare", lambda mix, bench, request, design: bench)
    monkeypatch.setattr(left_out_devices, "finish", finish)
    words = ["--device", here, "--mix", f"{tmp_path / 'a.json'}:1", "--profiles", tmp_path, "--ways", "2,3"]
    call(left_out_devices.main, *words, "--others", *others)
    assert rows == [None, ["acme-two"], ["acme-three"]]
    lines = capsys.readouterr().out.splitlines()
    assert "2 devices left out in turn" in lines[0]
    assert [line.split(" | ")[3:5] for line in lines[-2:]] == [["0.00%", "0.00%"]] * 2
    with pytest.raises(StatsNetError, match="cannot check itself"):
        call(left_out_devices.main, *words, "--others", here)


def test_a_proxys_step_is_predicted_for_the_device_that_it_was_made_for(
    call: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    """As its fit.json says, which came from the same record."""
    folder = Path(__file__).parents[2] / "generated" / "serving-llm-h100"
    fit = open_proxy(folder).fit()
    assert fit is not None
    call(predicted_step.main, folder, "nvidia-h100-sxm")
    assert capsys.readouterr().out == f"nvidia-h100-sxm: {format_duration(fit.summary.step_latency_s)}\n"
    with pytest.raises(StatsNetError, match="names no recorded device"):
        call(predicted_step.main, folder, "acme-1")


def test_near_rows_tell_what_the_table_scatters_by() -> None:
    def rows_with(noise: float) -> list[TableRow]:
        rng = random.Random(0)
        return [
            TableRow(source="plain", operator="gemm", dtype="float32", dims=named("gemm", (1, m, 1024, 1024)),
                     variant="NN", time_s={"acme-one": 1e-4 * m * rng.lognormvariate(0.0, noise)})
            for m in range(1000, 1400)
        ]  # fmt: skip

    quiet, noisy = rows_with(0.01), rows_with(0.3)
    record = build_record(noisy, "acme-one")
    (found,) = table_scatter.scatters([record], noisy, above=0.05)
    assert found.share is not None and found.pairs > 350
    assert 0.15 < found.share < 0.3
    (found,) = table_scatter.scatters([record], quiet, above=0.05)
    assert found.share is not None and found.share < 0.01
    assert not [*table_scatter.scatters([record], noisy, above=5.0)]
