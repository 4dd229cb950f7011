"""A finished proxy as its folder holds it. Reading it runs nothing, and needs no torch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from statsnet.display import Displayed
from statsnet.errors import FileFormatError, UsageError
from statsnet.signatures.documents import Fit, ProxySpec
from statsnet.signatures.storage import load_fit, load_spec


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SavedProxy(Displayed):
    """A proxy's folder, its network and mix (`spec`), and how well it fits (None where there is no fit.json)."""

    path: Path
    spec: ProxySpec
    fit: Fit | None


def load_proxy(folder: str | os.PathLike[str]) -> SavedProxy:
    """Raises UsageError for a folder that is no proxy's, FileFormatError for a file in it that is damaged or another
    proxy's."""
    path = Path(folder)
    check_is_proxy(folder, "spec.json")
    spec = load_spec(path / "spec.json")
    return SavedProxy(path=path, spec=spec, fit=fit_beside(path, spec))


def check_is_proxy(folder: str | os.PathLike[str], *files: str) -> None:
    """Raises UsageError for a folder that lacks one of these files; by default, of those that it takes to run it."""
    path = Path(folder)
    for name in files or ("network.py", "spec.json"):
        if not (path / name).is_file():
            there = f"it has no {name}" if path.is_dir() else "it is a file" if path.exists() else None
            raise UsageError(
                f"'{folder}' is not a proxy's folder",
                cause=there or "there is no such folder",
                hint="name a folder that `statsnet synthesize` wrote",
            )


def fit_beside(folder: Path, spec: ProxySpec) -> Fit | None:
    """The fit in a proxy's folder; None where there is no fit.json. Raises FileFormatError for a bad one, or for one of
    another proxy."""
    file = folder / "fit.json"
    if not file.is_file():
        return None
    fit = load_fit(file)
    if fit.spec != spec.id:
        raise FileFormatError(
            f"'{file}' is the fit of another proxy",
            cause="it names another id than spec.json has",
            hint="take the whole folder again from where it came",
        )
    return fit
