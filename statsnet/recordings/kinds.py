"""Which kind of recording a file is, from its first characters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from statsnet.errors import FileFormatError
from statsnet.recordings.json_events import open_text
from statsnet.recordings.other_tools import LOOKED_AT, refuse_other_tool
from statsnet.signatures.gzipped import open_unpacked, reading

TAR_MAGIC = 257
"""Where a tar archive says that it is one."""

_PACKED = {
    b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz", b"BZh": "bzip2", b"7z\xbc\xaf": "7-Zip",
    b"\x04\x22\x4d\x18": "lz4",
}  # fmt: skip
"""First bytes of what other tools packed."""
_POINTER = b"version https://git-lfs"
_EVENTS = re.compile(r'"traceEvents"\s*:')
_NODES = re.compile(r'"nodes"\s*:\s*\[')


def kind_of(path: Path) -> Literal["chrome_trace", "execution_trace", "onnx"]:
    """An ONNX model by the file's name. A file of any other kind counts as a Chrome trace, whose reader says what is
    wrong with it. Raises FileFormatError if the file cannot be read, is a damaged gzip file, must be unpacked or is of
    another tool that is known."""
    _check_unpacked(path)
    if path.name.endswith((".onnx", ".onnx.gz")):
        return "onnx"
    refuse_other_tool(path)
    with reading(path), open_text(path) as stream:
        text = stream.read(LOOKED_AT)
    events, nodes = _EVENTS.search(text), _NODES.search(text)
    return "execution_trace" if nodes and (events is None or nodes.start() < events.start()) else "chrome_trace"


def _check_unpacked(path: Path) -> None:
    with reading(path), open_unpacked(path) as stream:
        begin = stream.read(TAR_MAGIC + 5)
    packed = next((kind for magic, kind in _PACKED.items() if begin.startswith(magic)), None)
    if begin[TAR_MAGIC:] == b"ustar":
        packed = "tar"
    if packed is not None:
        raise FileFormatError(
            f"'{path}' is packed with {packed}",
            cause="recordings are read unpacked, or packed with gzip alone",
            hint="unpack it, and give the recording in it",
        )
    if begin.startswith(_POINTER):
        raise FileFormatError(
            f"'{path}' is a pointer to a file, not the file", cause="Git LFS keeps the content elsewhere",
            hint="git lfs pull",
        )  # fmt: skip
