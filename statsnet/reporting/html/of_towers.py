"""A proxy's network as a picture: its towers, each a chain of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from statsnet.reporting.html.markup import grid
from statsnet.reporting.html.page import as_html
from statsnet.reporting.html.pictures import Picture
from statsnet.reporting.pictures import colour_of
from statsnet.reporting.tables import MISSING, environment_line, percent, table
from statsnet.signatures.documents import Fit, ProxySpec, SpecBlock, SpecTower

SHOWN_CHAINS = 60
"""At most so many chains of equal kinds are drawn of one tower; the table has all."""


def towers_picture(spec: ProxySpec, fit: Fit | None) -> Picture:
    """Boxes in HTML. Successive blocks of one kind are one box, successive towers of the same kinds one tower."""
    kinds = list(dict.fromkeys(block.kind for tower in spec.towers for block in tower.blocks))
    colours = {kind: colour_of(number) for number, kind in enumerate(kinds)}
    rows = [
        (
            str(number),
            percent(tower.purpose.step_share if tower.purpose else None),
            ", ".join(tower.purpose.categories) if tower.purpose else MISSING,
            ", ".join(tower.purpose.members) if tower.purpose else MISSING,
            " → ".join(counted_chains(tower)),
        )
        for number, tower in enumerate(spec.towers, 1)
    ]
    made = table("", ("tower", "share of the step", "categories", "stands for", "blocks"), rows)
    for column in made.columns[2:]:
        column.justify = "left"
    numbered = list(enumerate(spec.towers, 1))
    alike = groupby(numbered, key=lambda each: counted_chains(each[1]))
    drawn = [_towers(list(group), colours) for _, group in alike]
    return Picture(
        title="The network: towers of blocks",
        note="Towers in the order in which they run, with their shares of the step; a box is a block, or several of a "
        f"kind in turn.{_where(spec, fit)}",
        table=grid(made),
        drawing=f'<div class="towers">{"".join(drawn)}</div>',
    )


def _where(spec: ProxySpec, fit: Fit | None) -> str:
    """Where the shares are from; nothing of a proxy for simulators, which has none, or if that is not known."""
    if spec.simulation is not None or fit is None:
        return ""
    how = "Predicted for" if fit.recorded else "Measured on"
    return f" {how} {environment_line(spec.reference_environment)}."


def _chains(tower: SpecTower) -> list[list[SpecBlock]]:
    return [list(group) for _, group in groupby(tower.blocks, key=lambda block: block.kind)]


def _counted(chain: Sequence[SpecBlock]) -> str:
    return chain[0].kind if len(chain) == 1 else f"{chain[0].kind} ×{len(chain)}"


def counted_chains(tower: SpecTower) -> list[str]:
    """Successive blocks of one kind: `conv ×3`, `linear`."""
    return [_counted(chain) for chain in _chains(tower)]


def _towers(alike: Sequence[tuple[int, SpecTower]], colours: Mapping[str, str]) -> str:
    """Successive towers of the same kinds, as one."""
    (first, tower), (last, _) = alike[0], alike[-1]
    name = f"tower {first}" if first == last else f"towers {first} to {last}"
    purposes = [each.purpose for _, each in alike if each.purpose]
    share = f", {sum(purpose.step_share for purpose in purposes):.1%}" if purposes else ""
    categories = ", ".join(dict.fromkeys(name for purpose in purposes for name in purpose.categories))
    members = ", ".join(dict.fromkeys(name for purpose in purposes for name in purpose.members))
    title = f"{categories}; for {members}" if purposes else ""
    chains = _chains(tower)
    boxes = [_box(chain, colours[chain[0].kind]) for chain in chains[:SHOWN_CHAINS]]
    boxes += [f"<span>and {len(chains) - SHOWN_CHAINS} more</span>"] if len(chains) > SHOWN_CHAINS else []
    head = f'<small title="{as_html(title)}">{name}{share}</small>'
    return f'<div class="tower">{head}<div>{"".join(boxes)}</div></div>'


def _box(chain: Sequence[SpecBlock], colour: str) -> str:
    config = ", ".join(f"{key}={value}" for key, value in chain[0].config.items())
    of = "the first: " if len(chain) > 1 else ""
    title = as_html(f"{of}{chain[0].kind}({config})")
    return f'<span class="block" style="border-color:{colour}" title="{title}">{as_html(_counted(chain))}</span>'
