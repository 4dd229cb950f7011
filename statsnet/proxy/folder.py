"""A proxy's folder: what must be in it, and whether its network.py is still the one that was generated."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from statsnet.errors import FileFormatError, UsageError
from statsnet.signatures.documents import Fit, ProxySpec
from statsnet.signatures.storage import load_fit, load_spec


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyFolder:
    """A folder whose spec.json is valid. `network_sha256` is of network.py as it was found."""

    path: Path
    spec: ProxySpec
    network_sha256: str

    def fit(self) -> Fit | None:
        """None where there is no fit.json. Raises FileFormatError for a bad one."""
        return load_fit(self.path / "fit.json") if (self.path / "fit.json").is_file() else None


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
    sha256 = hashlib.sha256((path / "network.py").read_bytes()).hexdigest()
    proxy = ProxyFolder(path=path, spec=load_spec(path / "spec.json"), network_sha256=sha256)
    fit = None if trust else proxy.fit()
    if fit and fit.network_sha256 not in (None, sha256, f"sha256:{sha256}"):
        raise FileFormatError(
            f"'{path / 'network.py'}' was changed after it was generated",
            cause="its hash is not the one in fit.json",
            hint="read it, then run with --trust; or generate the proxy again",
        )
    return proxy
