"""How fast the machine is at the moment, by one reference network for all mixes.

All times of a synthesis are brought to one speed of the machine. What was measured beside the reference network
(measure/reference_network.py) can be brought to any speed later: profiles, blocks and networks stay of use for other
mixes and other days.

A GPU keeps its speed. There, the reference network's step would tell how fast the host launches its small kernels: on
an H100 it made a step of 11.4 ms 19.2. So none runs there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

from statsnet.measure.network_file import digest, written
from statsnet.measure.reference_network import LOOK_S
from statsnet.measure.timing_tasks import TimedStep
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.proxy.emit import network_source
from statsnet.proxy.towers import Placed, build_towers
from statsnet.signatures.intervals import paired_ratio, process_median_s
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.timing import Timing
from statsnet.workloads.building import DTYPES


def _conv(channels: int, filters: int, kernel: int, **changes: Any) -> dict[str, Any]:
    return {
        "batch": 2, "channels": channels, "filters": filters, "kernel": (kernel, kernel), "size": (56, 56),
        "stride": (1, 1), "padding": (kernel // 2, kernel // 2), "groups": 1, "bias": False, "norm": False,
        "activation": "relu", "residual": False, **changes,
    }  # fmt: skip


def _linear(rows: int, inputs: int, outputs: int) -> dict[str, Any]:
    return {
        "rows": rows, "inputs": inputs, "outputs": outputs, "bias": True, "activation": "",
        "weight_first_axis_in": False,
    }  # fmt: skip


BLOCKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("conv", _conv(64, 64, 3)),
    ("conv", _conv(64, 256, 1)),
    ("conv", _conv(144, 144, 3, groups=144)),
    ("linear", _linear(128, 768, 3072)),
    ("linear", _linear(8, 2048, 2048)),
    ("norm", {"kind": "layer", "shape": (2048, 256), "activation": ""}),
    ("pointwise", {"functions": ("add", "relu"), "shape": (64, 128, 128), "operand": (64, 128, 128)}),
    ("softmax", {"shape": (64, 128, 128), "axis": 2, "log": False}),
    ("embedding", {"indices": 20_000, "rows": 200_000, "skew": 0.8, "sparse": False, "width": 32}),
)
"""Some of each thing that neighbours slow down differently: products with much and with little reuse of weights, passes
over memory, reads of scattered rows. A step takes about 30 ms on two cores: processes of a network of 3 ms differed by
35 %, those of the network beside it by only 3 %."""


UNDERCUT = 1.5
"""A speed that was kept is forgotten if the reference network takes this many times less now: it was measured while
others used the machine. Beside six busy programs the network of 12 ms took 412."""

SPOILT = 2.0
"""What was measured while the reference network took this many times as long is measured again: others do not slow all
work by the same factor."""


class BesideReference(Protocol):
    """A measurement with the reference network's step meanwhile; None where none ran."""

    @property
    def reference_latency_s(self) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSpeed:
    """The source of the reference network, and how long its step takes at this speed. A device that keeps its speed has
    none (STEADY). `now_s` is the step when the command began, `page_s` the time to reach a page of idle memory then
    (measure/idle_memory.py), where that is known."""

    reference_network: str
    reference_latency_s: float
    now_s: float = 0.0
    page_s: float | None = None

    @property
    def is_steady(self) -> bool:
        return not self.reference_network

    def network_folder(self) -> AbstractContextManager[str | None]:
        """A temporary folder with the reference network; None if the device keeps its speed."""
        return nullcontext() if self.is_steady else written(self.reference_network)

    @property
    def reference_id(self) -> str:
        """Of the reference network, for the cache's keys."""
        return digest(self.reference_network)

    def drift(self, reference_latency_s: float | None) -> float:
        """How many times as long everything took when the reference network took this long."""
        if self.is_steady:
            return 1.0
        assert reference_latency_s is not None
        return reference_latency_s / self.reference_latency_s

    def spoils(self, reference_latency_s: float | None) -> bool:
        """Whether what was measured while the reference network took this long is of no use. On a machine that is slow
        for hours, nothing is measured better a second time."""
        usual_s = max(self.reference_latency_s, self.now_s)
        return not self.is_steady and reference_latency_s is not None and reference_latency_s > SPOILT * usual_s

    def has_use_for(self, kept: BesideReference) -> bool:
        """Whether a measurement of an earlier command was made on a machine that was not too disturbed."""
        return not self.spoils(kept.reference_latency_s)

    def at_this_speed(self, measurement: Measurement, reference_latency_s: float | None) -> Measurement:
        """As it would be at this speed, from a process in which the reference network took this long."""
        return measurement.scale_times(1 / self.drift(reference_latency_s))

    def at_this_speed_s(self, step: TimedStep) -> float:
        """A step's seconds at this speed, from a process in which it took turns with the reference network."""
        if self.is_steady:
            return process_median_s(step.timing)
        reference = Timing(latency_s=step.reference_latency_s, window_latency_s=step.reference_latency_s)
        windows = step.timing.window_latency_s or ()
        ratio = paired_ratio([reference], [Timing(latency_s=windows, window_latency_s=windows)])
        return self.reference_latency_s * ratio.value


@contextmanager
def beside_reference(task: ProfileWorkload) -> Iterator[ProfileWorkload]:
    """The task with a reference network beside it, so that its times can be brought to another speed of the machine.
    Without one on other devices than CPUs, for a dtype that the task itself refuses, and for a profile that is to be
    had in less time than a look at the machine takes."""
    if (source := reference_beside(task)) is None:
        yield task
        return
    with written(source) as folder:
        yield replace(task, reference_network=folder)


def reference_beside(task: ProfileWorkload) -> str | None:
    """The source of the network that `beside_reference` puts beside a task; None for none."""
    dtype = task.model.dtype or "float32"
    if not task.device.startswith("cpu") or dtype not in DTYPES or task.min_time_s < LOOK_S:
        return None
    return reference_network(task.model.mode, dtype)


STEADY = MachineSpeed(reference_network="", reference_latency_s=1.0)


WORK_VERSION = 1
"""To be raised when the sources of blocks change how long the reference network's step takes."""


def reference_work(mode: str, dtype: str) -> str:
    """A name for what the reference network does. A signature keeps it, so that its times can be brought to another
    speed by versions of this program that write the same network in other words."""
    return f"sha256:{hashlib.sha256(repr((WORK_VERSION, mode, dtype, BLOCKS)).encode()).hexdigest()}"


@cache
def reference_network(mode: str, dtype: str) -> str:
    """The source of the reference network."""
    blocks = [(Placed(kind=kind, config=config), 1) for kind, config in BLOCKS]
    towers = build_towers(blocks, training=mode == "training")
    title = f"A reference network for {mode}"
    work = reference_work(mode, dtype)
    return network_source(towers, title=title, spec_id=work, mode=mode, dtype=dtype, seed=0)
