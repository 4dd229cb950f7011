"""Whole numbers among an operator's arguments that divide rows among bags, groups, sequences or segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from statsnet.signatures.categories import base_name

Shapes = Mapping[str, Sequence[int]]
"""Of an operator's tensors, by the schema's names of its arguments."""

ENDS = frozenset({"_grouped_mm", "_scaled_grouped_mm"})
"""Products whose `offs` hold where each group ends."""


def parts_of(op: str, name: str, count: int, shapes: Shapes) -> tuple[int, int] | None:
    """The first of `count` numbers and the step from each to the next, if all parts are equally long. None if the
    argument of this name divides nothing."""
    if name == "offs" and base_name(op) in ENDS and {"self", "mat2"} <= shapes.keys():
        step = grouped_rows(shapes) // max(1, count)
        return step, step
    if name == "offsets":
        rows = next((shapes[of][0] for of in ("indices", "values", "data") if shapes.get(of)), None)
        bags = shapes["grad"][0] if shapes.get("grad") else count  # bags may begin without the end of the last
        parts = bags if "indices" in shapes else count - 1
        return None if rows is None else (0, rows // max(1, parts))
    if name.startswith(("cum_seq_", "cu_seqlens_")):  # where each sequence begins, and the end of the last
        of = "query" if name.endswith("q") else "key"
        return (0, shapes[of][-3] // max(1, count - 1)) if len(shapes.get(of, ())) >= 3 else None
    length = _length(op, name, count, shapes)
    return None if length is None else (length, 0)


def _length(op: str, name: str, count: int, shapes: Shapes) -> int | None:
    """How long each of `count` parts is, where an argument says it of each; sequences are as long as there is room."""
    if name == "lengths" and base_name(op) in ("segment_reduce", "_segment_reduce_backward") and shapes.get("data"):
        return shapes["data"][0] // max(1, count)
    if name == "lengths" and base_name(op) == "_pack_padded_sequence" and len(shapes.get("input", ())) > 1:
        first, second, *_ = shapes["input"]
        return first if second == count else second
    if name == "input_lengths" and shapes.get("log_probs"):
        return shapes["log_probs"][0]
    if name == "target_lengths" and shapes.get("log_alpha"):  # a state for each label, and one before and behind each
        return shapes["log_alpha"][-1] // 2
    if name == "target_lengths" and shapes.get("targets"):
        return shapes["targets"][-1] // (max(1, count) if len(shapes["targets"]) == 1 else 1)
    return None


def grouped_rows(shapes: Shapes) -> int:
    """How many rows (or columns) the groups of a product share."""
    left, right = shapes["self"], shapes["mat2"]
    return right[-1] if len(left) == 3 else left[0] if len(right) == 3 else left[-1]
