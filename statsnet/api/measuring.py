"""What measures: workloads profiled, proxies made and run. Each measurement runs in a process of its own, so a
notebook's own objects are not seen there: a model is named by its file. While another program measures on the device,
each of them warns and waits for that program's end."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from statsnet.api.checks import check_choice, check_positive, plain_arguments, warn
from statsnet.api.reading import FilePath, MixLike, mix_text
from statsnet.deadline import Deadline
from statsnet.environment.launch import launched_together
from statsnet.errors import UsageError
from statsnet.measure.at_hand import check_counters, check_together, is_recorded, require_device
from statsnet.measure.device_lock import LOCKS
from statsnet.measure.patience import PATIENCE
from statsnet.measure.sandbox import sandboxed, show
from statsnet.progress import Report, Stages, silent
from statsnet.signatures.database import MODES
from statsnet.signatures.gpu import COUNTING
from statsnet.signatures.levels import DEFAULT_LEVEL, LEVELS, coarsen
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Level, Signature
from statsnet.signatures.results import Result
from statsnet.signatures.saved_proxy import SavedProxy, load_proxy
from statsnet.synthesis.asked import asked_of, check_recorded
from statsnet.synthesis.effort import EFFORTS, NORMAL


def profile_workload(
    workload: str,
    *,
    mode: str = MODES[0],
    device: str = "cpu",
    preset: str | None = None,
    batch: int | None = None,
    dtype: str | None = None,
    optimizer: str | None = None,
    arguments: Mapping[str, str | int | float | bool] | None = None,
    setting: str | None = None,
    level: Level = DEFAULT_LEVEL,
    counters: str = "auto",
    seed: int = 0,
    min_time_s: float | None = None,
    processes: int = 1,
    sandbox: bool = False,
    report: Report = silent,
) -> Signature:
    """Measure a workload's step, as `statsnet profile` does: one that ships (`cv/resnet50`), or a factory of yours,
    `path/to/file.py:factory`, which takes `arguments`. On the device "meta" it is counted, not run. Several
    `processes` run the step together; on "meta" none is started, and the first one is counted. With `sandbox` it
    has no network and nothing to write to; StatsNetError where no sandbox can be made.

    Raises UsageError for what is not known, DeviceError where the device is not, WorkloadError if the model fails,
    MeasurementError if measuring does.
    """
    overrides = plain_arguments(workload, arguments or {})
    from statsnet.workloads.arguments import optimizer_name, whole_number
    from statsnet.workloads.dtypes import dtype_name

    device, dtype = str(device), None if dtype is None else dtype_name(dtype)
    batch = None if batch is None else whole_number(batch, "batch")
    optimizer = None if optimizer is None else optimizer_name(optimizer)
    check_choice("mode", mode, MODES)
    check_choice("level", level, LEVELS)
    check_choice("counters", counters, COUNTING)
    check_positive(min_time_s=min_time_s, processes=processes)
    check_counters(counters, device)
    check_together(processes, device, counters, sandboxed=sandbox)
    require_device(device, meta=True)
    from statsnet.measure.control import Control
    from statsnet.measure.timing_tasks import Model
    from statsnet.profiling.costs import cost_of
    from statsnet.profiling.members import profiled_signature, setting_of_profile
    from statsnet.profiling.tasks import ProfileWorkload
    from statsnet.synthesis.bench.machine_speed import beside_reference
    from statsnet.workloads import get
    from statsnet.workloads.settings import BASELINE

    if ":" not in workload and not workload.endswith(".py"):
        get(workload)  # so a mistyped name is reported before a process is started
    model = Model(
        target=workload, mode=mode, preset=preset, batch=batch, dtype=dtype, overrides=overrides, seed=seed,
        optimizer=optimizer,
    )  # fmt: skip
    task = ProfileWorkload(model=model, device=device)
    if min_time_s is not None:
        task = replace(task, min_time_s=min_time_s)
    control = Control(setting=BASELINE if setting is None else setting_of_profile(setting, device))
    # One of several processes cannot make a step alone, which is what counting takes.
    counting = "off" if processes > 1 or launched_together() else counters
    PATIENCE.restart()
    with sandboxed(sandbox), LOCKS.command(), beside_reference(task) as task:
        show(Path(workload.rpartition(":")[0]).parent)
        signature, notes = profiled_signature(task, counting, control=control, report=report, processes=processes)
    warn(notes)
    return coarsen(signature, level, cost_of)


def synthesize(
    mix: Mix | MixLike,
    output: FilePath,
    *,
    mode: str | None = None,
    budget_s: float | None = None,
    compression: float | None = None,
    effort: str = NORMAL.name,
    within_s: float | None = None,
    fresh: bool = False,
    device: str = "cpu",
    dtype: str | None = None,
    counters: str = "auto",
    profiles: FilePath | None = None,
    seed: int = 0,
    sandbox: bool = False,
    report: Report = silent,
) -> SavedProxy:
    """Make a proxy for a mix, as `statsnet synthesize` does, and write it to the folder `output`.

    A step takes `budget_s`, or the suite's time ÷ `compression`. It ends after about `within_s` with the best network
    so far; `effort` is quick, normal or thorough. Members are measured on `device` where the mix has no measurement of
    it; `recorded:NAME` is a device that is not here, for which members can be counted in `dtype`. With `fresh`, what
    earlier runs measured does not count. With `sandbox`, what is measured has no network and nothing to write to.
    Raises UsageError for a bad mix or request, DeviceError where the device is not, MeasurementError if measuring
    fails.
    """
    if isinstance(mix, Mix):
        if not mix.text:
            raise UsageError("this mix cannot be made again", hint="make it with statsnet.mix, or name its members")
        mode, profiles = mode or mix.mode, profiles or mix.profiles
        mix = mix.text
    asked = asked_of(mix_text(mix), mode=mode, budget_s=budget_s, compression=compression)
    check_choice("effort", effort, EFFORTS)
    check_choice("counters", counters, COUNTING)
    check_positive(budget_s=budget_s, within_s=within_s)
    recorded = is_recorded(device)
    check_recorded(recorded, dtype=dtype, fresh=fresh)
    check_counters(counters, device)
    if not recorded:
        require_device(device)
    from statsnet.devices import make_proxy
    from statsnet.measure.cache import MeasurementCache
    from statsnet.proxy.spec import write_proxy
    from statsnet.proxy.whole_folder import check_output
    from statsnet.synthesis.problem import ProxyRequest

    folder = Path(os.path.expanduser(output))
    check_output(folder)
    PATIENCE.restart()
    deadline = Deadline.after(within_s, LOCKS.clock)
    notes: list[str] = []
    request = ProxyRequest.of(asked, seed)
    wanted = make_proxy.MakeOptions(
        mode=asked.mode,
        device=device,
        dtype=dtype,
        profiles=None if profiles is None else Path(profiles),
        cache=MeasurementCache.of_run(fresh=fresh),
        counters=counters,
        note=notes.append,
        effort=EFFORTS[effort],
        deadline=deadline,
        stages=Stages(report, deadline),
    )
    with sandboxed(sandbox), LOCKS.command():
        write_proxy(make_proxy.synthesize(request, wanted), folder)
    warn(notes)
    return load_proxy(folder)


def run(
    proxy: SavedProxy | FilePath,
    *,
    device: str = "cpu",
    threads: int | None = None,
    processes: int = 3,
    setting: str | None = None,
    min_time_s: float | None = None,
    max_time_s: float | None = None,
    trust: bool = False,
    sandbox: bool = False,
    report: Report = silent,
) -> Result:
    """Time a proxy on this machine, as `statsnet run` does: the network that spec.json describes, or with `trust` the
    folder's network.py, whatever that holds. With `sandbox` it has no network and nothing to write to.

    `processes` are fresh ones, each a sample; `setting` is one of `statsnet validate --settings`. Raises UsageError for
    a folder that is no proxy's or a bad request, FileFormatError for a damaged file, DeviceError where the device is
    not, MeasurementError if the network fails.
    """
    check_positive(min_time_s=min_time_s, max_time_s=max_time_s)
    folder = proxy.path if isinstance(proxy, SavedProxy) else Path(os.path.expanduser(proxy))
    from statsnet.evaluation.run_proxy import STEP_LIMITS, RunOptions, run_proxy
    from statsnet.proxy.folder import open_proxy
    from statsnet.workloads.settings import BASELINE, parse_setting

    warn(open_proxy(folder, trust=trust).notes)
    require_device(device)
    wanted = RunOptions(
        device=device,
        threads=threads,
        processes=processes,
        setting=BASELINE if setting is None else parse_setting(setting),
        trust=trust,
        limits=replace(
            STEP_LIMITS,
            min_time_s=min_time_s or STEP_LIMITS.min_time_s,
            max_time_s=max_time_s or STEP_LIMITS.max_time_s,
        ),
    )
    PATIENCE.restart()
    with sandboxed(sandbox), LOCKS.command():
        return run_proxy(folder, wanted, report=report)
