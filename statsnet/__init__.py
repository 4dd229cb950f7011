"""StatsNet: one small network that stands for a whole set of AI workloads on any device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statsnet.profiling.api import profile

__version__ = "0.1.0"
__all__ = ["__version__", "profile"]


def __getattr__(name: str) -> Any:
    """`statsnet.profile` needs torch, so it is imported only when it is asked for."""
    if name == "profile":
        from statsnet.profiling.api import profile

        return profile
    raise AttributeError(f"module 'statsnet' has no attribute '{name}'")
