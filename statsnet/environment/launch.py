"""Whether this process is one of several that were started to make each step together.

Pasted into every generated network, before measure/ranks.py: it needs the standard library only.
"""

import os
from typing import Any

RUN_VARIABLE = "STATSNET_RUN"  # names a run that StatsNet itself has started


def run_of(variables: Any) -> str | None:
    """What names the run of these processes: torchrun's id, which is `none` unless somebody chooses one, with its port.
    None for a process that stands alone: other programs, as of clusters, set RANK and WORLD_SIZE, too, for processes
    that have nothing to do with each other. `variables` are a mapping."""
    run = variables.get(RUN_VARIABLE) or variables.get("TORCHELASTIC_RUN_ID")
    return None if run is None else f"{run} {variables.get('MASTER_PORT', '')}"


def launched_together() -> bool:
    """Whether torchrun, or StatsNet, has started this process and others together."""
    return run_of(os.environ) is not None


def processes_together() -> int:
    """How many were started together, with the variables by which they find each other: 1 for one that is alone."""
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    size = os.environ.get("WORLD_SIZE", "")
    found = launched_together() and size.isdecimal() and all(name in os.environ for name in names)
    return int(size) if found else 1
