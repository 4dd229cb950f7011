"""Workloads: the registry of known models, building one of them or a user's, and a step to run.

`step = make_step(build("cv/resnet50", mode="training"))` makes a step, and `step(0)` runs it.
Nothing here imports torch until `build` or `make_step` is called, so that listing works without it.

Which there are
    registry, conformance
From a name to a model on a device
    arguments, loading, model_errors, calling, drawing, building, hidden_operators, settings, dtypes, optimizers, losses
A step
    step, stepping, trees, tree_copies
What steps change, put back
    renewal, held_state, outside_state, snapshots
Counted without memory
    fakes, compressed_fakes
In graphs
    grouped_products
Operators by themselves
    torch_operators, found_values, sparse_values, packed_values, nested_values
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
