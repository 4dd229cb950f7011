"""Pictures as SVG text; the same data give the same bytes. Every function raises ImportError where matplotlib is not
installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any

from statsnet.analysis.characteristics import Characteristics, categories_of
from statsnet.analysis.similarity import Similarity
from statsnet.analysis.sizes import Size

COLOURS = (
    "#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#bab0ac",
    "#1f3b57", "#8c4a00", "#7f1d1e", "#2f6b67", "#27581f",
)  # fmt: skip
CARD, TEXT, GREY = "#f6f8fa", "#1f2328", "#59636e"
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "statsnet",  # names inside the file depend on nothing else
    "svg.fonttype": "none",  # text stays text: small files, and a browser can search it
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial"],  # the first comes with matplotlib, is widest
    "font.size": 9,
    "figure.facecolor": CARD,  # a light card, so that a picture reads the same on white and on dark pages
    "axes.facecolor": CARD,
    "axes.edgecolor": GREY,
    "figure.constrained_layout.w_pad": 0.12,
    "figure.constrained_layout.h_pad": 0.12,
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": TEXT,
    "ytick.labelcolor": TEXT,
}


def colour_of(number: int) -> str:
    """The colour of the n-th series, counted from 0."""
    return COLOURS[number % len(COLOURS)]


def plain_text(name: str) -> str:
    """For matplotlib, which reads what stands between two dollar signs as a formula."""
    return name.replace("$", r"\$")


@contextmanager
def figure(width: float, height: float) -> Iterator[tuple[Any, StringIO]]:
    """A matplotlib figure in inches, and the SVG that it becomes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        made, text = Figure(figsize=(width, height), layout="constrained"), StringIO()
        yield made, text
        made.savefig(text, format="svg", metadata={"Date": None, "Creator": None})


def tree_svg(similarity: Similarity) -> str:
    """Dendrogram of the same workloads."""
    from scipy.cluster.hierarchy import dendrogram

    with figure(7.0, 1.0 + 0.2 * len(similarity.names)) as (made, text):
        axes = made.add_subplot()
        names = [*map(plain_text, similarity.names)]
        dendrogram(similarity.tree, labels=names, orientation="right", ax=axes, leaf_font_size=7)
        axes.set_xlabel("distance (Ward) of square roots of shares of time")
    return text.getvalue()


def categories_svg(workloads: Sequence[Characteristics]) -> str:
    """Time of a step by operator category, a bar for each workload."""
    names = [plain_text(one.name) for one in workloads][::-1]
    with figure(8.0, 1.6 + 0.2 * len(workloads)) as (made, text):
        axes = made.add_subplot()
        left = [0.0] * len(workloads)
        for number, category in enumerate(categories_of(workloads)):
            width = [one.categories.get(category, 0.0) for one in workloads][::-1]
            axes.barh(names, width, left=left, label=category, color=colour_of(number))
            left = [a + b for a, b in zip(left, width, strict=True)]
        axes.set_xlim(0.0, 1.0)
        axes.set_ylim(-0.6, len(workloads) - 0.4)
        axes.set_xlabel("share of the step's time")
        axes.tick_params(axis="y", labelsize=7)
        made.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=7)
    return text.getvalue()


def costs_svg(workloads: Sequence[Characteristics]) -> str:
    """FLOPs of a sample against parameters."""
    with figure(7.0, 5.0) as (made, text):
        axes = made.add_subplot()
        for one in workloads:
            if one.batch and one.flops and one.parameters:
                x, y = one.flops / one.batch, one.parameters
                axes.scatter([x], [y], s=20, color="C0")
                axes.annotate(plain_text(one.name), (x, y), xytext=(4, 3), textcoords="offset points", fontsize=7)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("FLOPs of a step ÷ batch")
        axes.set_ylabel("parameters")
    return text.getvalue()


def memory_svg(by_workload: Mapping[str, Sequence[Size]]) -> str:
    """What a step takes besides parameters against the size of its input, a line for each workload that is known in
    several sizes; hollow points were counted and not run."""
    with figure(7.5, 6.0) as (made, text):
        axes = made.add_subplot()
        lines = [sizes for sizes in by_workload.values() if len(sizes) > 1 and sizes[0].input_bytes]
        for number, sizes in enumerate(lines):
            colour = colour_of(number)
            x, y = [s.input_bytes for s in sizes], [s.activation_bytes for s in sizes]
            axes.plot(x, y, color=colour, linewidth=0.8)
            for size in sizes:
                face = "none" if size.counted else colour
                axes.scatter(
                    size.input_bytes,
                    size.activation_bytes,
                    s=16,
                    facecolors=face,
                    edgecolors=colour,
                    zorder=2,
                )
            axes.annotate(sizes[-1].name, (x[-1], y[-1]), xytext=(4, 2), textcoords="offset points", fontsize=6)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("input of a step, bytes")
        axes.set_ylabel("activations, gradients and workspace at their most, bytes")
    return text.getvalue()
