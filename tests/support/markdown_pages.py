"""The pages that people read: their links, headings, code blocks and commands."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
ALL = (
    "README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "docs/**/*.md", "examples/README.md", "benchmarks/**/*.md",
    "profiles_db/README.md", "generated/*/README.md",
)  # fmt: skip
WITH_COMMANDS = ("README.md", "docs/how-to/*.md")

_PARSER = MarkdownIt("commonmark").enable("table")
_SHELL = ("", "sh", "bash", "console")
_RUNS = "<!-- runs -->"
_END_OF_COMMAND = re.compile(r"[|&;<>]+|\d>")


@dataclass(frozen=True)
class Block:
    """A code block. `language` is empty for an indented one; `title` is the file that it shows."""

    text: str
    language: str
    title: str
    runs: bool


def pages(patterns: tuple[str, ...] = ALL) -> list[Path]:
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def link_targets(page: Path) -> list[str]:
    """Where the links and images of a page point to."""
    found = (token.attrs.get("href" if token.type == "link_open" else "src") for token in _inline(_tokens(page)))
    return [str(target) for target in found if target is not None]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and docs/ (mkdocs.yml) make them."""
    tokens, seen, found = _tokens(page), Counter[str](), set()
    for opening, inside in pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(t.content for t in inside.children or ())
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return found


def code_blocks(page: Path) -> list[Block]:
    """The code blocks of a page. Those after the comment `<!-- runs -->` run in seconds, as they stand."""
    found, runs = [], False
    for token in _tokens(page):
        if token.type in ("fence", "code_block"):
            language, _, rest = token.info.strip().partition(" ")
            title = re.search(r'title="([^"]+)"', rest)
            found.append(Block(token.content, language, title[1] if title else "", runs))
        runs = token.type == "html_block" and token.content.strip() == _RUNS
    return found


def commands(page: Path) -> list[list[str]]:
    """The shell commands that a page's code blocks show, without what a pipe or a redirection adds."""
    return [
        words
        for block in code_blocks(page)
        if block.language in _SHELL
        for line in block.text.replace("\\\n", " ").splitlines()
        if (words := _words(line))
    ]


def _words(line: str) -> list[str]:
    """The words of a line that calls `statsnet` or `python`; of every other line, such as output, none."""
    line = re.sub(r"^(\$ )?(\w+=\S* )*", "", line.strip())
    if not line.startswith(("statsnet ", "python ")):
        return []
    words = shlex.split(line, comments=True)
    end = next((i for i, word in enumerate(words) if _END_OF_COMMAND.fullmatch(word)), len(words))
    return words[:end]


def _tokens(page: Path) -> list[Token]:
    return _PARSER.parse(page.read_text())


def _inline(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _inline(token.children or [])
