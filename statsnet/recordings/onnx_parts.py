"""A fused operator of ONNX, and the plain nodes that compute the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from statsnet.recordings.onnx_call import OnnxCall, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One plain node: `outputs` are names of the fused node's, or new ones."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """The parts of a node, and the tensors that are known without them."""

    parts: tuple[Part, ...] = ()
    known: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedNode:
    """A node with the names of its inputs and outputs ("" where absent), beside its tensors."""

    names: tuple[str, ...]
    results: tuple[str, ...]
    call: OnnxCall

    def name(self, index: int) -> str:
        return self.names[index] if index < len(self.names) else ""

    def result(self, index: int) -> str:
        """The output's name; a new one where nobody asks for it."""
        given = self.results[index] if index < len(self.results) else ""
        return given or f"{self.results[0]}/{index}"

    def between(self, what: str) -> str:
        """A name for what lies between two parts."""
        return f"{self.results[0]}/{what}"

    def number(self, attribute: str, default: int = 0) -> int:
        value = self.call.attributes.get(attribute, default)
        return value if isinstance(value, int) else default
