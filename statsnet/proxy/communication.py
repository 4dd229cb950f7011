"""The collectives of a network as source: what they are, and what the step computes meanwhile."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby

from statsnet.blocks.base import Config
from statsnet.blocks.collective import check_collective
from statsnet.proxy.code_layout import Call, call_lines, literal

USAGE = "    torchrun --nproc-per-node 2 network.py   in two processes that run each step together\n"

HELD = "        self.collectives = nn.ModuleList(collectives())\n"

COLLECTIVES = '''\
def collectives() -> list[nn.Module]:
    """What the processes that run this network together send each other, in order."""
    return [
'''

COMMUNICATION = '''\
WAITS: list[float] = []  # seconds that this process waited for others, since a step was timed last


@contextmanager
def communication(proxy: Proxy, phase: str) -> Iterator[None]:
    """The collectives of a phase: overlapped ones run while it computes, the others after it, one by one. A process
    that is alone leaves them out."""
    own = [c for c in proxy.collectives if c.phase == phase] if processes() > 1 else []
    running = [c.start() for c in own if c.overlapped]
    yield
    begin = time.perf_counter()
    for work in running:
        work.wait()
    for collective in own:
        if not collective.overlapped:
            collective.start().wait()
    if own:
        WAITS.append(time.perf_counter() - begin)
'''


def collectives_source(collectives: Sequence[Config]) -> str:
    """Source of the function that makes all collectives. Raises ValueError for what is none."""
    lines = [COLLECTIVES.rstrip()]
    for config, equal in groupby(collectives):
        check_collective(config)
        count, arguments = len(list(equal)), [f"{name}={literal(value)}" for name, value in config.items()]
        call: Call = ("Collective", [*arguments]) if count == 1 else ("*repeat", [str(count), "Collective", *arguments])
        lines += call_lines(call, 8)
    return "\n".join([*lines, "    ]"]) + "\n"


def told_to_main(collectives: Sequence[Config]) -> str:
    """The last arguments of run.py's `main`: how many there are, where waiting is noted, which groups share some."""
    groups = tuple(sorted({(c["group"], c["stride"]) for c in collectives if "group" in c}))
    return f", {len(collectives)}, WAITS{f', {groups}' if groups else ''}" if collectives else ""


def repeats_some(collectives: Sequence[Config]) -> bool:
    """Whether equal ones follow each other."""
    return any(len(list(equal)) > 1 for _, equal in groupby(collectives))


def communicating(phase: str, statements: str) -> str:
    """Statements of a step, run while the phase's collectives do."""
    return f'        with communication(proxy, "{phase}"):\n{textwrap.indent(statements, "    ")}'
