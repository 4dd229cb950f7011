"""Modelled devices: what they take for operators, in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from statsnet.signatures.target import Target
from statsnet.synthesis.costs.loads import OperatorGroup, OperatorTable, load_of_target
from statsnet.synthesis.program.modelled_devices import ModelledDevice, modelled_devices


def work(**changes: Any) -> OperatorGroup:
    fields = {
        "category": "gemm", "kernel_class": "k", "shape_class": "s", "time_s": 1.0, "flops": 0.0, "bytes": 0.0,
        "weights": 0.0, "calls": 0.0,
    }  # fmt: skip
    return OperatorGroup(**{**fields, **changes})


def time_s(device: ModelledDevice, **changes: Any) -> float:
    """What the device takes for `work`."""
    return float(device.time_s(OperatorTable([[work(**changes)]])).item())


@pytest.mark.parametrize(
    ("flops", "nbytes", "factor"),
    [(100.0, 1.0, 1 / 4), (1.0, 100.0, 1 / 2), (16.0, 1.0, 8 / 16), (0.0, 0.0, 1 / 2)],
)
def test_roofline_devices(flops: float, nbytes: float, factor: float) -> None:
    """Four times the compute and twice the bandwidth of a machine whose ridge is at 1 FLOP/byte."""
    device = ModelledDevice(compute=4.0, bandwidth=2.0, ridge=1.0)
    here = max(flops, nbytes)
    if here:
        factor = max(flops / 4, nbytes / 2) / here
    assert time_s(device, flops=flops, bytes=nbytes) == pytest.approx(factor)


def test_launches_cost_time() -> None:
    device = ModelledDevice(launch_s=1e-3)
    assert time_s(device, bytes=8.0, calls=5.0) == pytest.approx(1.005)


def test_random_devices_differ_by_class_alone() -> None:
    device, other = ModelledDevice(seed=1), ModelledDevice(seed=2)
    same = [time_s(device, flops=f) for f in (0.0, 1e9)]
    assert same[0] == same[1] == time_s(ModelledDevice(seed=1))
    assert time_s(device, kernel_class="another") != same[0] != time_s(other)
    factors = [time_s(ModelledDevice(seed=s)) for s in range(400)]
    assert np.mean(np.log(factors)) == pytest.approx(0.0, abs=0.15)
    assert np.std(np.log(factors)) == pytest.approx(0.7, rel=0.15)


def test_devices_of_a_target(target: Target) -> None:
    """None of them is the machine itself; each one's time of the target is what it sums up to."""
    load = load_of_target(target)
    devices = modelled_devices(load.groups)
    assert len({(d.compute, d.bandwidth, d.launch_s, d.seed) for d in devices}) == len(devices)
    for device in devices:
        assert (device.compute, device.bandwidth, device.launch_s, device.seed) != (1.0, 1.0, 0.0, None)
        assert device.target_s == pytest.approx(device.time_s(OperatorTable([load.groups])).sum() + 0.2)
