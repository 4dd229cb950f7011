"""Whose code is timed: the files here, and those of another commit, checked out in a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from statsnet.errors import UsageError

HERE = "here"
"""What the files here are called in the table."""

STATSNET = (sys.executable, "-m", "statsnet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One state of the code: the table's word for it, and the folder of its files."""

    code: str
    root: Path

    def variables(self, cache: Path) -> dict[str, str]:
        """A command's environment: it runs this code and keeps its measurements in this folder."""
        return {**os.environ, "PYTHONPATH": str(self.root), "STATSNET_CACHE": str(cache)}

    def knows(self, option: str) -> bool:
        """Whether its `synthesize` has this option."""
        command = [*STATSNET, "synthesize", "--help"]
        variables = self.variables(self.root / "unused")
        return option in subprocess.run(command, cwd=self.root, env=variables, capture_output=True, text=True).stdout


@contextmanager
def sides(root: Path, against: str | None, work: Path) -> Iterator[list[Side]]:
    """The files under `root` and, if one is named, a commit's, which lie under `work` meanwhile.

    Raises UsageError if there is no such commit.
    """
    here = Side(code=HERE, root=root)
    if against is None:
        yield [here]
        return
    commit = _git(root, "rev-parse", "--short", "--verify", f"{against}^{{commit}}")
    folder = work / "code" / commit
    if folder.exists():  # a run before was stopped
        _git(root, "worktree", "remove", "--force", str(folder))
    _git(root, "worktree", "add", "--detach", str(folder), commit)
    try:
        yield [here, Side(code=commit, root=folder)]
    finally:
        _git(root, "worktree", "remove", "--force", str(folder))


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"git {words[0]} failed", cause=done.stderr.strip(), hint="--against takes a commit")
    return done.stdout.strip()
