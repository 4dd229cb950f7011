"""How one of several processes that run together ends with an error: whose fault it was, and which of them says so.

Pasted into every generated network, after environment/launch.py: it needs torch and the standard library only.
"""

import os
import re
import signal
import socket
import time
import zlib
from datetime import timedelta
from pathlib import Path

OTHERS_S = 5.0
"""How long the process that is to blame may take to fail after one that only waited for it."""

_LOST = re.compile(
    r"timed? ?out|connection (closed|reset|refused)|broken pipe|unexpectedly (closed|exited)|remote process|"
    r"ncclRemoteError|Connection was likely closed",
    re.IGNORECASE,
)
"""What a process says that waited in vain for another, or for anything else in a network."""

_GROUP = re.compile(
    r"collective|gloo|nccl|\b(TCP|File|Hash|Prefix)?Store\b|\bDist\w*Error|the client socket has|"
    r"for (recv|send) operation|closed by peer \[",
    re.IGNORECASE,
)
"""That it was another process: a factory may wait for a server of its own."""


def lost_another(text: str) -> bool:
    """Whether an error's text says that a process only waited for another, or lost it."""
    return _LOST.search(text) is not None and _GROUP.search(text) is not None


def first_to_tell() -> bool:
    """Whether no other process has told yet of an error; also where that cannot be known."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return True  # the first process has the store, and may have ended
    try:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        limit = timedelta(seconds=OTHERS_S)
        store = TCPStore(*place, is_master=False, wait_for_workers=False, timeout=limit)
        return bool(store.add(f"statsnet_told_{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", 1) == 1)
    except (ImportError, KeyError, RuntimeError, ValueError):
        return True


def outlive_others() -> None:
    """torchrun ends all processes, by SIGTERM, as soon as it sees that one has ended. This one goes on for OTHERS_S at
    most: it may not have noticed yet that it lost another, and be the one to tell."""
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(int(OTHERS_S)))


def to_say(error: Exception, places: list[tuple[int, int]]) -> str | None:
    """What one of several processes says before it ends with an error: whose fault it was. None if another has said it.
    torchrun ends the others then. `places` are those of `Ranks`, empty if not known."""
    rank, count = os.environ["RANK"], os.environ["WORLD_SIZE"]
    is_victim = lost_another(str(error))
    if not first_to_tell():
        if is_victim:
            time.sleep(OTHERS_S)  # or the one that tells would take this one for the one that was killed
        return None
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun's, until this one has told
    signal.alarm(0)
    if not is_victim:
        return f"rank {rank} of {count}: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    if ended := " and ".join(map(str, _ended(places))):
        return f"rank {ended} of {count} was killed, as the system does when memory runs out, or it crashed"
    return f"rank {rank} of {count} lost the connection to another one, which has ended or hangs"


def _ended(places: list[tuple[int, int]]) -> list[int]:
    """Ranks of this machine whose process has ended. A process that is ending has closed its connections already."""
    here, limit_s = this_machine(), time.monotonic() + 1.0
    while True:
        ended = [r for r, (machine, process) in enumerate(places) if machine == here and not _runs(process)]
        if ended or not places or time.monotonic() > limit_s:
            return ended
        time.sleep(0.02)


def _runs(process: int) -> bool:
    """Also true where the system does not tell."""
    try:
        known = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return not Path("/proc/self/stat").exists()
    return re.search(r"\) [ZX] ", known) is None


def this_machine() -> int:
    """A number that stands for its name."""
    return zlib.crc32(socket.gethostname().encode())
