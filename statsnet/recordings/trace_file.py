"""JSON files that recorders wrote, plain or packed with gzip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from statsnet.errors import FileFormatError
from statsnet.signatures.gzipped import read_unpacked


def load_json(path: Path, *, what: str) -> Any:
    """The content of a `.json` or `.json.gz` file. Raises FileFormatError, which says that it is not `what`."""
    data = read_unpacked(path)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"'{path}' is not {what}",
            cause=f"it is no JSON: {str(error)[:120]}" if data.strip() else "it is empty",
            hint="record it anew; a file that ends early was copied before the recorder closed it",
        ) from error
