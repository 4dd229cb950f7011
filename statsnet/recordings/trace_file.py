"""JSON files that recorders wrote, plain or packed with gzip."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from statsnet.errors import FileFormatError


def load_json(path: Path, *, what: str) -> Any:
    """The content of a `.json` or `.json.gz` file. Raises FileFormatError, which says that it is not `what`."""
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise FileFormatError(
            f"'{path}' cannot be read",
            cause=getattr(error, "strerror", None) or str(error),
            hint="check the path; copy or record the file anew if it is cut",
        ) from error
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"'{path}' is not {what}",
            cause=f"it is no JSON: {str(error)[:120]}" if data.strip() else "it is empty",
            hint="record it anew; a file that ends early was copied before the recorder closed it",
        ) from error
