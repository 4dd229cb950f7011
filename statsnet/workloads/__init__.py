"""Workloads: the registry of known models, building one of them or a user's, and a step to run.

    built = build("cv/resnet50", mode="training", preset="small")
    step = make_step(built)
    step(0)

Nothing here imports torch until `build` or `make_step` is called, so that listing works without it.
"""

from statsnet.workloads.building import DTYPES, BuiltWorkload, build
from statsnet.workloads.registry import (
    DEFAULT_PRESET,
    ENTRY_POINT_GROUP,
    Workload,
    all_workloads,
    domains,
    failed_extensions,
    get,
    in_domain,
    names,
    register,
    workload,
)
from statsnet.workloads.step import Step, Successive, make_step

__all__ = [
    "DEFAULT_PRESET",
    "DTYPES",
    "ENTRY_POINT_GROUP",
    "BuiltWorkload",
    "Step",
    "Successive",
    "Workload",
    "all_workloads",
    "build",
    "domains",
    "failed_extensions",
    "get",
    "in_domain",
    "make_step",
    "names",
    "register",
    "workload",
]
