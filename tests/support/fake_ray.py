"""A Ray cluster that is made up: it answers what it is told, in the order in which errands are sent."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

import statsnet
from statsnet.measure.ray_cluster import Node, Share
from statsnet.measure.ray_held import AtWork
from statsnet.measure.task import to_json

exceptions = pytest.importorskip("ray.exceptions")

Z80 = {"device": "cpu", "device_name": "Z80", "threads": 1}


def answer(**values: Any) -> bytes:
    return zlib.compress(to_json(values).encode())


DESCRIBED = answer(result={"version": statsnet.__version__, "environment": Z80})
TWO = answer(result=[2.0])


class FakeCluster:
    """`work` is what its nodes are at; those that are not in it do not tell."""

    errors = exceptions

    def __init__(
        self,
        *answers: bytes | Exception | None,
        nodes: int = 1,
        alive: bool = True,
        cpus: float = 2.0,
        work: Mapping[str, AtWork] | None = None,
    ) -> None:
        self._answers, self._alive, self._work = list(answers), alive, work or {}
        self._nodes = [Node(id=f"{n}", name=f"node-{n}", cpus=cpus, gpus=0) for n in range(nodes)]
        self.sent: list[Share] = []
        self.looks: list[Any] = []
        self.ended: list[Any] = []

    def nodes(self) -> list[Node]:
        return self._nodes

    def send(self, message: bytes, share: Share, name: str = "") -> Any:
        self.sent.append(share)
        return len(self.sent) - 1

    def ask(self, nodes: Iterable[str]) -> dict[Any, str]:
        asked = {f"look {number}": node for number, node in enumerate(nodes, start=len(self.looks))}
        self.looks += asked
        return asked

    def told(self, asked: dict[Any, str], timeout_s: float = 0.0) -> dict[str, AtWork]:
        nodes = [asked.pop(ref) for ref, node in [*asked.items()] if node in self._work]
        return {node: self._work[node] for node in nodes}

    def wait(self, references: Sequence[Any], number: int, timeout_s: float) -> list[Any]:
        return [ref for ref in references if self._answers[ref] is not None]

    def get(self, reference: Any) -> Any:
        if isinstance(given := self._answers[reference], Exception):
            raise given
        return given

    def end(self, references: Sequence[Any]) -> None:
        self.ended += references

    def answer_all(self, given: bytes) -> None:
        self._answers = [known or given for known in self._answers]

    def answers(self, node: str) -> bool:
        return self._alive
