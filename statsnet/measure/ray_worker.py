"""What a Ray worker does for StatsNet: one errand, from bytes to bytes.

The worker itself measures nothing: an errand's processes are started by it as by a command of this machine, and hold
the lock of their device. Nothing here needs ray.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from pathlib import Path
from typing import Any

import msgspec

from statsnet.errors import StatsNetError
from statsnet.measure import sandbox
from statsnet.measure.device_lock import LOCKS
from statsnet.measure.errand import Errand, decode_errand
from statsnet.measure.patience import PATIENCE
from statsnet.measure.task import decode_error, encode_error, encoded, to_json

OF_RAY = ("OMP_NUM_THREADS",)
"""Variables that Ray sets in a worker while it runs a task. A measurement would have other threads than one that the
node makes by itself."""

OTHER_FORM = (msgspec.MsgspecError, zlib.error, KeyError)
"""What reading an answer raises if another version of StatsNet wrote it."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What an errand came to, what it said to the user, and how quiet the machine was."""

    result: Any = None
    error: dict[str, str] | None = None
    notes: tuple[str, ...] = ()
    waited_s: float = 0.0
    measured: int = 0
    disturbed: int = 0

    def value(self, errand: Errand[Any]) -> Any:
        """The errand's result. Raises its StatsNetError, or OTHER_FORM."""
        if self.error is not None:
            raise decode_error(self.error)
        return msgspec.convert(self.result, errand.result_type)


def packed(errand: Errand[Any]) -> bytes:
    """A message: the errand, and whether its processes run in a sandbox, as they would here."""
    return _to_bytes({"errand": encoded(errand), "sandbox": sandbox.is_on()})


def unpacked(answer: bytes) -> Answer:
    """Raises OTHER_FORM."""
    return msgspec.json.decode(zlib.decompress(answer), type=Answer)


def run_errand(message: bytes) -> bytes:
    """Run the errand in a message on this node, and return its Answer. Compressed, both are small enough to travel
    without Ray's object store."""
    _be_as_the_node()
    notes: list[str] = []
    PATIENCE.restart()
    LOCKS.tell, tell = notes.append, LOCKS.tell
    try:
        data = msgspec.json.decode(zlib.decompress(message))
        with LOCKS.command(), sandbox.sandboxed(data["sandbox"]):
            result = decode_errand(data["errand"]).run()
        answer: dict[str, Any] = {"result": msgspec.to_builtins(result)}
    except StatsNetError as error:
        answer = {"error": encode_error(error)}
    finally:
        LOCKS.tell = tell
    quiet = {"waited_s": PATIENCE.spent_s, "measured": PATIENCE.measured, "disturbed": PATIENCE.disturbed}
    return _to_bytes({**answer, "notes": notes, **quiet})


def _to_bytes(value: Any) -> bytes:
    return zlib.compress(to_json(value).encode())


def _be_as_the_node() -> None:
    """Take back what Ray changed for this worker: variables, and the low priority, below that of the node's own
    program, that it gives to workers."""
    begun_with = Path("/proc/self/environ").read_bytes().split(b"\0") if Path("/proc/self/environ").exists() else []
    for name in OF_RAY:
        if not any(each.startswith(f"{name}=".encode()) for each in begun_with):
            os.environ.pop(name, None)
    with contextlib.suppress(OSError):  # only the system's administrator may raise it
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, os.getppid()))


def answer() -> bool:
    """Asked of a node to see whether it is there."""
    return True
