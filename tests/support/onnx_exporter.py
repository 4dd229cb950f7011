"""torch's exporter to ONNX, which remembers what it knows of operators."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec

import pytest


@pytest.fixture(scope="session")
def one_reading_of_operators() -> Iterator[None]:
    """For each export torch reads the sources of some 500 functions anew, which takes longer than to export a small
    model. Does nothing where there is no exporter: then its tests are skipped."""
    if find_spec("onnx") is None or find_spec("onnxscript") is None:
        yield
        return
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    read = cache(ONNXRegistry.from_torchlib)

    def known(**version: int) -> ONNXRegistry:
        """Each export adds operators of its own, in front of those that are known."""
        registry = copy.copy(read(**version))
        registry.functions = {name: [*found] for name, found in registry.functions.items()}
        return registry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(known))
        yield
