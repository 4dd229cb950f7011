"""Running a proxy: several fresh processes, merged into one result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from statsnet.environment import differences
from statsnet.errors import MeasurementError, UsageError
from statsnet.measure.process import Progress
from statsnet.measure.rounds import interleave
from statsnet.proxy.folder import ProxyFolder, open_proxy
from statsnet.workloads.settings import BASELINE, Setting


def run_proxy(
    folder: str | Path,
    *,
    device: str = "cpu",
    threads: int | None = None,
    processes: int = 3,
    setting: Setting = BASELINE,
    trust: bool = False,
    min_time_s: float = 1.0,
    max_time_s: float = 20.0,
    on_progress: Progress | None = None,
) -> dict[str, Any]:
    """Time the proxy in a folder under one setting; returns a result (kind statsnet.result).

    Raises UsageError if it is no proxy's folder, FileFormatError for a malformed spec.json or a network.py
    that was changed (see open_proxy), MeasurementError with the process's last words if network.py fails.
    """
    if processes < 1:
        raise UsageError(
            f"{processes} is not a number of processes", hint="3 or more show how well runs agree"
        )
    proxy = open_proxy(folder, trust=trust)
    job = proxy_job(
        proxy,
        device=device,
        threads=threads,
        setting=setting,
        min_time_s=min_time_s,
        max_time_s=max_time_s,
    )
    (outcomes,) = interleave([job], processes, on_progress=on_progress)
    return proxy_result(proxy, outcomes)


def proxy_job(
    proxy: ProxyFolder,
    *,
    device: str = "cpu",
    threads: int | None = None,
    setting: Setting = BASELINE,
    **limits: float,
) -> dict[str, Any]:
    """The job that times a proxy once; `limits` are those of harness.measure."""
    return {
        "kind": "time_proxy",
        "label": "the proxy",
        "folder": str(proxy.path.resolve()),
        "network_sha256": proxy.network_sha256,
        "device": device,
        "threads": threads,
        "setting": setting.to_dict(),
        **limits,
    }


def proxy_result(proxy: ProxyFolder, outcomes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One result from what several processes of the same job returned."""
    environment, processes = merge_processes(outcomes)
    return {
        "kind": "statsnet.result",
        "schema_version": 1,
        "subject": {"type": "proxy", "id": proxy.spec["id"], "mode": proxy.spec["mode"]},
        "environment": environment,
        "processes": processes,
    }


def merge_processes(outcomes: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The environment that all outcomes share, and the entries of `processes`.

    Raises MeasurementError if the environment changed between two of them.
    """
    environment = outcomes[0]["environment"]
    for outcome in outcomes[1:]:
        changed = differences(environment, outcome["environment"])
        if changed:
            raise MeasurementError(
                "the environment changed between two processes",
                cause="; ".join(changed),
                hint="measure again",
            )
    return environment, [{k: v for k, v in outcome.items() if k != "environment"} for outcome in outcomes]
