"""The members of a proxy's mix, ready to be measured again: as models, or by replay of their signatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from statsnet import workloads
from statsnet.errors import UsageError
from statsnet.evaluation.own_models import (
    OwnModel,
    example,
    require_same_work,
    signature_files,
    targets_of,
    work_ratio,
)
from statsnet.evaluation.run_proxy import common_environment
from statsnet.measure.control import JOB_LIMIT_S, Control, Job
from statsnet.measure.process import run_job
from statsnet.measure.sandbox import show
from statsnet.measure.timing_tasks import Limits, Model, TimedStep, TimeWorkload
from statsnet.profiling.replay_task import Replayed, ReplayOperators
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.progress import Report, silent
from statsnet.proxy.folder import ProxyFolder
from statsnet.signatures.database import default_profiles_dir, find_signatures
from statsnet.signatures.documents import ProxySpec, SpecMember
from statsnet.signatures.model import Signature
from statsnet.signatures.results import Evidence, ProxyTimes, Result, ResultMember, Subject
from statsnet.signatures.timing import Timing
from statsnet.synthesis.bench.tasks import TraceNetwork
from statsnet.workloads.optimizers import SETTINGS
from statsnet.workloads.settings import RUNTIME, Setting

MODEL_SETTINGS = ("dtype", "layout", "compile", "graphs", RUNTIME)
"""Settings that act on the model itself: a replay of its operators cannot follow them."""

NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteMember:
    """A member of a mix. It runs as a model if `target` names one, else as a replay of its `signature`. The signature
    is None if it was not found: one that was measured while the proxy was made is in no file. The user named an `own`
    model for it."""

    name: str
    weight: float
    latency_s_reference: float
    batch: int | None
    preset: str | None
    optimizer: str | None
    peak_bytes: int | None
    target: str | None
    signature: Signature | None
    own: bool = False
    is_rounded: bool = False
    """Whether `latency_s_reference` is an estimate: that of a signature with rounded sizes, by its own model's work."""

    @property
    def evidence(self) -> Evidence:
        return "model" if self.target is not None else "replay"

    @property
    def rate(self) -> float:
        """Steps in one second of the mix, in its reference environment."""
        return self.weight / self.latency_s_reference

    def profile_job(self, spec: ProxySpec, device: str, *, min_time_s: float | None) -> Job[Profile] | Job[Replayed]:
        """The job that measures its operators."""
        control = Control(label=self.name, timeout_s=JOB_LIMIT_S)
        if self.target is None:
            return Job(self._replay(device), control)
        task = ProfileWorkload(model=self.model(spec), device=device)
        return Job(task if min_time_s is None else replace(task, min_time_s=min_time_s), control)

    def timing_job(
        self, spec: ProxySpec, device: str, setting: Setting, limits: Limits = NO_LIMITS
    ) -> Job[TimedStep] | Job[Replayed]:
        """The job that measures only its step time, under a setting.

        Raises UsageError for a setting that a replay cannot follow.
        """
        self.require_to_follow(setting)
        label = f"{self.name} ({setting.name})"
        control = Control(setting=setting, label=label, peak_bytes=self.peak_bytes, timeout_s=JOB_LIMIT_S)
        if self.target is None:
            return Job(self._replay(device), control)
        return Job(TimeWorkload(model=self.model(spec), device=device, limits=limits), control)

    def require_to_follow(self, setting: Setting) -> None:
        """Raises UsageError for a setting that a replay cannot follow."""
        changed = [key for key in MODEL_SETTINGS if key in setting.in_process]
        if self.target is None and changed:
            raise UsageError(
                f"'{self.name}' cannot be measured under '{setting.name}'",
                cause=f"its model is not at hand, and a replay does not follow '{changed[0]}'",
                hint=f"name its model with {example(self.name)}, or leave that setting out",
            )

    def _replay(self, device: str) -> ReplayOperators:
        assert self.signature is not None
        return ReplayOperators(signature=self.signature, device=device)

    def model(self, spec: ProxySpec) -> Model:
        """What is built to run it. Only of a member that runs as a model."""
        assert self.target is not None
        return Model(
            target=self.target,
            mode=spec.mode,
            preset=None if self.own else self.preset or None,
            batch=self.batch,
            dtype=spec.dtype,
            optimizer=self.optimizer if self.optimizer in SETTINGS else None,
        )


def require_measured(spec: ProxySpec) -> None:
    """Raises UsageError for a proxy for simulators."""
    if spec.simulation is not None:
        raise UsageError(
            f"the proxy of '{spec.title}' is one for simulators",
            cause="each of its layers runs once, however often it counts, so its time says nothing of the mix's",
            hint="statsnet export writes its layers with their repeats",
        )


