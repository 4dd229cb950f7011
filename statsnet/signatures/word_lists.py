"""Lists of words in text files, as people add to them: names of operators, kernels and devices."""

from __future__ import annotations

from pathlib import Path


def word_lists(path: Path) -> dict[str, list[str]]:
    """The lists of a file by their names, in order. A line begins with a list's name, its words follow, and those of
    indented lines below belong to it too; a line that begins with `#` is a remark."""
    lists: dict[str, list[str]] = {}
    words: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        found = line.split()
        if found and not line.startswith(" "):
            words = lists.setdefault(found.pop(0), [])
        words += found
    return lists
