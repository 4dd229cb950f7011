"""How one of several processes that run together ends with an error: whose fault it was, and which of them says so.

Pasted into every generated network, after environment/launch.py: it needs torch and the standard library only.
"""

import contextlib
import faulthandler
import os
import re
import signal
import socket
import time
import zlib
from datetime import timedelta
from pathlib import Path
from typing import Any

GROUP_TIMEOUT_S = 600.0
"""How long one of several processes waits for another in a collective before it gives up."""

OTHERS_S = 5.0
"""How long the process that is to blame may take to fail after one that only waited for it."""

_WAITED = re.compile(r"timed? ?out", re.IGNORECASE)

_LOST = re.compile(
    r"timed? ?out|connection (closed|reset|refused)|broken pipe|unexpectedly (closed|exited)|remote process|"
    r"ncclRemoteError|Connection was likely closed",
    re.IGNORECASE,
)
"""What a process says that waited in vain for another, or for anything else in a network."""

_GROUP = re.compile(
    r"collective|gloo|nccl|\b(TCP|File|Hash|Prefix)?Store\b|\bDist\w*Error|the client socket has|"
    r"for (recv|send) operation|closed by peer \[|caused pair closure",
    re.IGNORECASE,
)
"""That it was another process: a factory may wait for a server of its own."""


def lost_another(text: str) -> bool:
    """Whether an error's text says that a process only waited for another, or lost it."""
    return _LOST.search(text) is not None and _GROUP.search(text) is not None


def is_first_to_tell(store: Any) -> bool:
    """Whether no other process has told yet of an error; also where that cannot be known."""
    try:
        return store is None or bool(store.add(_key("told"), 1) == 1)
    except RuntimeError:
        return True


def torchruns_store() -> Any:
    """Torchrun's, by which processes hear of each other to the end. None where there is none: the first process's own
    ends with it."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    try:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        return TCPStore(*place, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=OTHERS_S))
    except (ImportError, KeyError, RuntimeError, ValueError):
        return None


def outlive_others() -> None:
    """torchrun ends all processes, by SIGTERM, as soon as it sees that one has ended. This one goes on for OTHERS_S at
    most: it may not have noticed yet that it lost another, and be the one to tell."""
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(int(OTHERS_S)))


def _key(what: str) -> str:
    return f"statsnet_{what}_{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}"


def to_say(error: Exception, places: list[tuple[int, int]], limit_s: float = GROUP_TIMEOUT_S) -> str | None:
    """What one of several processes says before it ends with an error: whose fault it was. None if another has said it.
    torchrun ends the others then. `places` are those of `Ranks`, empty if not known; in a collective a process waits
    for `limit_s`."""
    rank, count, store = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), torchruns_store()
    is_victim = lost_another(str(error))
    if is_victim:
        _tell(store, rank)
    if not is_first_to_tell(store):
        if is_victim:
            time.sleep(OTHERS_S + _patience_s(limit_s))  # or the one that tells would take this one for the killed one
        return None
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun's, until this one has told
    signal.alarm(0)
    if not is_victim:
        return f"rank {rank} of {count}: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    if ended := " and ".join(map(str, _ended(places))):
        return f"rank {ended} of {count} was killed, as the system does when memory runs out, or it crashed"
    did = f"waited {limit_s:g} s for" if _WAITED.search(str(error)) else "lost the connection to"
    silent = _silent(store, count, _patience_s(limit_s))
    if not silent:
        return f"rank {rank} of {count} {did} another one, which has ended or hangs"
    here = [process for r in silent for machine, process in places[r : r + 1] if machine == this_machine()]
    _have_stacks_shown(here)
    who, state = " and ".join(map(str, silent)), "hangs" if len(here) == len(silent) else "has ended or hangs"
    hint = "its stack, if it still answers, stands above" if here else "look at its machine"
    return f"rank {who} of {count} {state}: rank {rank} {did} it; {hint}; --group-timeout allows more time"


def _tell(store: Any, rank: int) -> None:
    """That this process waited in vain, too."""
    with contextlib.suppress(AttributeError, RuntimeError):
        store.set(_key(f"waited_{rank}"), "")


def _silent(store: Any, count: int, patience_s: float) -> list[int]:
    """Ranks that do not tell that they waited in vain, too, as those do that wait for the same one."""
    left, until_s = [*range(count)], time.monotonic() + patience_s
    with contextlib.suppress(AttributeError, RuntimeError):
        while (left := [r for r in left if not store.check([_key(f"waited_{r}")])]) and time.monotonic() < until_s:
            time.sleep(0.1)
        return left
    return []


def _patience_s(limit_s: float) -> float:
    """How much later others may give up, which began to wait later."""
    return min(30.0, max(1.0, limit_s / 20))


def show_stack_when_asked() -> None:
    """Where the system can: a signal has this process print what it does, also while it hangs in a library."""
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1)


def _have_stacks_shown(processes: list[int]) -> None:
    for process in processes:
        with contextlib.suppress(AttributeError, OSError):  # it may have ended
            os.kill(process, signal.SIGUSR1)
    time.sleep(0.5)


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
