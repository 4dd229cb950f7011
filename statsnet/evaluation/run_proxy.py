"""Running a proxy: several processes, merged into one result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statsnet.environment import differences
from statsnet.errors import MeasurementError, UsageError
from statsnet.measure.control import JOB_LIMIT_S, Control, Job
from statsnet.measure.errand import Errand
from statsnet.measure.network_file import digest, written
from statsnet.measure.rounds import run_in_rounds
from statsnet.measure.timing_tasks import Limits, StepOutcome, TimedStep, TimeNetwork
from statsnet.progress import Report, silent
from statsnet.proxy.folder import ProxyFolder, open_proxy
from statsnet.signatures.results import Result, Subject
from statsnet.workloads.settings import BASELINE, Setting, with_threads

STEP_LIMITS = Limits(min_time_s=1.0, max_time_s=20.0)

OF_SIMULATORS = "this proxy is one for simulators: each of its layers runs once, so its time says nothing of the mix's"
WITHOUT_COLLECTIVES = "collectives are left out: torchrun --nproc-per-node N network.py runs them"
"""What there is to say of a proxy that has some, as one process runs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a proxy is run. With `trust`, its network.py is run as it stands."""

    device: str = "cpu"
    threads: int | None = None
    processes: int = 3
    setting: Setting = BASELINE
    trust: bool = False
    limits: Limits = STEP_LIMITS


def run_proxy(folder: str | Path, options: RunOptions, *, report: Report = silent) -> Result:
    """Time the proxy in a folder under one setting.

    What runs is the network that spec.json describes (see open_proxy). Raises UsageError if the folder holds no proxy,
    FileFormatError for a malformed spec.json, MeasurementError with the process's last output if the network fails.
    """
    if options.processes < 1:
        raise UsageError(f"{options.processes} is not a number of processes", hint="3 or more show how well runs agree")
    proxy = open_proxy(folder, trust=options.trust)
    return proxy_result(proxy, TimeProxy.of(proxy, options).run(report))


@dataclass(frozen=True, kw_only=True)
class TimeProxy(Errand[tuple[TimedStep, ...]]):
    """Times the network with this source in several processes of one machine."""

    source: str
    device: str
    setting: Setting
    processes: int
    limits: Limits

    @classmethod
    def of(cls, proxy: ProxyFolder, options: RunOptions) -> TimeProxy:
        return cls(
            source=proxy.source,
            device=options.device,
            setting=with_threads(options.setting, options.threads),
            processes=options.processes,
            limits=options.limits,
        )

    def run(self, report: Report = silent) -> tuple[TimedStep, ...]:
        with written(self.source) as folder:
            job = _timing(folder, digest(self.source), self.device, self.setting, self.limits, "the proxy")
            (steps,) = run_in_rounds([job], self.processes, report=report)
        return tuple(steps)

    def environments(self, result: tuple[TimedStep, ...]) -> Sequence[Mapping[str, Any]]:
        return [step.environment for step in result]


def proxy_job(
    proxy: ProxyFolder,
    *,
    device: str,
    setting: Setting,
    limits: Limits = STEP_LIMITS,
    label: str = "the proxy",
) -> Job[TimedStep]:
    """The job that times a proxy once. It refuses a network.py that is not the proxy's `source`."""
    return _timing(str(proxy.network_folder.resolve()), proxy.network_sha256, device, setting, limits, label)


def _timing(
    folder: str, network_sha256: str, device: str, setting: Setting, limits: Limits, label: str
) -> Job[TimedStep]:
    task = TimeNetwork(folder=folder, network_sha256=network_sha256, device=device, limits=limits)
    return Job(task, Control(setting=setting, label=label, timeout_s=JOB_LIMIT_S))


def proxy_result(proxy: ProxyFolder, outcomes: Sequence[StepOutcome]) -> Result:
    """One result from the outcomes of several processes of the same job."""
    return Result(
        subject=Subject(type="proxy", id=proxy.subject_id, mode=proxy.spec.mode),
        environment=common_environment([o.environment for o in outcomes]),
        processes=tuple(o.timing for o in outcomes),
    )


def common_environment(environments: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The environment of all processes. Raises MeasurementError if it changed between two of them."""
    first = environments[0]
    for other in environments[1:]:
        if changed := differences(first, other):
            raise MeasurementError(
                "the environment changed between two processes",
                cause="; ".join(changed),
                hint="measure again",
            )
    return first
