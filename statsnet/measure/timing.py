"""Times the step of a network: decides how long to measure, and says when the machine was too noisy.

Pasted into every generated network, after environment/record.py and ranks.py: it needs torch and the standard library
only.
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from statsnet.environment.launch import processes_together
from statsnet.environment.record import (
    ALLOCATOR_ENV,
    cores_to_run_on,
    describe,
    on_all_cores,
    quota_env,
    usable_cores,
)
from statsnet.measure.rank_ends import GROUP_TIMEOUT_S, to_say
from statsnet.measure.ranks import Ranks, wait_for

PRECISION = 0.01  # measure until half the width of the median's 95 % interval is below this share of it
STILL = 1000  # a clock that shows no time for so many runs stands still, or is too coarse for the step
SETTLED = 0.02  # warm up until the medians of two successive windows differ by less than this share


def relaunch_with_allocator() -> None:
    """Restart this program with ALLOCATOR_ENV, which glibc reads only once, before Python runs; and with the threads
    that a container's quota allows.

    `exec` keeps the process, so that signals and the exit code need no forwarding. If STATSNET_ALLOCATOR is set to
    anything, there is no restart: this prevents a loop, and lets users measure with the system's own settings.
    """
    is_set = ALLOCATOR_ENV.keys() <= os.environ.keys() or "STATSNET_ALLOCATOR" in os.environ
    if sys.platform == "linux" and os.path.isfile(sys.argv[0]) and not is_set:
        command = [sys.executable, *sys.orig_argv[1:]]
        variables = {**ALLOCATOR_ENV, **quota_env(), **os.environ, "STATSNET_ALLOCATOR": "set"}
        with on_all_cores():
            os.execve(command[0], command, variables)


def measure(
    step: Callable[[], object],
    *,
    min_runs: int = 10,
    min_time_s: float = 1.0,
    max_time_s: float = 20.0,
    device: str = "cpu",
    clock: Callable[[], float] = time.perf_counter,
    ranks: Ranks | None = None,
) -> dict[str, Any]:
    """Time `step` until its median is known to PRECISION, or until `max_time_s` is over (there are always 3 runs). If
    several processes run it together (`ranks`), its time is that of the slowest.

    Returns latency_s and warmup_latency_s (raw samples), stable, and warnings that name the cause of noise. Raises
    RuntimeError if the clock shows no time for most runs.
    """
    together = ranks if ranks is not None and ranks.count > 1 else None
    alone = partial(time_once, step, device, clock, together.timeout_s if together else None)
    timed = alone if together is None else lambda: together.slowest(alone())
    warmup, settled = warm_up(timed, window_s=min_time_s / 5, limit_s=max_time_s / 2)
    if together:
        together.forget()
    before = _counters()
    times: list[float] = []
    enough = False
    while not enough and (len(times) < 3 or sum(times) < max_time_s):
        # Runs are judged in growing groups: sorting them after every single one would disturb the caches.
        times += [timed() for _ in range(1 + len(times) // 10)]
        if len(times) >= min(STILL, min_runs):
            check_clock(times)
        enough = len(times) >= min_runs and sum(times) >= min_time_s and precision(times) < PRECISION
    check_clock(times)
    used = {name: value - before[name] for name, value in _counters().items() if name in before}
    here = int(os.environ.get("LOCAL_WORLD_SIZE", 1)) if together else 1
    if here > 1 and used:
        used["own"] = used["busy"]  # the others are of this program
    threads, cores = torch.get_num_threads(), usable_cores()
    warnings = noise_warnings(times, used, threads, cores)
    if here * threads > cores >= threads:
        warnings.append(f"{here} processes of {threads} threads share {cores} cores: start fewer, or lower --threads")
    if not settled:
        warnings.append("the warm-up did not settle: raise --max-time")
    if not enough:
        warnings.append(f"the median is known to ±{precision(times):.1%} only: raise --max-time")
    stable = settled and enough
    return {"latency_s": times, "warmup_latency_s": warmup, "stable": stable, "warnings": warnings}


def time_once(
    step: Callable[[], object], device: str, clock: Callable[[], float], limit_s: float | None = None
) -> float:
    if not device.startswith("cuda"):
        begin = clock()
        step()
        return clock() - begin
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    stream = torch.cuda.current_stream(device)
    first.record(stream)
    step()
    last.record(stream)
    wait_for(last, limit_s)
    return float(first.elapsed_time(last)) / 1e3


def check_clock(times: list[float]) -> None:
    """Raise RuntimeError for times whose median is no time at all."""
    if median(times) <= 0:
        raise RuntimeError(f"the clock shows no time for most of {len(times)} runs: it stands still, or is too coarse")


def warm_up(timed: Callable[[], float], *, window_s: float, limit_s: float) -> tuple[list[float], bool]:
    """Run until two successive windows agree (each has at least 3 runs and `window_s`), or until `limit_s` is over."""
    times: list[float] = []
    begin, previous, spent, spent_before = 0, 0.0, 0.0, 0.0
    while spent < limit_s:
        times.append(timed())
        spent += times[-1]
        if len(times) % STILL == 0:
            check_clock(times[-STILL:])
        if len(times) - begin >= 3 and spent - spent_before >= window_s:
            current = median(times[begin:])
            if abs(current - previous) < SETTLED * current:
                return times, True
            begin, previous, spent_before = len(times), current, spent
    return times, False


def median_interval(times: list[float]) -> tuple[float, float]:
    """95 % confidence interval of the median from order statistics: free of distribution, needs 6 samples."""
    n = len(times)
    if n < 6:
        return 0.0, float("inf")
    rank = max(0, int((n - 1 - 1.96 * n**0.5) / 2))  # of n coin tosses, in 2.5 % of cases no more are heads
    ordered = sorted(times)
    return ordered[rank], ordered[-1 - rank]


def precision(times: list[float]) -> float:
    """Half the width of the median's interval as a share of the median; infinite if the median is no time at all."""
    low, high = median_interval(times)
    middle = median(times)
    return (high - low) / 2 / middle if middle > 0 else float("inf")


