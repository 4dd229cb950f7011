"""What is another runtime given, by node type: for a suite and for the proxy that stands for it?

    python benchmarks/diagnostics/exported_nodes.py PROXY [--most 25] [--optimized]

Every member and the proxy are exported to ONNX as for `runtime=onnxruntime`; nothing is timed. For each type of node
the table says how many run in one second of the mix, and how many bytes they write, on both sides. A body of a loop
counts as often as it runs, as far as the count is a constant. With --optimized, the graphs are those that onnxruntime
makes of them, after its fusions. Where the two sides differ, the runtime will see two different programs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from benchmarks.console import parser, report, start
from benchmarks.diagnostics.exported_graphs import CountNodes, NodeType
from benchmarks.markdown import markdown_table
from statsnet.errors import StatsNetError
from statsnet.evaluation.suite import suite_of
from statsnet.measure.control import Control
from statsnet.measure.process import run
from statsnet.progress import Progress
from statsnet.proxy.folder import open_proxy, runnable
from statsnet.units import format_bytes, format_quantity


def main() -> None:
    options = parser(__doc__)
    options.add_argument("proxy")
    options.add_argument("--most", type=int, default=25, help="types of nodes that are shown")
    options.add_argument("--optimized", action="store_true")
    chosen = options.parse_args()
    proxy = open_proxy(chosen.proxy)
    fit = proxy.fit()
    if fit is None or fit.summary.step_latency_s is None:
        raise StatsNetError(f"'{chosen.proxy}' has no fit.json that says how long its step takes")
    suite: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for member in suite_of(proxy.spec):
        report(Progress(stage=f"exporting {member.name}"))
        if member.target is None:
            print(f"left out: {member.name}, whose model is not at hand")
            continue
        counted = counted_nodes(CountNodes(model=member.model(proxy.spec), optimized=chosen.optimized), member.name)
        _add(suite, counted, member.rate)
    with runnable(proxy) as ready:
        task = CountNodes(folder=str(ready.network_folder), optimized=chosen.optimized)
        own: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        _add(own, counted_nodes(task, "the proxy"), 1.0 / fit.summary.step_latency_s)
    print(table(suite, own, chosen.most))


def counted_nodes(task: CountNodes, label: str) -> Mapping[str, NodeType]:
    """In a process of its own; nothing, and a line that says so, for what cannot be exported."""
    try:
        return run(task, Control(label=label))
    except StatsNetError as error:
        print(f"left out: {label}: {error.message}: {error.cause}")
        return {}


def _add(sums: dict[str, list[float]], counted: Mapping[str, NodeType], rate: float) -> None:
    for name, of_type in counted.items():
        sums[name][0] += rate * of_type.count
        sums[name][1] += rate * of_type.bytes_written


def table(suite: Mapping[str, list[float]], own: Mapping[str, list[float]], most: int) -> str:
    """The types that differ most in how often they run come first."""

    def ratio(name: str, place: int) -> str:
        a, b = suite.get(name, [0.0, 0.0])[place], own.get(name, [0.0, 0.0])[place]
        return "–" if not a else f"{b / a:.2f}"

    names = sorted({*suite, *own}, key=lambda n: (-abs(own.get(n, [0.0])[0] - suite.get(n, [0.0])[0]), n))
    head = ("node", "suite, a second", "proxy", "ratio", "suite writes", "proxy", "ratio")
    lines = [
        (n, format_quantity(suite.get(n, [0.0])[0]), format_quantity(own.get(n, [0.0])[0]), ratio(n, 0),
         format_bytes(suite.get(n, [0.0, 0.0])[1]), format_bytes(own.get(n, [0.0, 0.0])[1]), ratio(n, 1))
        for n in names[:most]
    ]  # fmt: skip
    return markdown_table(head, lines)


if __name__ == "__main__":
    start(main)
