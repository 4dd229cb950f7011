"""The members of a proxy's mix, ready to be measured again: as models, or by replay of their signatures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from statsnet import workloads
from statsnet.environment import differences
from statsnet.errors import FileFormatError, MeasurementError, UsageError
from statsnet.signatures.canonical import read_json
from statsnet.signatures.database import default_profiles_dir
from statsnet.signatures.model import KIND, Signature
from statsnet.signatures.statistics import interquartile_share
from statsnet.signatures.storage import load_signature
from statsnet.workloads.settings import RUNTIME, Setting

Job = dict[str, Any]

MODEL_SETTINGS = ("dtype", "layout", "compile", RUNTIME)
"""Settings that act on a model, so that a replay of its operators can not follow them."""

NOISY = 0.1
"""Interquartile range over median from which the steps of a profile are called not stable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteMember:
    """A member of a mix. `signature` is the pinned one where it was found (one made while its proxy was made is in no
    file); a replay needs it."""

    name: str
    weight: float
    latency_s_reference: float
    batch: int | None
    preset: str | None
    optimizer: str | None
    peak_bytes: int | None
    target: str | None
    signature: Signature | None

    @property
    def evidence(self) -> Literal["model", "replay"]:
        return "model" if self.target is not None else "replay"

    @property
    def rate(self) -> float:
        """Steps in one second of the mix, in its reference environment."""
        return self.weight / self.latency_s_reference

    def profile_job(self, spec: Mapping[str, Any], device: str, **limits: float) -> Job:
        """The job that measures its operators."""
        return self._job("profile_workload", spec, device, **limits)

    def timing_job(self, spec: Mapping[str, Any], device: str, setting: Setting, **limits: float) -> Job:
        """The job that measures its step time alone, under a setting.

        Raises UsageError for a setting that a replay can not follow.
        """
        changed = [key for key in MODEL_SETTINGS if key in setting.in_process]
        if self.target is None and changed:
            raise UsageError(
                f"'{self.name}' can not be measured under '{setting.name}'",
                cause=f"its model is not at hand, and a replay does not follow '{changed[0]}'",
                hint="leave that setting out, or register the model as a workload",
            )
        job = self._job("time_workload", spec, device, **limits)
        return {
            **job,
            "setting": setting.to_dict(),
            "label": f"{self.name} ({setting.name})",
            "peak_bytes": self.peak_bytes,
        }

    def _job(self, kind: str, spec: Mapping[str, Any], device: str, **limits: float) -> Job:
        common = {"label": self.name, "device": device}
        if self.target is None:
            assert self.signature is not None
            return {**common, "kind": "replay", "signature": self.signature.to_dict()}
        return {
            **common,
            **limits,
            "kind": kind,
            "target": self.target,
            "mode": spec["mode"],
            "preset": self.preset or None,
            "batch": self.batch,
            "dtype": spec["dtype"],
            "optimizer": self.optimizer if self.optimizer != "custom" else None,
        }


def suite_of(spec: Mapping[str, Any], profiles: str | Path | None = None) -> list[SuiteMember]:
    """The members that a proxy's spec pins, in its order.

    A member whose workload is registered runs as a model. Of any other the pinned signature is searched for,
    in `profiles` and among those that come with StatsNet, and replayed. Raises UsageError where neither is
    there.
    """
    folders = [Path(profiles)] if profiles else []
    if folders and not folders[0].exists():
        raise UsageError(f"there is no folder '{profiles}'", hint="give the folder that holds the signatures")
    signatures = find_signatures({m["signature"] for m in spec["mix"]}, [*folders, default_profiles_dir()])
    return [_member(entry, signatures.get(entry["signature"])) for entry in spec["mix"]]


def find_signatures(ids: set[str], folders: Iterable[Path]) -> dict[str, Signature]:
    """Signatures with these ids, in any file below the folders; files that are none are passed over."""
    found: dict[str, Signature] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.json")) if folder.is_dir() else [folder]:
            if len(found) == len(ids):
                return found
            try:
                data = read_json(path)
                wanted = data.get("kind") == KIND and data.get("id") in ids and data["id"] not in found
                if wanted:
                    found[data["id"]] = load_signature(path)
            except FileFormatError:
                continue
    return found


def _member(entry: Mapping[str, Any], signature: Signature | None) -> SuiteMember:
    name = entry["name"].partition("@")[0]
    target = name if name in workloads.names() else None
    if target is None and signature is None:
        raise UsageError(
            f"the member '{entry['name']}' can not be measured",
            cause=f"no such workload is registered, and no profile has the id {entry['signature'][:19]}...",
            hint="name the folder that holds its signature with --profiles, or install its model",
        )
    return SuiteMember(
        name=entry["name"],
        weight=entry["weight"],
        latency_s_reference=entry["latency_s"],
        batch=entry.get("batch"),
        preset=entry.get("preset"),
        optimizer=entry.get("optimizer", signature.optimizer if signature else None),
        peak_bytes=entry.get("peak_bytes", signature.memory.peak_bytes if signature else None),
        target=target,
        signature=signature,
    )


def process_of(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a result's `processes` for the outcome of any of the jobs."""
    if "latency_s" in outcome:
        return {key: value for key, value in outcome.items() if key != "environment"}
    measurement = measurement_of(outcome)
    samples = list(measurement["step_latency_s"])
    spread = interquartile_share(samples) or 0.0
    warnings = []
    if spread > NOISY:
        warnings.append(f"the middle half of the steps spans {spread:.0%} of their median: raise --min-time")
    return {
        "latency_s": samples,
        "warmup_latency_s": list(measurement["warmup_latency_s"]),
        "stable": spread <= NOISY,
        "warnings": warnings,
    }


def environment_of(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Where the outcome of any of the jobs was measured."""
    found: dict[str, Any] = (
        outcome["environment"] if "environment" in outcome else measurement_of(outcome)["environment"]
    )
    return found


def measurement_of(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """The measurement (a dict) that a replay or a profile returned."""
    found: dict[str, Any] = outcome.get("measurement") or outcome["signature"]["measurements"][0]
    return found


def common_environment(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The environment of all outcomes. Raises MeasurementError if it changed between two of them."""
    first = environment_of(outcomes[0])
    for outcome in outcomes[1:]:
        if changed := differences(first, environment_of(outcome)):
            raise MeasurementError(
                "the environment changed between two processes",
                cause="; ".join(changed),
                hint="measure again",
            )
    return first


def suite_result(
    spec: Mapping[str, Any],
    members: Sequence[SuiteMember],
    outcomes: Sequence[Sequence[Mapping[str, Any]]],
    proxy_outcomes: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """A result of the suite, which `compare` reads; the proxy's processes stand in it too."""
    everything = [o for row in outcomes for o in row] + list(proxy_outcomes)
    return {
        "kind": "statsnet.result",
        "schema_version": 1,
        "subject": {"type": "suite", "id": spec["id"], "mode": spec["mode"]},
        "environment": common_environment(everything),
        "members": [
            {
                "name": member.name,
                "weight": member.weight,
                "latency_s_reference": member.latency_s_reference,
                "evidence": member.evidence,
                "processes": [process_of(outcome) for outcome in row],
            }
            for member, row in zip(members, outcomes, strict=True)
        ],
        "proxy": {"processes": [process_of(outcome) for outcome in proxy_outcomes]},
    }
