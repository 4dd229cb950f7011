"""Suite and proxy measured in turn: the fit again, and whether both follow a setting alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from statsnet.environment import differences
from statsnet.errors import UsageError
from statsnet.evaluation.factors import measure_fidelity, moved_row
from statsnet.evaluation.suite import SuiteMember, process_of, suite_of, suite_result
from statsnet.measure.process import Progress
from statsnet.measure.rounds import interleave
from statsnet.proxy.folder import ProxyFolder, open_proxy
from statsnet.signatures.comparison import characteristics, summary
from statsnet.signatures.intervals import latency_with_ci
from statsnet.signatures.mix import Mix, MixMember
from statsnet.signatures.model import Measurement, Signature
from statsnet.signatures.storage import load_document
from statsnet.signatures.target import Target, target_of, target_of_mix
from statsnet.workloads.settings import Setting

ROUNDS = 2
MOST_ROUNDS = 8

SAME_COUNTS = 0.01
"""FLOPs of a model that differ from its signature's by more than this share are of another model."""


def validate_proxy(
    folder: str | Path,
    *,
    rounds: int | None = None,
    settings: Sequence[Setting] = (),
    fit: bool | None = None,
    profiles: str | Path | None = None,
    device: str = "cpu",
    trust: bool = False,
    on_progress: Progress | None = None,
    **limits: float,
) -> dict[str, Any]:
    """Measure a proxy's suite and the proxy in turn, A B A B; returns a result of the suite.

    Its key `validation` holds `fit` (every characteristic measured again), `fidelity` (factors under
    `settings`), `moved` (factors from the environment where the proxy was made to this one, if it is another) and
    `notes`. The fit is measured where there are no settings, or where `fit` is true. Without
    a number of `rounds` there are 2, and under settings up to MOST_ROUNDS, until every factor is known well.
    `limits` (min_time_s, max_time_s) bound a single measurement.

    Raises UsageError, FileFormatError as open_proxy does, UsageError for a member that can not be measured,
    MeasurementError where a measurement fails.
    """
    if rounds is not None and rounds < 1:
        raise UsageError(f"{rounds} is not a number of rounds", hint="2 or more show the noise")
    proxy = open_proxy(folder, trust=trust)
    members = suite_of(proxy.spec, profiles)
    validation: dict[str, Any] = {"fit": None, "fidelity": None, "moved": None, "notes": _notes(members)}
    result: dict[str, Any] = {}
    if fit or (fit is None and not settings):
        result, validation["fit"], notes = _measure_fit(
            proxy, members, rounds or ROUNDS, device, on_progress, limits
        )
        validation["notes"] += notes
    if settings:
        result, validation["fidelity"] = measure_fidelity(
            proxy,
            members,
            settings,
            rounds=rounds or ROUNDS,
            most_rounds=rounds or MOST_ROUNDS,
            device=device,
            on_progress=on_progress,
            **limits,
        )
        validation["notes"] += [
            f"{f['name']} is left out: {f['cause']}" for f in validation["fidelity"]["failed"]
        ]
    if changed := differences(proxy.spec["reference_environment"], result["environment"]):
        validation["notes"].append(f"the proxy was made in another environment ({'; '.join(changed)})")
        validation["moved"] = _moved(proxy, members, result)
    return {**result, "validation": validation}


