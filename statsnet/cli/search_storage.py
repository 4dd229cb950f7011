"""`--storage` and `--study` of `synthesize`: where a search keeps what it tried, and what it leaves in the folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from statsnet.errors import StatsNetError, UsageError

if TYPE_CHECKING:
    from statsnet.synthesis.search.study_storage import StudyStorage

LONGEST_NAME = 100


def check_options(storage: str | None, study: str | None, *, searching: bool) -> None:
    """Raises UsageError for options that do not go together, and for what is no name of a study."""
    if storage is not None and not searching:
        raise UsageError("--storage keeps a search", hint="say how far it goes: --trials, --time-limit or both")
    if study is None:
        return
    if storage is None:
        raise UsageError("--study names a search in a storage", hint="say which: --storage URL")
    if not (study.strip() and study.isprintable() and len(study) <= LONGEST_NAME):
        raise UsageError("this is no name of a study", hint=f"--study takes 1 to {LONGEST_NAME} printable characters")


def checked(storage: str | None, folder: Path, *, resume: bool) -> StudyStorage:
    """Where a search for this folder keeps what it tries. Raises StatsNetError if a library is missing, or if the
    storage can not be used."""
    from statsnet.synthesis.search.study_storage import OwnJournal, study_storage

    if find_spec("matplotlib") is None:
        raise StatsNetError(
            "a search draws its designs, and matplotlib is not installed",
            hint="pip install 'statsnet[pictures]'",
        )
    journal = folder.with_name(f"{folder.name}.journal")
    kept = OwnJournal(path=journal, resume=resume) if storage is None else study_storage(storage)
    kept.check()
    return kept


@contextlib.contextmanager
def resumable(kept: StudyStorage) -> Iterator[None]:
    """Says after Ctrl-C how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        if kept.shared or Path(kept.shown).exists():
            how = "the same command" if kept.shared else "--resume"
            click.echo(f"statsnet: what was tried so far is in '{kept.shown}': {how} goes on with it", err=True)
        raise


def files(record: dict[str, Any]) -> dict[str, str]:
    """The texts of search.json and front.svg."""
    from statsnet.reporting.front import SearchRecord, front_svg
    from statsnet.signatures.canonical import canonical_json

    return {"search.json": canonical_json(record), "front.svg": front_svg(SearchRecord.of(record))}
