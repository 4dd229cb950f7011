"""Ranges around the parts of a step, for whoever looks at a recording: phases, towers, blocks, modules.

A range is one of torch's profiler; on a GPU it is one of NVTX as well, which Nsight Systems shows. Forwards are
replaced rather than hooked: a proxy's network does not call its modules, and some modules run other operators where
they have a hook.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, get_args

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.profiler import record_function

Part = Literal["phase", "tower", "block", "module"]
PARTS: tuple[Part, ...] = get_args(Part)
_PREFIX = "statsnet:"


class Marked:
    """A range around a part of a step. It is entered and left on one thread."""

    def __init__(self, part: Part, name: str, *, on_gpu: bool) -> None:
        self._range = record_function(f"{_PREFIX}{part}:{name}")
        self._name, self._on_gpu = name, on_gpu

    def __enter__(self) -> Marked:
        if self._on_gpu:
            torch.cuda.nvtx.range_push(self._name)
        self._range.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._range.__exit__(None, None, None)
        if self._on_gpu:
            torch.cuda.nvtx.range_pop()


def part_and_name(label: str) -> tuple[Part, str] | None:
    """What a recorded range was entered as; None if it is somebody else's."""
    if not label.startswith(_PREFIX):
        return None
    word, _, name = label.removeprefix(_PREFIX).partition(":")
    part = next((part for part in PARTS if part == word), None)
    return (part, name) if part else None


class Phases:
    """The phase that a step is in: entering another one leaves the one before."""

    def __init__(self, *, on_gpu: bool) -> None:
        self._on_gpu = on_gpu
        self._name = ""
        self._open: Marked | None = None

    def enter(self, name: str) -> None:
        if name == self._name:  # a proxy may have several optimizers
            return
        self.leave()
        self._name, self._open = name, Marked("phase", name, on_gpu=self._on_gpu).__enter__()

    def leave(self) -> None:
        if self._open is not None:
            self._open.__exit__()
        self._name, self._open = "", None


Around = Callable[[], AbstractContextManager[Any]]


@contextmanager
def around_forwards(modules: Iterable[tuple[nn.Module, Around]]) -> Iterator[None]:
    """Run each module's forward within what is made for it, until the `with` block ends."""

    def within(forward: Callable[..., Any], around: Around) -> Callable[..., Any]:
        @functools.wraps(forward)
        def run(*args: Any, **kwargs: Any) -> Any:
            with around():
                return forward(*args, **kwargs)

        return run

    before: list[tuple[nn.Module, Any]] = []
    try:
        for module, around in modules:
            before.append((module, vars(module).get("forward")))
            module.forward = within(module.forward, around)
        yield
    finally:
        for module, own in reversed(before):
            if own is None:
                del module.forward
            else:
                module.forward = own


def blocks_of(proxy: nn.Module) -> Iterator[tuple[int, int, nn.Module]]:
    """The blocks of a proxy's network with the numbers of their tower and place, from 0; none in what has no towers."""
    for i, tower in enumerate(getattr(proxy, "towers", ())):
        for j, block in enumerate(tower):
            yield i, j, block


def marked_modules(model: nn.Module, *, on_gpu: bool) -> AbstractContextManager[None]:
    """Ranges around the forwards of a model's modules, by their place in it and their class. Those of TorchScript
    cannot be replaced and have none."""

    def around(name: str) -> Around:
        return lambda: Marked("module", name, on_gpu=on_gpu)

    return around_forwards(
        (module, around(f"{place} {type(module).__name__}".strip()))
        for place, module in model.named_modules()
        if not isinstance(module, torch.jit.ScriptModule)
    )


@contextmanager
def marked_proxy(network: Any, proxy: nn.Module, phases: Phases, *, on_gpu: bool) -> Iterator[None]:
    """Ranges around the towers and blocks of a proxy's network, numbered from 1, and its phases. `network` is the
    module of its source: its function `backward`, where it has one, begins the backward phase."""
    lasts = [len(tower) - 1 for tower in getattr(proxy, "towers", ())]
    towers: list[Marked] = []

    @contextmanager
    def block_within(i: int, j: int, kind: str) -> Iterator[None]:
        if j == 0:
            towers.append(Marked("tower", f"tower {i + 1}", on_gpu=on_gpu).__enter__())
        with Marked("block", f"{i + 1}.{j + 1} {kind}", on_gpu=on_gpu):
            yield
        if j == lasts[i]:
            towers.pop().__exit__()

    @contextmanager
    def forward_phase() -> Iterator[None]:
        if torch._C._current_graph_task_id() == -1:  # autograd has some towers run in the backward pass
            phases.enter("forward")
        yield

    def in_backward(*args: Any, **kwargs: Any) -> Any:
        phases.enter("backward")
        return backward(*args, **kwargs)

    backward: Any = getattr(network, "backward", None)
    if backward is not None:
        network.backward = in_backward
    hook = register_optimizer_step_pre_hook(lambda *_: phases.enter("optimizer"))
    blocks = [(block, functools.partial(block_within, i, j, type(block).__name__)) for i, j, block in blocks_of(proxy)]
    try:
        with around_forwards([(proxy, forward_phase), *blocks]):
            yield
    finally:
        hook.remove()
        if backward is not None:
            network.backward = backward
