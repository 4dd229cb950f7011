"""Links and images in the documentation point to something that exists, and the site of it can be built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_pages import ROOT, anchors, link_targets, pages

OUR_FILE = re.compile(
    r"(?<![\w/.-])(?:statsnet|docs|profiles_db|benchmarks|examples|reference_workloads|tests)/[\w/.-]+\.(?:py|yaml|md|csv|svg|zip)\b"
)


def problem(page: Path, target: str) -> str | None:
    """What is wrong with a link of a page; None if nothing is, or if it leads to another site."""
    parts = urlsplit(target)
    if parts.scheme:
        return None
    file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if parts.path.startswith("/") or not file.is_relative_to(ROOT):
        return "leads out of the repository"
    if not file.exists():
        return "no such file"
    if parts.fragment and parts.fragment not in anchors(file):
        return f"no such heading; there are {', '.join(sorted(anchors(file)))}"
    return None


def test_every_link_and_image_points_to_something() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}: {why}"
        for page in pages()
        for target in link_targets(page)
        if (why := problem(page, target))
    ]
    assert not broken, "\n".join(broken)


def test_every_file_that_is_named_exists() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages()
        for name in OUR_FILE.findall(page.read_text())
        if not (ROOT / name).is_file()
    ]
    assert not missing, "\n".join(missing)


def test_what_is_wrong_with_a_link(tmp_path: Path) -> None:
    page = ROOT / "docs" / "formats.md"
    assert problem(page, "https://pytorch.org") is None
    assert problem(page, "costs.md") is None
    assert problem(page, "#log-of-rounds") is None
    assert problem(page, "nothing.md") == "no such file"
    assert "no such heading" in str(problem(page, "#nothing"))
    assert problem(page, "/etc/passwd") == "leads out of the repository"
    assert problem(page, "../../x") == "leads out of the repository"
    written = tmp_path / "page.md"
    written.write_text("# A `b` *c*-d\n\n# Twice\n\n# Twice\n\n[a](b.md#c) ![d](e.png) `[f](g)`\n\n    [h](i)\n")
    assert anchors(written) == {"a-b-c-d", "twice", "twice-1"}
    assert link_targets(written) == ["b.md#c", "e.png"]


def test_the_site_is_built_without_a_warning_and_needs_no_network(tmp_path: Path) -> None:
    for module in ("mkdocs", "mkdocs_click", "material"):
        pytest.importorskip(module, reason="the site's tools are not installed: pip install -e '.[docs]'")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)], cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.html")}
    assert "--compression" in pages["reference/commands.html"]
    for name, text in pages.items():
        loaded = re.findall(r'<(?:script|img|link)[^>]*?(?:src|href)="(?:https?:)?//[^"]*"', text)
        assert not loaded, f"{name} loads {loaded}"
