"""A Ray cluster of two nodes on this machine, which knows this checkout and the tests' tasks."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
STORE_BYTES = 80 * 1024**2
"""The least that Ray takes for its object store."""


@dataclass
class TwoNodes:
    """The driver is at the first node. `locks` is the folder of the device locks."""

    cluster: Any
    second: Any
    locks: Path

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def end(self, node: Any) -> None:
        """As if its power was cut."""
        self.cluster.remove_node(node, allow_graceful=False)
        if node is self.second:
            self.second = None

    def both(self) -> TwoNodes:
        """With the second node, which the first test that needs it starts, and another may have ended."""
        if self.second is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.second = self.cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
        return self


@contextlib.contextmanager
def two_nodes() -> Iterator[TwoNodes]:
    from ray._private import services
    from ray.cluster_utils import Cluster

    folder = Path(tempfile.mkdtemp(prefix="sr-", dir="/tmp"))  # short: sockets' paths have at most 107 letters
    (folder / "locks").mkdir()
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    with pytest.MonkeyPatch.context() as changed, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        changed.setenv("PYTHONPATH", paths)
        changed.setenv("RAY_USAGE_STATS_ENABLED", "0")
        changed.setenv("RAY_TMPDIR", str(folder))  # else it writes its address into /tmp/ray, which may not be there
        changed.setenv("STATSNET_DEVICE_LOCK", str(folder / "locks"))
        changed.setenv("STATSNET_CACHE", str(folder / "cache"))
        changed.setattr(services, "start_api_server", lambda *_, **__: (None, None))  # nobody looks at a dashboard
        head = {
            "num_cpus": 1,
            "include_dashboard": False,
            "no_monitor": True,
            "include_log_monitor": False,
            "object_store_memory": STORE_BYTES,
            "temp_dir": str(folder / "ray"),
        }
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            nodes = TwoNodes(cluster=cluster, second=None, locks=folder / "locks")
            yield nodes
        finally:
            cluster.shutdown()
            shutil.rmtree(folder, ignore_errors=True)
