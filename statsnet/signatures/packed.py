"""A folder of files may be packed: `FOLDER.zip` stands for `FOLDER/`.

Every reader opens a packed file by the path it has in its folder: `cv/resnet50.inference.json` is read from `cv.zip`.
A file that lies there unpacked is read instead of a packed one.
"""

from __future__ import annotations

import contextlib
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from statsnet.errors import FileFormatError, printable
from statsnet.signatures.gzipped import check_ends

ENDING = ".zip"
MAX_ARCHIVE_BYTES = 16 * 1024**2
"""Its list of files is read into memory, so it has a limit. Packed profiles of a domain take less than 1 MB."""

MAX_FILES = 2000
"""Whoever reads all files reads that list for each of them."""

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Other methods are refused: Python unpacks them without a limit on what comes out."""

_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError)
_EARLIEST = (1980, 1, 1, 0, 0, 0)


def read(path: Path, size: int) -> bytes:
    """At most `size` bytes of a file, unpacked.

    Raises OSError as `open` does and for a pipe or a device, FileFormatError for an archive that cannot be read.
    """
    try:
        check_ends(path)
        with open(path, "rb") as file:
            return file.read(size)
    except FileNotFoundError:
        archive = _archive_of(path)
        if archive is None:
            raise
    with _opened(archive) as zipped:
        info = _contents(archive, zipped).get(path.name)
        if info is not None:
            with zipped.open(info) as packed:
                return packed.read(size)
    raise FileNotFoundError(path)


def is_file(path: Path) -> bool:
    """Whether a file is there, packed or not."""
    archive = _archive_of(path)
    return path.is_file() or (archive is not None and path in files(archive))


def files(archive: Path) -> list[Path]:
    """The files in an archive, by their paths in the folder that it stands for.

    Raises FileFormatError for an archive that cannot be read or holds folders.
    """
    with _opened(archive) as zipped:
        return [archive.with_suffix("") / name for name in _contents(archive, zipped)]


def archive_for(folder: Path) -> Path:
    """The archive that stands for a folder, which need not exist."""
    return folder.with_name(folder.name + ENDING)


def archive_named(path: Path) -> Path | None:
    """The archive that a path names, itself or by the folder that it stands for; None for any other path."""
    if path.exists() and path.suffix != ENDING:
        return None
    archive = path if path.suffix == ENDING else archive_for(path)
    return archive if archive.is_file() else None


def archive_bytes(contents: Mapping[str, bytes]) -> bytes:
    """An archive of files by name. The same files give the same bytes, whatever their order and dates are."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as zipped:
        for name, content in sorted(contents.items()):
            info = zipfile.ZipInfo(name, date_time=_EARLIEST)
            info.create_system, info.external_attr = 3, 0o644 << 16  # as on Linux, whatever this system is
            zipped.writestr(info, content, compress_type=zipfile.ZIP_DEFLATED, compresslevel=9)
    return target.getvalue()


def _archive_of(path: Path) -> Path | None:
    """The archive that stands for the folder of a file, if there is one."""
    archive = archive_for(path.parent) if path.parent.name else None
    return archive if archive is not None and archive.is_file() else None


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[zipfile.ZipFile]:
    try:
        check_ends(archive)
        if archive.stat().st_size > MAX_ARCHIVE_BYTES:
            raise FileFormatError(
                f"'{archive}' is too large", cause=f"more than {MAX_ARCHIVE_BYTES} bytes, the limit for a packed folder"
            )
        with zipfile.ZipFile(archive) as zipped:
            yield zipped
    except OSError as error:
        raise FileFormatError(f"'{archive}' cannot be read", cause=str(error), hint="check its permissions") from error
    except _DAMAGED as error:
        raise _not_packed(archive, f"it is no zip file, or damaged: {error}") from error


def _contents(archive: Path, zipped: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """What it holds, by name."""
    contents: dict[str, zipfile.ZipInfo] = {}
    if len(zipped.infolist()) > MAX_FILES:
        raise _not_packed(archive, f"it holds more than {MAX_FILES} files")
    for info in zipped.infolist():
        name = info.filename
        if not name.isprintable() or name in ("", ".", "..") or "/" in name or "\\" in name:
            raise _not_packed(archive, f"it holds a folder, or a file without a proper name: '{name[:60]}'")
        if name in contents:
            raise _not_packed(archive, f"it holds '{name[:60]}' twice")
        if info.compress_type not in _METHODS:
            raise _not_packed(archive, f"'{name[:60]}' is neither stored nor deflated")
        contents[name] = info
    return contents


def _not_packed(archive: Path, cause: str) -> FileFormatError:
    return FileFormatError(
        f"'{archive}' is not a packed folder of StatsNet",
        cause=printable(cause),
        hint="take it again from where it came, or move it out of the folder of profiles",
    )
