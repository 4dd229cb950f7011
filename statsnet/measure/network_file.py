"""A network's source: executed from a proxy's folder, or written into a temporary one."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from statsnet.environment.temporary import temporary_folder
from statsnet.errors import FileFormatError, first_line
from statsnet.signatures.canonical import cannot_write

_MODULE = "statsnet_proxy_network"


def load_network(folder: str | Path, *, sha256: str | None = None) -> ModuleType:
    """Execute a proxy's network.py; the module has MODE, build(device) and make_step(proxy, device).

    With `sha256`, only that very text is executed. Raises FileFormatError if it is another, fails or is no proxy.
    """
    file = Path(folder) / "network.py"
    source = file.read_bytes()
    if sha256 is not None and hashlib.sha256(source).hexdigest() != sha256:
        raise FileFormatError("network.py changed while it was about to run", hint="run it again")
    module = ModuleType(_MODULE)
    module.__file__ = str(file)
    sys.modules[_MODULE] = module  # dataclasses look their module up
    try:
        exec(compile(source, str(file), "exec"), module.__dict__)
    except Exception as error:
        cause = f"line {_line(error, str(file))}: {type(error).__name__}: {first_line(error)}"
        raise FileFormatError("network.py cannot be run", cause=cause) from error
    missing = [name for name in ("MODE", "build", "make_step") if not hasattr(module, name)]
    if missing:
        raise FileFormatError("network.py is not a proxy's network", cause=f"it does not define {missing[0]}")
    return module


def _line(error: Exception, file: str) -> int | None:
    """Where in the file it happened: the innermost line that was being executed, or the one that cannot be read."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return lines[-1] if lines else 1


def digest(source: str) -> str:
    """A name for a network by its source, as `Fit.network_sha256` holds it."""
    return hashlib.sha256(source.encode()).hexdigest()


@contextlib.contextmanager
def written(source: str) -> Iterator[str]:
    """A temporary folder with this network. Raises StatsNetError if it cannot be written."""
    with temporary_folder() as folder:
        try:
            (folder / "network.py").write_text(source, encoding="utf-8")
        except OSError as error:
            raise cannot_write(folder / "network.py", error) from error
        yield str(folder)
