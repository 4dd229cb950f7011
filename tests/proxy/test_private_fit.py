"""What a proxy's folder tells of private members: names from keyed ids, and few digits."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from synthesis_builders import BUDGET_S, small_signature

from statsnet.proxy.private_fit import fingerprints_in, without_fingerprints
from statsnet.proxy.spec import make_spec
from statsnet.proxy.towers import Placed, build_towers
from statsnet.signatures.comparison import characteristics, summary
from statsnet.signatures.documents import Fit, FitSummary, Round, SpecCollective, SpecMember, Uncovered
from statsnet.signatures.model import Level, Signature, WorkloadName
from statsnet.signatures.target import Target, target_of

KEYED = "sha256:" + "ab" * 32
EXACT = small_signature(batch=77, memory=replace(small_signature().memory, peak_bytes=123_456_789))


def target(signature: Signature, factor: float) -> Target:
    """Of one private member, on a machine that takes `factor` times as long."""
    measurement = signature.measurements[0].scale_times(factor)
    alone = target_of(replace(signature, measurements=(measurement,)), name="signature-abababab")
    return replace(alone, members=tuple(replace(m, keyed_id=KEYED) for m in alone.members))


WANTED, ACHIEVED = target(EXACT, 1.23456789), target(small_signature(), 1.1)


def exact_fit() -> Fit:
    figures = FitSummary(
        **asdict(summary(WANTED, ACHIEVED)), suite_latency_s=0.0123456789, step_latency_s=0.00123456789,
        proxy_coverage=0.987654321,
    )  # fmt: skip
    uncovered = (Uncovered(kernel_class="x", share=0.0123456789, has_candidate=True, fits_from_s=0.0123456789),)
    rows = tuple(characteristics(WANTED, ACHIEVED))
    return Fit(spec=KEYED, environment={}, characteristics=rows, summary=figures, uncovered=uncovered)


def digits(value: float) -> int:
    """Significant digits of a number as files have it."""
    return len(f"{value:.9g}".partition("e")[0].replace(".", "").replace("-", "").strip("0"))


def test_what_was_asked_for_has_three_digits() -> None:
    exact = exact_fit()
    told = without_fingerprints(exact)
    for row, before in zip(told.characteristics, exact.characteristics, strict=True):
        if row.group != "memory" and row.target is not None:
            assert digits(row.target) <= 3
            assert row.target == pytest.approx(before.target, rel=0.005)
        assert row.achieved == before.achieved, "of the proxy itself"
    (memory,) = (row for row in told.characteristics if row.group == "memory")
    assert memory.target == 2**27
    assert (told.summary.suite_latency_s, told.summary.proxy_coverage) == (0.0123, 0.988)
    assert told.summary.step_latency_s == 0.00123456789
    assert told.uncovered == (Uncovered(kernel_class="x", share=0.0123, has_candidate=True, fits_from_s=0.0123),)


@pytest.mark.parametrize("name", ["flops_per_s", "bytes_per_s"])
def test_an_error_gives_no_digit_away(name: str) -> None:
    told = without_fingerprints(exact_fit())
    (row,) = (r for r in told.characteristics if r.name == name)
    assert row.achieved is not None
    implied = row.achieved / (1 + getattr(told.summary, f"{name}_error"))
    assert implied == pytest.approx(row.target)
    assert implied != pytest.approx(getattr(WANTED, name), rel=1e-6)


def pinned(wanted: Target) -> SpecMember:
    towers = build_towers([(Placed(kind="softmax", config={"shape": (9,), "axis": 0}), 1)], training=False)
    spec = make_spec(wanted, towers, title="t", notes="", dtype="float32", seed=0, budget_s=BUDGET_S, environment={})
    (member,) = spec.mix
    return member


def test_a_private_member_is_pinned_by_its_keyed_id() -> None:
    member = pinned(WANTED)
    assert (member.signature, member.name) == (KEYED, "signature-abababab")
    assert (member.batch, member.preset, member.optimizer, member.peak_bytes) == (None,) * 4
    assert member.latency_s == 0.0123


def test_one_that_ships_is_pinned_with_all_that_runs_it_again() -> None:
    shipped = target(replace(EXACT, workload=WorkloadName(domain="cv", name="x")), 1.23456789)
    assert (WANTED.is_private, shipped.is_private) == (True, False)
    assert (pinned(shipped).batch, pinned(shipped).peak_bytes) == (77, 123_456_789)
    assert pinned(shipped).latency_s == 0.0123456789


@pytest.mark.parametrize(("level", "name", "size", "is_told"), [
    ("coarse", "signature-1", 1283, True), ("coarse", "signature-1", 3 * 107, True),
    ("coarse", "signature-1", 1152, False), ("coarse", "signature-1", 13, False), ("coarse", "cv/tiny", 1283, False),
    ("statistical", "signature-1", 1283, False),
])  # fmt: skip
def test_a_size_that_no_coarse_member_can_have_given_is_told(level: Level, name: str, size: int, is_told: bool) -> None:
    """1152 is 2^7 * 9, the product of two bins. Rows are tuned. A member that ships has sizes that everybody knows."""
    config = {"rows": 1071, "inputs": size, "outputs": 96}
    spec = make_spec(
        WANTED, build_towers([(Placed(kind="linear", config=config), 1)], training=False),
        title="a mix", notes="", dtype="float32", seed=0, budget_s=BUDGET_S, environment={},
    )  # fmt: skip
    member = replace(spec.mix[0], name=name, batch=None if name.startswith("signature") else 4)
    found = fingerprints_in(replace(spec, level=level, mix=(member,)), without_fingerprints(exact_fit()))
    assert found == ([f"towers[].blocks[].config: the size {size} of a linear block cannot come from a coarse "
                      "signature"] if is_told else [])  # fmt: skip


def test_collectives_of_private_members_have_few_digits() -> None:
    spec = make_spec(
        WANTED, build_towers([(Placed(kind="linear", config={"rows": 8, "inputs": 8, "outputs": 8}), 1)]),
        title="a mix", notes="", dtype="float32", seed=0, budget_s=BUDGET_S, environment={},
    )  # fmt: skip
    few = SpecCollective(operation="all_reduce", elements=30_750, dtype="float32", phase="forward", begins_at=0.4151,
                         awaited_at=0.5)  # fmt: skip
    told = without_fingerprints(exact_fit())
    for collective, found in (
        (few, []),
        (replace(few, begins_at=0.41512), ["collectives[]: a place has more than 4 digits"]),
        (replace(few, elements=30_791), ["collectives[].elements: their bytes have more than 3 digits"]),
    ):
        assert fingerprints_in(replace(spec, level="full", collectives=(collective,)), told) == found


def test_errors_of_networks_on_the_way_have_three_digits() -> None:
    """Against exact figures, more would show that a guess of these is right."""
    tried = Round(round=1, predicted_error=0.0123456789, lower_bound=0.0112345678, measured_error=0.0456789012,
                  drift=1.00234567, step_latency_s=0.00123456789)  # fmt: skip
    fit = replace(exact_fit(), rounds=(tried,))
    told = without_fingerprints(fit).rounds
    assert told == (Round(round=1, predicted_error=0.0123, lower_bound=0.0112, measured_error=0.0457, drift=1.0,
                          step_latency_s=0.00123456789),)  # fmt: skip
    towers = build_towers([(Placed(kind="softmax", config={"shape": (9,), "axis": 0}), 1)], training=False)
    spec = make_spec(WANTED, towers, title="t", notes="", dtype="float32", seed=0, budget_s=BUDGET_S, environment={})
    exact = replace(without_fingerprints(fit), rounds=(tried,))
    assert fingerprints_in(spec, exact) == ["fit.json: figures of private members have more than 3 digits"]
