"""An inference step of a workload (by name) or of a proxy (by folder), for benchmarks that time steps themselves."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from statsnet.measure.network_file import load_network
from statsnet.workloads import build, make_step
from statsnet.workloads.settings import BASELINE, Setting, convert_module, wrap_step


def step_of(target: str, setting: Setting = BASELINE) -> Callable[[], Any]:
    """Only the part of a setting that is switched inside a process is applied. Successive steps take their inputs in
    turn."""
    if Path(target).is_dir():
        network = load_network(target)
        step: Callable[[], Any] = network.make_step(convert_module(setting, network.build("cpu")), "cpu")
    else:
        built = build(target, mode="inference")
        convert_module(setting, built.model)
        workload, turn = make_step(built), itertools.count()

        def step() -> Any:
            return workload(next(turn))

    return wrap_step(setting, step, "cpu")