def noise_warnings(times: list[float], used: dict[str, int], threads: int, cores: int) -> list[str]:
    """What disturbed the samples, and what to do; `used` is how far the counters advanced meanwhile."""
    warnings = []
    if threads > cores:
        warnings.append(f"{threads} threads share {cores} cores: use --threads {cores}")
    if used.get("ticks"):
        others = (used["busy"] - used["own"]) / used["ticks"]
        stolen = used["stolen"] / used["ticks"]
        faults = used["faults"] / len(times)
        if others > 0.05:
            warnings.append(f"other programs kept the cores {others:.0%} busy: stop them, or lower --threads")
        if stolen > 0.01:
            warnings.append(f"the hypervisor took {stolen:.0%} of the time: use a machine without neighbours")
        if faults * 1e-6 > 0.02 * median(times):  # a fault costs about a microsecond
            warnings.append(f"{faults:.0f} page faults per step: set {' and '.join(ALLOCATOR_ENV)}")
    early, late = times[: len(times) // 2], times[len(times) // 2 :]
    (early_low, early_high), (late_low, late_high) = median_interval(early), median_interval(late)
    if late_low > 1.01 * early_high or early_low > 1.01 * late_high:
        change = median(late) / median(early) - 1
        warnings.append(f"the time changed by {change:+.1%} between the two halves: raise --min-time")
    tenth = len(times) // 10
    inner = sorted(times)[tenth : len(times) - tenth]
    gap = max((b - a for a, b in pairwise(inner)), default=0.0)
    if tenth >= 2 and gap > max(0.02 * median(times), 0.4 * (inner[-1] - inner[0])):
        warnings.append("the step runs at two speeds: fix the clock frequency, or bind threads to cores")
    return warnings


def _counters() -> dict[str, int]:
    """Clock ticks of the usable cores and of this process, and its page faults; empty without /proc, and where /proc
    does not show the usable cores."""
    try:
        rows = re.findall(r"^cpu(\d+) (.*)", Path("/proc/stat").read_text(), re.MULTILINE)
        own = [int(n) for n in Path("/proc/self/stat").read_text().rpartition(")")[2].split()[1:]]
    except OSError:
        return {}
    usable = cores_to_run_on()
    ours = [row for core, row in rows if int(core) in usable]
    if len(ours) < len(usable) == len(rows):
        ours = [row for _, row in rows]  # a container whose /proc has its own cores alone, numbered from 0
    if len(ours) < len(usable):
        return {}
    ticks = [[int(n) for n in row.split()[:8]] for row in ours]
    user, nice, system, idle, wait, irq, soft_irq, stolen = map(sum, zip(*ticks, strict=True))
    busy = user + nice + system + irq + soft_irq
    total = busy + idle + wait + stolen
    return {"ticks": total, "busy": busy, "stolen": stolen, "own": own[10] + own[11], "faults": own[6]}


def main(
    make_step: Callable[[str], Callable[[], object]], spec_id: str, mode: str, collectives: int = 0,
    waits: list[float] | None = None, groups: tuple[tuple[int, int], ...] = (),
) -> int:  # fmt: skip
    """The command line of a proxy: `make_step(device)` builds its step. Processes that run it together have so many
    collectives in a step, and note in `waits` how long they wait. Some collectives are of smaller `groups`: so many
    processes, whose ranks are so far apart. Returns the exit code."""
    parser = argparse.ArgumentParser(description=f"Time the StatsNet proxy {spec_id[:19]} ({mode}).")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="print JSON, or write it to FILE")
    parser.add_argument(
        "--threads", type=int, metavar="N", help="threads per operator (default: torch's, or a quota's)"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--min-time", type=float, default=1.0, metavar="S", help="measure S seconds at least")
    parser.add_argument("--max-time", type=float, default=20.0, metavar="S", help="and about S at most")
    parser.add_argument(
        "--group-timeout",
        type=float,
        default=GROUP_TIMEOUT_S,
        metavar="S",
        help="wait S seconds for others (default: 600)",
    )
    options = parser.parse_args()
    if not re.fullmatch(r"cpu|cuda(:\d+)?", options.device):
        parser.error("--device takes cpu, cuda or cuda:N")
    if options.threads is not None and options.threads < 1:
        parser.error("--threads takes a number from 1")
    if not 0 < options.group_timeout < 1e6:
        parser.error("--group-timeout takes seconds above 0")
    if options.json not in (None, "-") and not Path(options.json).absolute().parent.is_dir():
        parser.error(f"--json: there is no folder {str(Path(options.json).absolute().parent)!r}")
    relaunch_with_allocator()
    limits = {"min_time_s": options.min_time, "max_time_s": options.max_time}
    ranks = None
    try:
        if threads := options.threads or int(quota_env().get("OMP_NUM_THREADS", 0)):
            torch.set_num_threads(threads)
        ranks = Ranks(options.device, [] if waits is None else waits, groups, options.group_timeout)
        ranks.meet()
        process = measure(make_step(ranks.device), device=ranks.device, ranks=ranks, **limits)
        result: dict[str, Any] = {
            "kind": "statsnet.result",
            "schema_version": 1,
            "subject": {"type": "proxy", "id": spec_id, "mode": mode},
            "environment": describe(ranks.device),
            "processes": [process],
        }
        if collectives or ranks.count > 1:
            result["distributed"] = ranks.describe(collectives)
        if ranks.count > 1:
            result["environment"]["settings"]["processes"] = str(ranks.count)
        if ranks.rank == 0:
            _report(result, options.json)
        ranks.leave()
        if ranks.count > 1:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)  # a thread of gloo that still runs aborts an interpreter that ends
    except Exception as error:
        if processes_together() > 1:
            if said := to_say(error, ranks.places if ranks else [], options.group_timeout):
                print(f"error: {said}", file=sys.stderr, flush=True)
            os._exit(1)  # as above
        if not isinstance(error, (AssertionError, OSError, RuntimeError, ValueError)):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _report(result: dict[str, Any], target: str | None) -> None:
    """Print a summary, and write the result to the file `target` (whole or not at all) if there is one. For "-" print
    the result alone."""
    (process,), machine = result["processes"], result["environment"]
    for warning in process["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    if target == "-":
        print(json.dumps(result))
        return
    if target:
        partial = Path(f"{target}.partial")
        partial.write_text(json.dumps(result), encoding="utf-8")
        partial.replace(target)
    times = process["latency_s"]
    print(f"{result['subject']['id'][:19]} {result['subject']['mode']}, {machine['device_name']}")
    print(f"{1e3 * median(times):.3f} ms ± {precision(times):.1%}, {len(times)} runs")
    if "distributed" in result:
        print(_together(result["distributed"]))


def _together(told: dict[str, Any]) -> str:
    """A line on the processes that ran the step together, or on what a process that was alone left out."""
    if told["processes"] == 1:
        count = told["collectives"]
        what = "1 collective is" if count == 1 else f"{count} collectives are"
        return f"{what} left out: torchrun --nproc-per-node N network.py runs them"
    waiting = f" that wait for {told['exposed_share']:.1%} of the step" if "exposed_share" in told else ""
    who = f"{told['processes']} processes ({told['backend']}){waiting}; the slowest is rank {told['slowest_rank']}"
    groups = told.get("groups", ())
    missing = " or ".join(f"{g['processes']} (stride {g['stride']})" for g in groups if not g["formed"])
    return f"{who}; they do not fall into groups of {missing}, so all share these collectives" if missing else who
