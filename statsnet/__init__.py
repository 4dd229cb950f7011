"""StatsNet: one small network that stands for a whole set of AI workloads on any device."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from statsnet import display

if TYPE_CHECKING:
    from statsnet.api.measuring import profile_workload, run, synthesize
    from statsnet.api.reading import compare, load, mix, save
    from statsnet.devices.device_record import DeviceRecord
    from statsnet.errors import StatsNetError
    from statsnet.evaluation.standings import Standings
    from statsnet.profiling.api import profile
    from statsnet.signatures.mix import Mix
    from statsnet.signatures.model import Signature
    from statsnet.signatures.results import Result
    from statsnet.signatures.saved_proxy import SavedProxy
    from statsnet.signatures.scenarios import ScenarioResult

__version__ = "0.1.0"
__all__ = [
    "DeviceRecord",
    "Mix",
    "Result",
    "SavedProxy",
    "ScenarioResult",
    "Signature",
    "Standings",
    "StatsNetError",
    "__version__",
    "compare",
    "load",
    "mix",
    "profile",
    "profile_workload",
    "run",
    "save",
    "synthesize",
]

_PLACES = {
    **dict.fromkeys(("compare", "load", "mix", "save"), "api.reading"),
    **dict.fromkeys(("profile_workload", "run", "synthesize"), "api.measuring"),
    "DeviceRecord": "devices.device_record",
    "Mix": "signatures.mix",
    "Result": "signatures.results",
    "SavedProxy": "signatures.saved_proxy",
    "ScenarioResult": "signatures.scenarios",
    "Signature": "signatures.model",
    "Standings": "evaluation.standings",
    "StatsNetError": "errors",
    "profile": "profiling.api",
}
"""Where each name is. It is imported when it is asked for: `profile` brings torch, others numpy and scipy."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'statsnet' has no attribute '{name}'")
    return getattr(import_module(f"statsnet.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _forms() -> display.Forms:
    from statsnet.reporting import values

    return values


display.use(_forms)
