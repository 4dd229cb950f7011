"""Which kind of recording a file is, from its first characters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from statsnet.recordings.json_events import open_text
from statsnet.signatures.gzipped import reading

LOOKED_AT = 1 << 20
_EVENTS = re.compile(r'"traceEvents"\s*:')
_NODES = re.compile(r'"nodes"\s*:\s*\[')


def kind_of(path: Path) -> Literal["chrome_trace", "execution_trace", "onnx"]:
    """An ONNX model by the file's name. A file of any other kind counts as a Chrome trace, whose reader says what is
    wrong with it. Raises FileFormatError if the file cannot be read or is a damaged gzip file."""
    if path.name.endswith((".onnx", ".onnx.gz")):
        return "onnx"
    with reading(path), open_text(path) as stream:
        text = stream.read(LOOKED_AT)
    events, nodes = _EVENTS.search(text), _NODES.search(text)
    return "execution_trace" if nodes and (events is None or nodes.start() < events.start()) else "chrome_trace"
