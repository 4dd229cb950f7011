"""Audits what lies on disk: a file, a proxy's folder, or any folder of files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from statsnet.analysis.audit import (
    Arguments,
    AuditedFile,
    audited,
    audited_key,
    problems_of_signature,
    problems_of_texts,
)
from statsnet.display import told_path
from statsnet.errors import FileFormatError, OtherFileError, UsageError
from statsnet.signatures import member_key, packed
from statsnet.signatures.canonical import read_json
from statsnet.signatures.gzipped import read_unpacked
from statsnet.signatures.kinds import FILES, KINDS, MAX_BYTES, SEARCH_FILES
from statsnet.signatures.model import KIND
from statsnet.signatures.storage import load_document, load_fit, load_signature, load_spec
from statsnet.signatures.strict_json import parse_json

_HINT = "name a signature, a result or a proxy's folder; `statsnet import` makes a signature of a recording"


def audit_path(path: Path) -> list[AuditedFile]:
    """Audit a file, or all JSON files of a folder, packed ones too, and the keys there. In a folder, a file that can
    not be checked is named as a problem, and the others are audited all the same.

    Raises UsageError for a folder that holds no file of StatsNet, FileFormatError for a file that cannot be read or is
    none of ours.
    """
    if not path.is_dir():
        return [audit_file(path, told_path(path))]
    if (path / "spec.json").is_file():
        return _audit_proxy(path)
    files = [_audited_or_why_not(p, str(p.relative_to(path))) for p in sorted(_files(path))]
    if not any(file.rows for file in files):
        found = "; ".join(problem for file in files[:2] for problem in file.problems)
        raise UsageError(f"'{path}' holds no files of StatsNet", cause=found, hint=_HINT)
    return files


def _files(folder: Path) -> set[Path]:
    """JSON files below a folder, packed ones and keys; an archive that is none of ours stands for itself."""
    endings = (".json", ".json.gz", member_key.ENDING)
    found = {p for ending in endings for p in folder.rglob(f"*{ending}") if p.is_file()}
    for archive in folder.rglob(f"*{packed.ENDING}"):
        try:
            found.update(p for p in packed.files(archive) if p.name.endswith(endings))
        except FileFormatError:
            found.add(archive)
    return found


def audit_file(path: Path, name: str) -> AuditedFile:
    """Audit one file, which reports call `name`. Raises FileFormatError if it is damaged or none of ours."""
    if path.name.endswith(member_key.ENDING):
        return audited_key(name)
    data = _unpacked(path) if path.suffix == ".gz" else read_json(path, max_bytes=MAX_BYTES)
    kind = str(data.get("kind"))
    if kind == KIND:
        signature = load_signature(path)
        return audited(name, data, problems_of_signature(signature, _coarse_arguments()))
    if kind in KINDS:
        load_document(path, kind)
    elif not kind.startswith("statsnet."):
        raise OtherFileError(f"'{path}' is no file of StatsNet", hint=_HINT)
    return audited(name, data, problems_of_texts(data))


def _unpacked(path: Path) -> dict[str, Any]:
    """The object in a packed JSON file, as devices are. Raises FileFormatError."""
    try:
        return parse_json(read_unpacked(path, most=MAX_BYTES).decode("utf-8"), path)
    except UnicodeDecodeError as error:
        raise FileFormatError(f"'{path}' is not a text file", cause=str(error)) from error


def _audited_or_why_not(path: Path, name: str) -> AuditedFile:
    try:
        return audit_file(path, name)
    except FileFormatError as error:
        is_other = isinstance(error, OtherFileError)
        why = "it is no file of StatsNet" if is_other else ": ".join(filter(None, (error.message, error.cause)))
        return AuditedFile(name=name, kind="unknown", level=None, rows=(), problems=(why,))


def _coarse_arguments() -> Arguments | None:
    """How arguments ought to look, which torch's schemas tell; None without torch."""
    try:
        from statsnet.profiling.coarse_scalars import coarse_arguments
    except ImportError:
        return None
    return coarse_arguments


def _audit_proxy(folder: Path) -> list[AuditedFile]:
    """The spec and what else is in the folder: every other file must follow from it."""
    names = ("spec.json", "fit.json", SEARCH_FILES[0])
    files = [audit_file(folder / name, name) for name in names if (folder / name).is_file()]
    strangers = [
        f"'{p.name}' is no file of a proxy" for p in sorted(folder.iterdir()) if p.name not in (*FILES, *SEARCH_FILES)
    ]
    spec = files[0]
    return [replace(spec, problems=(*spec.problems, *strangers, *_changed(folder))), *files[1:]]


def _changed(folder: Path) -> list[str]:
    """What spec.json and fit.json tell that they should not, and files that are not what they make."""
    if not (folder / "fit.json").is_file():
        return []
    from statsnet.proxy.private_fit import fingerprints_in  # both with torch
    from statsnet.proxy.spec import texts_of

    try:
        spec, fit = load_spec(folder / "spec.json"), load_fit(folder / "fit.json")
        texts = texts_of(spec, fit)
    except FileFormatError as error:
        return [str(error.message)]
    found = {name: folder / name for name in texts if (folder / name).is_file()}
    return fingerprints_in(spec, fit) + [
        f"'{name}' is not what spec.json and fit.json make"
        for name, file in found.items()
        if file.stat().st_size != len(text := texts[name].encode()) or file.read_bytes() != text
    ]
