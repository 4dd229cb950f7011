"""How the models that ship become known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statsnet.workloads.registry import register


def shipped(domain: str) -> Callable[..., None]:
    """What registers a model of this domain: `add(name, **metadata)` with the other fields of `Workload`. The function
    `build` in the file of that name makes it, or `built_by`, "file:function"."""

    def add(name: str, *, built_by: str | None = None, **metadata: Any) -> None:
        factory = f"reference_workloads.{domain}.{built_by or f'{name}:build'}"
        register(factory, name=name, domain=domain, **metadata)

    return add
