"""The README of a proxy's folder: what its mix is called, and what its author noted."""

from __future__ import annotations

from dataclasses import replace

from statsnet.proxy.readme import proxy_readme
from statsnet.proxy.spec import source_of
from statsnet.signatures.documents import (
    Characteristic,
    Fit,
    FitSummary,
    ProxySpec,
    SpecBlock,
    SpecCollective,
    SpecMember,
    SpecTower,
    Uncovered,
)

SPEC = ProxySpec(
    id="",
    title="A suite",
    notes="For the lab.\nNot for sale.\n",
    seed=0,
    mode="inference",
    dtype="float32",
    budget_s=0.005,
    reference_environment={"device_name": "Z80", "threads": 1, "torch": "2.13"},
    mix=(SpecMember(name="cv/x", weight=1.0, signature="", latency_s=0.25),),
    towers=tuple(
        SpecTower(blocks=(SpecBlock(kind="softmax", config={"shape": [size], "axis": 0}, optimizer=None),))
        for size in range(9, 21)
    ),
)
FIT = Fit(
    spec="",
    environment={},
    characteristics=(),
    summary=FitSummary(
        step_latency_s=0.005,
        suite_latency_s=0.25,
        compression=50.0,
        category_total_variation=0.01,
        kernel_class_total_variation=0.02,
        intensity_earth_movers_distance_log2=0.1,
    ),
)


def readme(spec: ProxySpec) -> list[str]:
    return proxy_readme(spec, FIT, source_of(spec)).splitlines()


def test_the_title_and_notes_come_first() -> None:
    lines = readme(SPEC)
    assert lines[:6] == ["# Proxy for `A suite`", "", "For the lab.", "Not for sale.", "", lines[5]]
    assert lines[5].startswith("One inference step")


def test_names_of_strangers_are_neither_markup_nor_commands_of_a_terminal() -> None:
    evil = "`<img src=x>|\x1b[31m\n# own"
    where = {"device_name": evil, "threads": 1, "torch": evil}
    member = replace(SPEC.mix[0], name=evil)
    row = Characteristic(name=evil, group="rate", target=1, achieved=1, unit=evil)
    fit = replace(FIT, characteristics=(row,), replayed_members=(evil,), stored_members=(evil,))
    spec = replace(SPEC, title=evil, notes="\x1b<img>", mix=(member,), reference_environment=where)
    text = proxy_readme(spec, fit, source_of(spec))
    assert all(c.isprintable() or c == "\n" for c in text)
    head, _, rest = text.partition("\n")
    assert head == "# Proxy for `'<img src=x>|?[31m?# own`"
    assert "<img" in rest
    assert "<img" not in rest.replace(r"\<img", "")
    assert "\n# own" not in text


def test_a_mix_without_notes() -> None:
    assert readme(replace(SPEC, notes=""))[2].startswith("One inference step")


def test_one_workload_is_singular() -> None:
    text = "\n".join(readme(SPEC))
    assert "stands for 1 workload (float32)" in text
    assert "all 12 blocks in 12 towers" in text
    assert "A proxy for 1 workload, one inference step." in source_of(SPEC)


def test_it_shows_ten_lines_of_the_network_and_the_picture() -> None:
    lines = readme(SPEC)
    begin = lines.index("```python") + 1
    shown = lines[begin : lines.index("```", begin)]
    assert shown == [f"nn.Sequential(Softmax(shape=({size},), axis=0))," for size in range(9, 19)] + ["..."]
    assert any("(fit.svg)" in line for line in lines)


def test_coverage_is_told_where_it_is_known() -> None:
    """And what is missing, if it is too much."""
    assert not any("kernel classes (operator" in line for line in readme(SPEC))
    missing = (Uncovered(kernel_class="tanh|aten|float32|strided", share=0.1, has_candidate=True),)
    summary = replace(FIT.summary, candidate_coverage=1.0, proxy_coverage=0.9)
    text = proxy_readme(SPEC, replace(FIT, summary=summary, uncovered=missing), source_of(SPEC))
    assert "90.0% is in kernel classes" in text
    assert "tanh|aten|float32|strided (10.0%)" in text


def test_operators_whose_times_are_from_before_are_told() -> None:
    assert not any("is not known" in line for line in readme(SPEC))
    text = proxy_readme(SPEC, replace(FIT, slowed_share=0.12), source_of(SPEC))
    assert "by 12% of their time; the cause is not known" in text


def test_what_several_processes_do_is_told_where_they_can() -> None:
    assert not any("torchrun" in line for line in readme(SPEC))
    sent = SpecCollective(operation="all_reduce", elements=100, dtype="float32", phase="forward", begins_at=0.0,
                          awaited_at=1.0, group_size=4, count=2)  # fmt: skip
    rows = tuple(
        Characteristic(name=name, group="collective", target=target, achieved=achieved, unit=unit, bar=0.05)
        for name, target, achieved, unit in (
            ("all_reduce bytes", 8e4, 7.9e4, "B/s"), ("all_reduce calls", 10.0, 11.0, "1/s"),
            ("waiting for collectives", 0.25, None, "share of step"), ("overlap", 0.5, 0.4, "share of their time"),
        )
    )  # fmt: skip
    spec = replace(SPEC, collectives=(sent,))
    lines = proxy_readme(spec, replace(FIT, characteristics=rows), source_of(spec)).splitlines()
    assert "    torchrun --nproc-per-node 4 network.py" in lines
    assert "| all_reduce bytes | 80 kB/s | 79 kB/s |" in lines
    assert "| waiting for collectives | 25.0% | – |" in lines
    assert any("with 2 collectives." in line for line in lines)
    (missed,) = (line for line in lines if line.startswith("Missed"))
    assert "all_reduce calls +10.0% (bar: 5%), overlap -10.0 points (bar: 5 points). A longer step" in missed
    short = replace(FIT.summary, step_latency_error=-0.08)
    fit = replace(FIT, characteristics=rows, summary=short, not_together="there is no core")
    text = proxy_readme(spec, fit, source_of(spec))
    assert "\nHow long its processes wait for each other was not measured: there is no core.\n" in text
    assert "the step is 8.0% shorter than planned: make it again on an idle machine" in text