def suite_of(spec: ProxySpec, profiles: str | Path | None = None, models: Sequence[OwnModel] = ()) -> list[SuiteMember]:
    """The members that a proxy's spec pins, in its order.

    A member with one of the `models`, or whose workload is registered, runs as a model. Any other member is replayed:
    its signature is searched for in `profiles` and among the signatures that ship. Raises UsageError if a member has
    neither, and for a model of no member.
    """
    targets = targets_of(spec, models)
    for target in targets.values():
        show(Path(target.rpartition(":")[0]).parent)  # a sandbox may read what lies beside the factory
    folders = [Path(profiles)] if profiles else []
    if folders and not folders[0].exists():
        raise UsageError(f"there is no folder '{profiles}'", hint="give the folder that holds the signatures")
    signatures = find_signatures(
        {m.signature for m in spec.mix}, [*signature_files(models), *folders, default_profiles_dir()]
    )
    return [_member(entry, signatures.get(entry.signature), targets.get(entry.name)) for entry in spec.mix]


def profile_jobs(
    proxy: ProxyFolder, members: Sequence[SuiteMember], device: str, min_time_s: float | None
) -> list[Job[Any]]:
    """The jobs that measure the operators of all members, and then the proxy's."""
    trace = TraceNetwork(
        folder=str(proxy.network_folder.resolve()),
        network_sha256=proxy.network_sha256,
        dtype=proxy.spec.dtype,
        device=device,
        min_time_s=TraceNetwork.min_time_s if min_time_s is None else min_time_s,
    )
    return [
        *(m.profile_job(proxy.spec, device, min_time_s=min_time_s) for m in members),
        Job(trace, Control(label="the proxy", timeout_s=JOB_LIMIT_S)),
    ]


def check_own_models(
    members: Sequence[SuiteMember], spec: ProxySpec, device: str, *, report: Report = silent
) -> tuple[list[SuiteMember], list[str]]:
    """Profile the models that the user named, each for a few steps. Returns the members, and notes on what could not be
    checked. A signature of rounded sizes takes another time than its model, so such a member's reference time is scaled
    by their work.

    Raises UsageError for one that does other work than its member's signature says, WorkloadError if it fails.
    """
    notes, checked = [], []
    for member in members:
        checked.append(member)
        if not member.own:
            continue
        if member.signature is None:
            notes.append(
                f"whether the model given for '{member.name}' is that member's was not checked: its signature was not "
                "found (--profiles)"
            )
            continue
        task = ProfileWorkload(model=member.model(spec), device=device, min_time_s=0.0, repeats=1)
        control = Control(label=f"counting {member.name}", timeout_s=JOB_LIMIT_S)
        profile = run_job(Job(task, control), report=report)
        require_same_work(member.name, task.model.target, member.signature, profile.signature)
        if member.signature.level == "coarse":
            reference_s = member.latency_s_reference * work_ratio(profile.signature, member.signature)
            checked[-1] = replace(member, latency_s_reference=reference_s, is_rounded=True)
    return checked, notes


def replay_notes(members: Sequence[SuiteMember]) -> list[str]:
    """A note if any of the members is replayed."""
    replayed = [m for m in members if m.evidence == "replay"]
    if not replayed:
        return []
    share = sum(m.weight for m in replayed)
    names = ", ".join(m.name for m in replayed)
    return [f"{share:.0%} of the suite is a replay of operators, weaker evidence than its models: {names}"]


def _member(entry: SpecMember, signature: Signature | None, own: str | None) -> SuiteMember:
    name = entry.name.partition("@")[0]
    target = own or (name if name in workloads.names() else None)
    if target is None and signature is None:
        raise UsageError(
            f"the member '{entry.name}' cannot be measured",
            cause=f"no such workload is registered, and no profile has the id {entry.signature[:19]}...",
            hint="name the folder of its signature and its key (FILE.key) with --profiles, its model with "
            f"{example(entry.name)}, or install that",
        )
    # A spec may lack these three.
    told = signature is not None and signature.level != "coarse"
    batch = entry.batch or (signature.batch if signature is not None and told else None)
    optimizer = entry.optimizer or (signature.optimizer if signature else None)
    peak_bytes = entry.peak_bytes or (signature.memory.peak_bytes if signature else None)
    return SuiteMember(
        name=entry.name,
        weight=entry.weight,
        latency_s_reference=entry.latency_s,
        batch=batch,
        preset=entry.preset,
        optimizer=optimizer,
        peak_bytes=peak_bytes,
        target=target,
        signature=signature,
        own=own is not None,
    )


def suite_result(
    spec: ProxySpec,
    members: Sequence[SuiteMember],
    timings: Sequence[Sequence[Timing]],
    environments: Sequence[Mapping[str, Any]],
) -> Result:
    """A result of the suite, which `compare` can read. It also holds the proxy's processes, the last of `timings`.
    Raises MeasurementError if the environment changed between two processes."""
    *of_members, of_proxy = timings
    return Result(
        subject=Subject(type="suite", id=spec.id, mode=spec.mode),
        environment=common_environment(environments),
        members=tuple(
            ResultMember(
                name=member.name,
                weight=member.weight,
                latency_s_reference=member.latency_s_reference,
                evidence=member.evidence,
                processes=tuple(of_member),
            )
            for member, of_member in zip(members, of_members, strict=True)
        ),
        proxy=ProxyTimes(processes=tuple(of_proxy)),
    )
