"""The map of workloads as SVG. Raises ImportError where matplotlib is not installed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from statsnet.analysis.similarity import Similarity
from statsnet.reporting.pictures import GREY, colour_of, figure, plain_text

_SIDES = (
    ((6, 0), "left", "center"),
    ((-6, 0), "right", "center"),
    ((0, 5), "center", "bottom"),
    ((0, -5), "center", "top"),
)
"""Where a name may stand: its offset from its point, in points of 1/72 inch, and its alignment."""


def map_svg(similarity: Similarity) -> str:
    """Workloads in the plane (t-SNE), a colour for each domain: near each other are those whose time goes to the same
    places. A name that would cover another name or point is left out; those that stand for a group come first."""
    domains = Counter(_domain(name) for name in similarity.names)
    colours = {domain: colour_of(number) for number, domain in enumerate(sorted(domains))}
    with figure(7.6, 6.8) as (made, text):
        axes = made.add_subplot()
        for domain, colour in colours.items():
            inside = [
                place
                for name, place in zip(similarity.names, similarity.places, strict=True)
                if _domain(name) == domain
            ]
            label = f"{domain or 'others'} ({domains[domain]})"
            axes.scatter(*zip(*inside, strict=True), s=26, color=colour, label=label, zorder=2)
        stands_for_all = _representatives(similarity)
        for number in stands_for_all:
            axes.scatter(*similarity.places[number], s=80, facecolors="none", edgecolors=GREY, linewidths=0.9, zorder=1)
        axes.margins(0.06)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
        axes.set_title("Workloads near each other spend their time in the same places", fontsize=11)
        axes.set_xlabel("t-SNE of time by kernel and arithmetic intensity; a ring: it stands for its group", fontsize=8)
        made.legend(loc="outside lower center", ncols=5, frameon=False, handletextpad=0.1, columnspacing=1.2)
        others = [number for number in range(len(similarity.names)) if number not in stands_for_all]
        _write_names(made, axes, similarity, [*stands_for_all, *others])
    return text.getvalue()


def _domain(name: str) -> str:
    """Empty for a workload of somebody's own, whose name has no domain."""
    return name.rpartition("/")[0]


def _representatives(similarity: Similarity) -> list[int]:
    """Those of the largest groups first."""
    by_size = sorted(similarity.clusters, key=lambda cluster: (-len(cluster.members), cluster.representative))
    return [similarity.names.index(cluster.representative) for cluster in by_size]


def _write_names(made: Any, axes: Any, similarity: Similarity, order: list[int]) -> None:
    """Each name on the first side of its point that is free. Layout comes first: it decides where the points are."""
    from matplotlib.transforms import Bbox

    made.draw_without_rendering()
    half = 4.0 * made.dpi / 72
    points = axes.transData.transform(similarity.places)
    taken = [Bbox.from_extents(x - half, y - half, x + half, y + half) for x, y in points]
    inside = axes.get_window_extent()
    for number in order:
        for offset, horizontal, vertical in _SIDES:
            name = axes.annotate(
                plain_text(similarity.names[number].rpartition("/")[2]),
                similarity.places[number],
                xytext=offset,
                textcoords="offset points",
                ha=horizontal,
                va=vertical,
                fontsize=8,
            )
            name.set_in_layout(False)
            box = name.get_window_extent()
            if inside.x0 <= box.x0 and box.x1 <= inside.x1 and not box.count_overlaps(taken):
                taken.append(box)
                break
            name.remove()
