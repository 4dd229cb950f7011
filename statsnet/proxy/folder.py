"""A proxy's folder: what must be in it, and which network is run from it.

Whoever writes a folder writes a program. So what is executed is the network that spec.json describes, generated again
here, not the network.py of the folder; that file runs only if it is the same text, or if the user trusts it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from statsnet.errors import FileFormatError
from statsnet.measure.network_file import digest, written
from statsnet.proxy.spec import source_of
from statsnet.signatures.canonical import read_text
from statsnet.signatures.documents import Fit, ProxySpec
from statsnet.signatures.saved_proxy import check_is_proxy, fit_beside
from statsnet.signatures.storage import load_spec

MAX_NETWORK_BYTES = 16 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyFolder:
    """A folder whose spec.json is valid. `source` is the network that is run. `is_generated` says whether it is what
    spec.json describes, `note` what the user should know before it runs. `network_folder` holds network.py with that
    source; it is the proxy's own folder except within `runnable`."""

    path: Path
    spec: ProxySpec
    source: str
    is_generated: bool = True
    note: str | None = None
    network_folder: Path

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.note,) if self.note else ()

    @property
    def network_sha256(self) -> str:
        """Of the network that is run."""
        return digest(self.source)

    @property
    def subject_id(self) -> str:
        """What results of this network are results of: the spec, or a network that no spec describes."""
        return self.spec.id if self.is_generated else f"sha256:{self.network_sha256}"

    def fit(self) -> Fit | None:
        """None where there is no fit.json. Raises FileFormatError for a bad one, or for one of another proxy."""
        return fit_beside(self.path, self.spec)


def open_proxy(folder: str | Path, *, trust: bool = False) -> ProxyFolder:
    """Read and check a proxy's folder; nothing in it is executed.

    The network to be run is generated from spec.json. With `trust` it is the folder's own network.py, whatever that
    holds. Raises UsageError if it is no proxy's folder, FileFormatError for a bad spec.json or a network.py that is no
    text.
    """
    path = Path(folder)
    check_is_proxy(folder)
    spec, file = load_spec(path / "spec.json"), path / "network.py"
    found = read_text(file, MAX_NETWORK_BYTES)
    generated = _generated(spec, may_fail=trust)
    if found == generated:
        return ProxyFolder(path=path, spec=spec, source=found, network_folder=path)
    if trust:
        what = f"the proxy's {file.name} is not what spec.json describes"
        note = f"--trust: {what}; it runs as a program of whoever wrote it"
        return ProxyFolder(path=path, spec=spec, source=found, is_generated=False, note=note, network_folder=path)
    note = (
        f"the proxy's {file.name} is not what spec.json describes, so it is not run: the network is generated from "
        "spec.json. To run the file itself, which is a program of whoever wrote it, read it and give --trust"
    )
    assert generated is not None
    return ProxyFolder(path=path, spec=spec, source=generated, note=note, network_folder=path)


@contextlib.contextmanager
def runnable(proxy: ProxyFolder) -> Iterator[ProxyFolder]:
    """The proxy with its network in a temporary folder of this user: what was checked is what runs."""
    with written(proxy.source) as folder:
        yield replace(proxy, network_folder=Path(folder))


def _generated(spec: ProxySpec, *, may_fail: bool) -> str | None:
    try:
        return source_of(spec)
    except FileFormatError:
        if may_fail:
            return None
        raise
