"""A proxy's folder: what must be in it, and executing its network.py if that is still the one generated."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from statsnet.errors import FileFormatError, UsageError
from statsnet.signatures.storage import load_document

_MODULE = "statsnet_proxy_network"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyFolder:
    """A folder whose spec.json is valid. `network_sha256` is of network.py as it was found."""

    path: Path
    spec: dict[str, Any]
    network_sha256: str


def open_proxy(folder: str | Path, *, trust: bool = False) -> ProxyFolder:
    """Read and check a proxy's folder; nothing in it is executed.

    The hash in fit.json finds a network.py that was changed after it was generated, by hand or on the way.
    It is no signature: who replaces network.py on purpose can replace fit.json too, so a proxy from a
    stranger is still a stranger's program. `trust` accepts a changed network.py.

    Raises UsageError if it is no proxy's folder, FileFormatError for a bad spec.json or a changed network.py.
    """
    path = Path(folder)
    for name in ("network.py", "spec.json"):
        if not (path / name).is_file():
            raise UsageError(
                f"'{folder}' is not a proxy's folder",
                cause=f"it has no {name}" if path.is_dir() else "there is no such folder",
                hint="name a folder that `statsnet synthesize` wrote",
            )
    spec = load_document(path / "spec.json", "statsnet.proxy")
    found = hashlib.sha256((path / "network.py").read_bytes()).hexdigest()
    if not trust and (path / "fit.json").is_file():
        recorded = load_document(path / "fit.json", "statsnet.fit").get("network_sha256")
        if recorded not in (None, found, f"sha256:{found}"):
            raise FileFormatError(
                f"'{path / 'network.py'}' was changed after it was generated",
                cause="its hash is not the one in fit.json",
                hint="read it, then run with --trust; or generate the proxy again",
            )
    return ProxyFolder(path=path, spec=spec, network_sha256=found)


def load_network(folder: str | Path, *, sha256: str | None = None) -> ModuleType:
    """Execute a proxy's network.py; the module has MODE, build(device) and make_step(proxy, device).

    With `sha256`, only that very text is executed. Raises FileFormatError if it is another text or no proxy.
    """
    file = Path(folder) / "network.py"
    source = file.read_bytes()
    if sha256 is not None and hashlib.sha256(source).hexdigest() != sha256:
        raise FileFormatError(f"'{file}' changed while it was about to run", hint="run it again")
    module = ModuleType(_MODULE)
    module.__file__ = str(file)
    sys.modules[_MODULE] = module  # dataclasses look their module up
    exec(compile(source, str(file), "exec"), module.__dict__)
    missing = [name for name in ("MODE", "build", "make_step") if not hasattr(module, name)]
    if missing:
        raise FileFormatError(f"'{file}' is not a proxy's network", cause=f"it does not define {missing[0]}")
    return module
