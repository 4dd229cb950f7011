"""Reports as text: figures in readable units, and what was not measured is a dash."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from rich.console import Console

from statsnet.analysis.audit import audited
from statsnet.errors import UsageError
from statsnet.errors import shown as shown_text
from statsnet.reporting import proxy, results, signature, tables
from statsnet.signatures.documents import Characteristic, FitSummary, SpecMember
from statsnet.signatures.gpu import Counters, GpuActivity, GpuKernel, Power
from statsnet.signatures.model import Signature
from statsnet.signatures.results import Result, Subject
from statsnet.signatures.storage import load_signature
from statsnet.signatures.timing import Timing, warnings_of
from statsnet.units import format_bytes, format_duration, format_quantity, parse_count, parse_duration_s

GOLDEN = Path(__file__).parents[1] / "signatures" / "golden_signature.json"


def text_of(report: tables.Report) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=200, markup=False)
    for part in report:
        console.print(part)
    return stream.getvalue()


@pytest.fixture(scope="module")
def golden() -> Signature:
    return load_signature(GOLDEN)


def test_a_signature_report_has_every_category_and_the_privacy_note(golden: Signature) -> None:
    text = text_of(signature.signature_report(golden))
    assert all(cluster.category in text for cluster in golden.clusters)
    assert signature.PRIVACY_NOTES["full"] in text
    assert golden.id in text


def test_counts_alone_show_no_times(golden: Signature) -> None:
    text = text_of(signature.signature_report(dataclasses.replace(golden, measurements=())))
    assert "counts only" in text
    assert "step time" not in text


def test_what_no_formula_covers_is_listed_by_share_of_time(golden: Signature) -> None:
    (measurement, *_) = golden.measurements
    clusters = tuple(dataclasses.replace(c, flops=None) for c in golden.clusters)
    bare = dataclasses.replace(golden, clusters=clusters)
    shares = signature.uncovered(bare, measurement)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert "FLOPs and bytes not known" in text_of(signature.signature_report(bare))


def test_operators_of_no_category_are_named(golden: Signature) -> None:
    clusters = tuple(dataclasses.replace(c, category="other", flops=1.0) for c in golden.clusters)
    assert "of no category" not in text_of(signature.signature_report(golden))
    text = text_of(signature.signature_report(dataclasses.replace(golden, clusters=clusters)))
    assert f"of operator time: {golden.clusters[0].op}" in text


def row(name: str, group: str, unit: str, target: float | None, achieved: float | None) -> Characteristic:
    return Characteristic(name=name, group=group, unit=unit, target=target, achieved=achieved)


def test_shares_differ_in_points_and_rates_in_percent() -> None:
    rows = [
        row("flops_per_s", "rate", "FLOP/s", 2e9, 3e9),
        row("idle_share", "time", "share of step", None, 0.1),
        row("gemm", "category", "share of operator time", 0.5, 0.4),
        row("sort", "category", "share of operator time", 0.001, 0.0),
    ]
    rates = text_of([proxy.rate_table(rows)])
    assert "2 GFLOP/s" in rates
    assert "+50.0%" in rates
    assert tables.MISSING in rates
    shares = text_of([proxy.share_table(rows, "category")])
    assert "-10.0 points" in shares
    assert "sort" not in shares


def test_warnings_are_said_once() -> None:
    processes = [Timing(latency_s=(1.0,), stable=stable, warnings=("noise", busy)) for stable, busy in
                 ((False, "9% busy"), (True, "10.5% busy"))]  # fmt: skip
    assert warnings_of(processes) == ["1 of 2 processes were not stable", "noise", "10.5% busy"]


def test_text_of_a_file_is_made_harmless() -> None:
    assert shown_text("a\x1b[31mb\x9bc") == "a?[31mb?c"
    assert "[red]x" in text_of([tables.line("[red]x")])


def test_the_picture_of_a_search() -> None:
    pytest.importorskip("matplotlib")
    from statsnet.reporting.front import SearchRecord, front_svg

    tried = [{"number": n, "step_latency_s": s, "error": e} for n, s, e in ((0, 0.01, 0.5), (1, 0.005, 0.7))]
    data = {"tried": tried, "front": [0, 1], "chosen": 0, "usual": None, "budget_s": 0.01}
    record = SearchRecord.of(data)
    picture = front_svg(record)
    assert picture == front_svg(record)
    for text in ("Pareto front", "step time, ms", "chosen"):
        assert text in picture
    assert "usual" not in picture
    with pytest.raises(ValueError, match="not tried"):
        SearchRecord.of(data | {"chosen": 2})


def test_what_a_gpu_did_is_shown_with_what_is_not_known_of_it(golden: Signature) -> None:
    (measurement, *_) = golden.measurements
    count = len(golden.clusters)
    activity = GpuActivity(
        busy_time_s=0.4 * measurement.latency_s,
        streams=2,
        kernels=(
            GpuKernel(cluster=0, family="sgemm_N_nn", grid=(80, 2, 1), block=(128, 1, 1), launches=3, time_s=3e-3),
            GpuKernel(cluster=None, family="opaque", grid=None, block=None, launches=1, time_s=1e-3),
        ),
        duration_log2_us=((2, 3.0), (5, 1.0)),
        gap_log2_us=((1, 3.0),),
        power=Power(energy_j_per_step=2.0, power_w=500.0, missing={"clocks": "not_supported"}),
        counters=Counters(
            tool="ncu 2025.3", clusters={"achieved_occupancy": (0.25,) * count, "dram_bytes": (1e6,) * count},
            missing={"ipc": "not_supported"},
        ),
    )  # fmt: skip
    shown = dataclasses.replace(measurement, gpu=activity)
    text = text_of(signature.signature_report(dataclasses.replace(golden, measurements=(shown,))))
    for expected in (
        "40.0% of the step, on 2 streams", "4 to 8 µs each", "2 J a step, 500 W", "sgemm_N_nn", "75.0%", "160",
        "achieved_occupancy", "25.0%", "not known of the device", "clocks, ipc: the device does not give it",
    ):  # fmt: skip
        assert expected in text, expected
    assert "On the device" not in text_of(signature.signature_report(golden))


class TestAnotherTimeThanWhenItWasMade:
    HERE: ClassVar[dict[str, Any]] = {"device": "cpu", "device_name": "a CPU", "threads": 2, "settings": {}}

    def text(self, step_s: float, made_s: float | None, **changed: Any) -> str:
        subject = Subject(type="proxy", id="sha256:" + "0" * 64, mode="inference")
        processes = tuple(Timing(latency_s=(step_s,) * 6) for _ in range(3))
        result = Result(subject=subject, environment={**self.HERE, **changed}, processes=processes)
        member = SpecMember(name="a", weight=1.0, signature="sha256:" + "1" * 64, latency_s=1.0)
        spec = SimpleNamespace(mix=(member,), reference_environment=self.HERE)
        fit = SimpleNamespace(recorded=None, summary=SimpleNamespace(step_latency_s=made_s))
        return text_of(results.result_report(result, cast(Any, spec), cast(Any, fit)))

    def test_the_run_says_which_is_to_be_believed(self) -> None:
        text = self.text(0.0087, 0.0104)
        assert "its step took 10.4 ms (fit.json)" in text
        assert "This run says how long" in " ".join(text.split())

    @pytest.mark.parametrize(
        ("step_s", "made_s", "changed"),
        [(0.0104, 0.0105, {}), (0.0087, None, {}), (0.0087, 0.0104, {"threads": 1})],
    )
    def test_nothing_is_said_where_there_is_nothing_to_explain(
        self, step_s: float, made_s: float | None, changed: dict[str, Any]
    ) -> None:
        assert "fit.json" not in self.text(step_s, made_s, **changed)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (format_bytes(1010 * 1024), "1010 KiB"),
        (format_bytes(1023.9 * 1024), "1024 KiB"),
        (format_bytes(999 * 1024), "999 KiB"),
        (format_quantity(999.9e3), "1000 k"),
        (format_quantity(1.2345e18, "FLOP"), "1234 PFLOP"),
        (format_quantity(999.6, "/s"), "1000 /s"),
        (format_duration(0.9999), "1000 ms"),
        (format_duration(999.7e-9), "1000 ns"),
        (format_duration(0.98765), "988 ms"),
        (format_duration(7200.0), "7200 s"),
    ],
)
def test_no_figure_with_a_unit_has_an_exponent(shown: str, text: str) -> None:
    assert shown == text


@pytest.mark.parametrize(("calls", "is_said"), [(None, False), (0.0, False), (0.5, True)])
def test_calls_that_were_not_matched_are_said_where_there_are_any(
    golden: Signature, calls: float | None, is_said: bool
) -> None:
    measurement = dataclasses.replace(golden.measurements[0], unmatched_calls=calls)
    text = text_of(signature.signature_report(dataclasses.replace(golden, measurements=(measurement,))))
    assert ("not matched" in text) == is_said


def test_an_example_in_an_audit_is_cut_to_one_line() -> None:
    row = audited("x.json", {"kind": "statsnet.signature", "id": "sha256:" + "1a" * 32}, []).rows
    examples = [each.example for each in row]
    assert any(example.endswith("…") for example in examples)
    assert max(map(len, examples)) <= 48


def test_a_tab_in_a_text_is_a_space() -> None:
    assert shown_text("a\tb\x1b") == "a b?"


def test_distances_stand_beside_their_bars() -> None:
    summary = FitSummary(
        category_total_variation=0.02, kernel_class_total_variation=0.051, flops_per_s_error=-0.02, proxy_coverage=0.94
    )
    rows = {line.split("  ")[0]: line.split() for line in text_of([proxy.distances_table(summary)]).splitlines()}
    assert rows["categories"][1:] == ["2.0", "points", "at", "most", "3", "points", "yes"]
    assert rows["kernel classes"][2:] == ["5.1", "points", "at", "most", "5", "points", "no"]
    assert rows["FLOP/s"][1:] == ["-2.0%", "at", "most", "5%", "yes"]
    assert rows["bytes/s"][1:] == [tables.MISSING, "at", "most", "5%", tables.MISSING]
    assert rows["kernel classes in the proxy"][-5:] == ["94.0%", "at", "least", "95%", "no"]


@pytest.mark.parametrize(("text", "count"), [("4.1M", 4_100_000), ("16.4M", 16_400_000), ("64.1k", 64_100), ("7", 7)])
def test_a_count_may_have_decimals_that_its_prefix_makes_whole(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["0.5", "1.2345k", "0", "1e3", ".", "2000P"])
def test_what_is_no_whole_number_is_no_count(text: str) -> None:
    with pytest.raises(UsageError, match="is not a count"):
        parse_count(text)


@pytest.mark.parametrize("text", ["0s", "1e-322ms", "9" * 400 + "s", "500000h", "10", "10 parsecs"])
def test_a_duration_ends(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration"):
        parse_duration_s(text)
