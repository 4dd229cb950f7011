"""The collectives of a network as source: what they are, and when they run among its towers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby, pairwise
from string import Template

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


class Exchange:
    """The collectives of one phase of a step, while its towers run. A process that is alone leaves them out."""

    def __init__(self, proxy: Proxy, phase: str) -> None:
        self.left = [c for c in proxy.collectives if c.phase == phase][::-1] if processes() > 1 else []
        self.running: list[tuple[int, Any]] = []

    def after(self, towers: int) -> None:
        """So many towers have run."""
        if self.left or self.running:
            self.exchange(towers)

    @torch.compiler.disable  # a compiler cannot read what moves data
    def exchange(self, towers: int) -> None:
        """Wait for what is awaited once so many towers have run, and begin what begins then."""
        begin = time.perf_counter()
        for until, work in self.running:
            if until <= towers:
                work.wait()
        self.running = [(until, work) for until, work in self.running if until > towers]
        while self.left and self.left[-1].after <= towers:
            collective = self.left.pop()
            work = collective.start()
            if collective.until <= towers:
                work.wait()
            else:
                self.running.append((collective.until, work))
        WAITS.append(time.perf_counter() - begin)
'''

BACKWARD_EXCHANGE = Template('''\
@contextmanager
def exchange_in_backward(proxy: Proxy, ends: list[Tensor]) -> Iterator[Exchange]:
    """Runs the backward pass's collectives, in it and around it. Autograd asks for the gradient of each tower's end
    when the tower's turn comes, the last tower first.$later"""
    exchange = Exchange(proxy, "backward")
    exchange.after(0)
    for towers, end in enumerate(reversed(ends), $first):
        if exchange.left or exchange.running:
            end.register_hook(lambda _, towers=towers: exchange.after(towers))
    yield exchange
    exchange.after($first + len(ends))
''')

FORWARD_OR_BACKWARD = '''\
    def forward(self, batch: list[Tensor], backward: "Exchange | None" = None) -> list[Tensor]:
        """In the forward pass all ends; towers IN_BACKWARD hand on what they read. In the backward pass the ends of
        those towers."""
        if backward is not None:
            ends = []
            for i in sorted(IN_BACKWARD):
                backward.after(len(ends))
                ends.append(through(self.towers[i], batch[i]))
            return ends
'''

LOOP = Template("""\
        ends, exchange = [], Exchange(self, "forward")
        for i, (tower, x) in enumerate(zip(self.towers, batch, strict=True)):
            exchange.after(i)
            ends.append($end)
        exchange.after(len(ends))
""")


def segments(ends: Sequence[str], collectives: Sequence[Config]) -> str:
    """Source of a forward pass without a loop, from that of each tower's end."""
    places = {0, *(c[name] for c in collectives for name in ("after", "until") if c["phase"] == "forward")}
    inner = sorted(place for place in places if place < len(ends))
    lines = ['        exchange = Exchange(self, "forward")', "        ends = []"]
    for begin, end in pairwise([*inner, len(ends)]):
        lines += [f"        exchange.after({begin})", "        ends += [", *ends[begin:end], "        ]"]
    return "\n".join([*lines, "        exchange.after(len(ends))\n"])


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


def backward_exchange(later: bool) -> str:
    """Source that runs collectives in the backward pass; `later`: some towers run in that pass, before all others."""
    told = " The towers IN_BACKWARD run before them, in order."
    return BACKWARD_EXCHANGE.substitute(first="len(IN_BACKWARD)" if later else "0", later=told if later else "")


def communicating(statements: str, outputs: str) -> str:
    """Statements of a backward pass, run while its collectives do."""
    return f"        with exchange_in_backward(proxy, {outputs}) as exchange:\n{textwrap.indent(statements, '    ')}"