def _moved(
    proxy: ProxyFolder, members: Sequence[SuiteMember], result: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Whether the proxy has followed its suite from where it was made to here; None where its own time there is not
    known."""
    path = proxy.path / "fit.json"
    if not path.is_file():
        return None
    latency_s = load_document(path, "statsnet.fit")["summary"]["step_latency_s"]
    outcomes = [*(m["processes"] for m in result["members"]), result["proxy"]["processes"]]
    return moved_row(members, outcomes, latency_s)


def _notes(members: Sequence[SuiteMember]) -> list[str]:
    replayed = [m for m in members if m.evidence == "replay"]
    if not replayed:
        return []
    share = sum(m.weight for m in replayed)
    names = ", ".join(m.name for m in replayed)
    return [f"{share:.0%} of the suite is a replay of operators, weaker evidence than its models: {names}"]


def _measure_fit(
    proxy: ProxyFolder,
    members: Sequence[SuiteMember],
    rounds: int,
    device: str,
    on_progress: Progress | None,
    limits: Mapping[str, float],
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """The suite's result, the fit measured now, and notes."""
    spec = proxy.spec
    profiling = {key: value for key, value in limits.items() if key == "min_time_s"}
    proxy_job = {
        "kind": "trace_proxy",
        "label": "the proxy",
        "folder": str(proxy.path.resolve()),
        "dtype": spec["dtype"],
        "device": device,
        **profiling,
    }
    jobs = [*(m.profile_job(spec, device, **profiling) for m in members), proxy_job]
    *outcomes, traced = interleave(jobs, rounds, on_progress=on_progress)
    result = suite_result(spec, members, outcomes, traced)
    elsewhere = bool(differences(spec["reference_environment"], result["environment"]))
    targets = [
        _target(members, [row[number] for row in outcomes], spec["mode"], shift=elsewhere)
        for number in range(rounds)
    ]
    achieved = [target_of(Signature.from_dict(outcome["signature"])) for outcome in traced]
    recorded = None if elsewhere else _recorded(proxy)
    suite_s = sum(latency_with_ci([process_of(o) for o in row]).value for row in outcomes)
    proxy_s = latency_with_ci([process_of(o) for o in traced]).value
    fit = {
        "suite_latency_s": suite_s,
        "proxy_latency_s": proxy_s,
        "compression": suite_s / proxy_s,
        "characteristics": _rows(targets, achieved, recorded),
        "summary": _mean_summary([summary(t, a) for t, a in zip(targets, achieved, strict=True)]),
        "noise": summary(targets[0], targets[-1]) if rounds > 1 else None,
    }
    return result, fit, _count_notes(members, targets[0])


def _target(
    members: Sequence[SuiteMember], outcomes: Sequence[Mapping[str, Any]], mode: str, *, shift: bool
) -> Target:
    """The target from one round. Where the environment is another than the reference, the weights `shift`.

    A weight is a share of the time in the reference environment; elsewhere a member has the share
    w_i T_i(e) / T_i(e0), normalised.
    """
    measured: dict[str, Measurement] = {}
    signatures: dict[str, Signature] = {}
    for member, outcome in zip(members, outcomes, strict=True):
        if "measurement" in outcome:
            assert member.signature is not None
            signatures[member.name] = member.signature
            measured[member.name] = Measurement.from_dict(outcome["measurement"])
        else:
            signatures[member.name] = Signature.from_dict(outcome["signature"])
            measured[member.name] = signatures[member.name].measurements[0]
    weights = {m.name: m.rate * measured[m.name].latency_s if shift else m.weight for m in members}
    total = sum(weights.values())
    mix = Mix(
        mode=mode,
        members=tuple(
            MixMember(
                name=name, weight=weights[name] / total, signature=signature, source="file", path=Path()
            )
            for name, signature in signatures.items()
        ),
    )
    return target_of_mix(mix, measured)


def _recorded(proxy: ProxyFolder) -> dict[tuple[str, str], float | None]:
    """The target that fit.json recorded; empty without one."""
    path = proxy.path / "fit.json"
    if not path.is_file():
        return {}
    rows = load_document(path, "statsnet.fit")["characteristics"]
    return {(row["group"], row["name"]): row["target"] for row in rows}


def _rows(
    targets: Sequence[Target],
    achieved: Sequence[Target],
    recorded: Mapping[tuple[str, str], float | None] | None,
) -> list[dict[str, Any]]:
    """Means over the rounds; `noise` is the spread of the target between them, in the error's terms."""
    tables = [
        {(row["group"], row["name"]): row for row in characteristics(t, a)}
        for t, a in zip(targets, achieved, strict=True)
    ]
    rows = []
    for key in dict.fromkeys(key for table in tables for key in table):
        found = [table[key] for table in tables if key in table]
        unit = found[0]["unit"]
        is_share = unit.startswith("share")
        # A class that a round did not see has no share there.
        pad = [0.0] * (len(tables) - len(found)) if is_share else []
        wanted = _known([row["target"] for row in found], pad)
        got = _known([row["achieved"] for row in found], pad)
        target, reached = _mean(wanted), _mean(got)
        rows.append(
            {
                "group": key[0],
                "name": key[1],
                "unit": unit,
                "recorded": (recorded or {}).get(key),
                "target": target,
                "achieved": reached,
                "error": _difference(target, reached, is_share=is_share),
                "noise": _spread(wanted, is_share=is_share) if len(wanted) > 1 else None,
            }
        )
    return rows


def _known(values: Sequence[float | None], pad: Sequence[float]) -> list[float]:
    return [value for value in values if value is not None] + list(pad)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _difference(target: float | None, achieved: float | None, *, is_share: bool) -> float | None:
    """Of shares in parts of 1, of all else relative to the target."""
    if target is None or achieved is None:
        return None
    if is_share:
        return achieved - target
    return achieved / target - 1 if target else None


def _spread(values: Sequence[float], *, is_share: bool) -> float | None:
    low, high = min(values), max(values)
    if is_share:
        return high - low
    return high / low - 1 if low > 0 else None


def _mean_summary(summaries: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    return {
        key: _mean(_known([found[key] for found in summaries], []))
        for key in (summaries[0] if summaries else ())
    }


def _count_notes(members: Sequence[SuiteMember], target: Target) -> list[str]:
    """Models that do other work than their pinned signature: another version, or another size."""
    found = []
    for member, fresh in zip(members, target.members, strict=True):
        if member.evidence == "replay" or member.signature is None:
            continue
        before, now = member.signature.flops_per_step, fresh.signature.flops_per_step
        if abs(now - before) > SAME_COUNTS * max(before, now):
            found.append(
                f"'{member.name}' is not what its signature says: {now:.4g} FLOPs a step against {before:.4g}"
            )
    return found
