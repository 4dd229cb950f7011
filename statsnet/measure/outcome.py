"""How a measuring process ended: its result, its own error, or what the system says of its end."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from statsnet.errors import MeasurementError, ProcessError
from statsnet.measure.forked_process import ENDED_WITH_SERVER
from statsnet.measure.task import decode_error

_TAIL_LINES = 8
_CRASH = "Fatal Python error"

_HINTS: dict[int, str] = {
    -signal.SIGKILL: "free memory, or use a smaller preset or batch",
    -signal.SIGILL: "the processor names instructions that it cannot run, as virtual machines do with AMX: "
    "set ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16, or a lower one",
    ENDED_WITH_SERVER: "free memory, and measure again",
}
"""By exit code: ends that come from the machine's limits, not from what was measured."""

_ENDED_IT = "run what was measured by itself in Python to see what ends it"


def too_slow(timeout_s: float | None, what: str = "did not end within") -> MeasurementError:
    return MeasurementError(
        f"a measuring process {what} {timeout_s:g} s",
        cause="the task is too slow for the time allowed, or it hangs",
        hint="allow more time, or use a smaller preset or batch",
    )


def read_outcome(folder: Path, exit_code: int, *, alone: bool) -> Any:
    """A task writes its result whole, as its last act. So it counts even if a library's threads, such as gloo's, abort
    the process afterwards. But if another program ran the process (not `alone`), a failure makes the result invalid:
    that program's own record may be incomplete."""
    if (folder / "error.json").exists():
        raise decode_error(json.loads((folder / "error.json").read_text(encoding="utf-8")))
    if (exit_code == 0 or alone) and (folder / "result.json").exists():
        return json.loads((folder / "result.json").read_text(encoding="utf-8"))
    kind = MeasurementError if exit_code in _HINTS else ProcessError
    raise kind(
        f"a measuring process {_how_it_ended(exit_code)}",
        cause=_tail(folder / "output"),
        hint=_HINTS.get(exit_code, "" if exit_code == 1 else _ENDED_IT),
    )


def _how_it_ended(exit_code: int) -> str:
    if exit_code == ENDED_WITH_SERVER:
        return "ended with the server that had forked it"
    if exit_code == -signal.SIGKILL:
        return "was killed (SIGKILL), as the system does when memory runs out"
    if exit_code == -signal.SIGALRM:
        return "took longer than the time that it had set itself"
    if exit_code < 0:
        return f"was ended by the signal {signal.Signals(-exit_code).name}"
    return f"failed (exit code {exit_code})"


def _tail(path: Path) -> str:
    """The last lines that the child printed. They end with its exception; if exceptions are chained, with the first.
    Of a crash, what Python says of it."""
    text = path.read_text(encoding="utf-8", errors="replace")
    text = text.partition("During handling of the above exception")[0].strip()
    if (crash := text.find(_CRASH)) >= 0:  # the innermost call comes first
        return "\n".join([line for line in text[crash:].splitlines() if line][:_TAIL_LINES])
    lines = [line for line in text.splitlines() if not line.startswith("USDT:")]  # torch's profiler's
    return "\n".join(lines[-_TAIL_LINES:]) or "it printed nothing"
