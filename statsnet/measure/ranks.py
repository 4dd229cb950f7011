"""Processes that run each step of a network together, as torchrun starts them.

Pasted into every generated network, after rank_ends.py: it needs torch and the standard library only.
"""

import os
import time
from datetime import timedelta
from statistics import median
from typing import Any

import torch

from statsnet.environment.launch import processes_together
from statsnet.measure.rank_ends import GROUP_TIMEOUT_S, outlive_others, show_stack_when_asked, this_machine


def fits(group: int, stride: int, count: int) -> bool:
    """Whether `count` processes fall into groups of `group` whose ranks are `stride` apart, with none left over."""
    return group > 0 and count % (group * stride) == 0


def own_gpu() -> str:
    """The GPU of this one of several processes, made the current one. Raises RuntimeError where there is none left."""
    local, count = int(os.environ.get("LOCAL_RANK", os.environ["RANK"])), torch.cuda.device_count()
    if count <= local:
        raise RuntimeError(f"torch finds {count} CUDA devices here, and each process needs one")
    torch.cuda.set_device(local)
    return f"cuda:{local}"


def wait_for(event: Any, limit_s: float | None) -> None:
    """Until the GPU is there. Raises RuntimeError after `limit_s`: it waits for another one then."""
    until_s = time.monotonic() + (limit_s or 0.0)
    while limit_s is not None and not event.query():
        if time.monotonic() > until_s:
            raise RuntimeError("timed out in a collective of NCCL")
        time.sleep(1e-5)
    event.synchronize()


class Ranks:
    """The processes that torchrun started. A process that it did not start is alone.

    `waits` is where the network notes how long it waited for others in a step, `groups` are those that share some of
    its collectives, each a number of processes whose ranks are so far apart. A process waits `timeout_s` at most for
    another one in a collective. Raises RuntimeError where torch cannot join the processes.
    """

    def __init__(
        self,
        device: str,
        waits: list[float],
        groups: tuple[tuple[int, int], ...] = (),
        timeout_s: float = GROUP_TIMEOUT_S,
    ) -> None:
        self.device, self.waits, self.rank, self.count, self.backend = device, waits, 0, 1, ""
        self.groups, self.timeout_s = groups, timeout_s
        self.latency_s: list[list[float]] = []
        self.waiting_s: list[list[float]] = []
        self.places: list[tuple[int, int]] = []
        if processes_together() == 1:
            return
        if not torch.distributed.is_available():
            raise RuntimeError("this torch was built without torch.distributed, which torchrun needs")
        self.backend = "nccl" if device.startswith("cuda") else "gloo"
        if self.backend == "nccl":
            self.device = own_gpu()
        backends, times = ("cpu:gloo,cuda:nccl", 2) if self.backend == "nccl" else ("gloo", 1)
        # NCCL would end the process without a word: time_once looks before it
        torch.distributed.init_process_group(backends, timeout=times * timedelta(seconds=timeout_s))
        self.rank, self.count = torch.distributed.get_rank(), torch.distributed.get_world_size()

    def meet(self) -> None:
        """All processes learn each other's `places`, by rank the machine, as a number, and the process's id. None is
        ended from now on before it could tell of another that has ended."""
        if self.count > 1:
            outlive_others()
            show_stack_when_asked()
            own = torch.tensor([this_machine(), os.getpid()])
            of_all = [torch.empty_like(own) for _ in range(self.count)]
            torch.distributed.all_gather(of_all, own)
            self.places = [(int(machine), int(process)) for machine, process in of_all]

    def slowest(self, own_s: float) -> float:
        """The longest time of a step in any process, in every process: so that all of them end after the same step.
        They begin the next one together."""
        own = torch.tensor([own_s, sum(self.waits)], dtype=torch.float64)
        self.waits.clear()
        of_all = [torch.empty_like(own) for _ in range(self.count)]
        torch.distributed.all_gather(of_all, own)
        latency_s, waiting_s = zip(*(times.tolist() for times in of_all), strict=True)
        self.latency_s.append([*latency_s])
        self.waiting_s.append([*waiting_s])
        return max(latency_s)

    def forget(self) -> None:
        """The steps so far, which were no more than a warm-up."""
        self.latency_s.clear()
        self.waiting_s.clear()

    def describe(self, collectives: int) -> dict[str, Any]:
        """For the result: how many processes there were, whether they ran the network's collectives, and medians by
        rank: of the step, and on a CPU of the time in which a process waited for others and computed nothing. The
        slowest is the one that waits least."""
        told: dict[str, Any] = {"processes": self.count, "collectives": collectives, "collectives_run": self.count > 1}
        if self.count == 1:
            return told
        latency_s, waiting_s = ([median(s) for s in zip(*t, strict=True)] for t in (self.latency_s, self.waiting_s))
        told |= {"backend": self.backend, "rank_step_latency_s": latency_s}
        if self.groups:
            told["groups"] = [
                {"processes": size, "stride": stride, "formed": fits(size, stride, self.count)}
                for size, stride in self.groups
            ]
        told["slowest_rank"] = latency_s.index(max(latency_s))
        if self.backend == "gloo" and collectives:
            told |= {"rank_waiting_s": waiting_s, "slowest_rank": waiting_s.index(min(waiting_s))}
            told["exposed_share"] = median(w[0] / s[0] for w, s in zip(self.waiting_s, self.latency_s, strict=True))
        return told

    def leave(self) -> None:
        """The processes part, once all are done: one that leaves early would break what another still receives."""
        if self.count > 1:
            torch.distributed.all_reduce(torch.zeros(1))
            torch.distributed.destroy_process_group()
