"""The site is built without a warning, and needs no network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_pages import ROOT

pytest.importorskip("mkdocs", reason="the site's tools are not installed: pip install -e '.[docs]'")
pytest.importorskip("mkdocs_click")
pytest.importorskip("material")


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
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
