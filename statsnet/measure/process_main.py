"""The program that a measuring process runs: `python -m statsnet.measure.process_main FOLDER EVENTS_FD`.

FOLDER holds task.json; result.json or error.json is written next to it. The task's module is imported by its name, so
that this module stays below the stages whose tasks it runs.
"""

from __future__ import annotations

import atexit
import faulthandler
import json
import multiprocessing
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from statsnet.errors import StatsNetError
from statsnet.measure.end_with_parent import end_with_parent
from statsnet.measure.patience import PATIENCE
from statsnet.measure.task import Context, Event, decode_task, encode_error, to_json
from statsnet.workloads import settings

EXIT_S = 5.0
"""Exit functions of libraries take less than a second."""


def main(folder: Path, events_fd: int) -> int:
    end_with_parent()
    del sys.argv[1:]  # a user's script may read its command line, and has none here
    faulthandler.enable(2, all_threads=False)  # so that a crash says where it was
    message = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    try:
        result = _run(message, events_fd)
        _write(folder / "result.json", to_json(result))
    except StatsNetError as error:
        _write(folder / "error.json", json.dumps(encode_error(error)))
        return error.exit_code
    return 0


def _run(message: dict[str, Any], events_fd: int) -> Any:
    task = decode_task(message["task"])
    setting = msgspec.convert(message["setting"], settings.Setting)
    settings.apply(setting)

    def say(event: Event) -> None:
        os.write(events_fd, msgspec.json.encode(event) + b"\n")

    PATIENCE.begun_s, PATIENCE.spent_s = message["patience"]
    PATIENCE.tell = lambda spent_s: say(Event(waited_s=spent_s))
    PATIENCE.tell_measured = lambda at_best: say(Event(at_best=at_best))
    return task.run(Context(setting=setting, say=say, turns=_turns() if message["takes_turns"] else None))


def _turns() -> Iterator[str]:
    """A turn for each line, which holds what the command's processes have spent of its patience by now."""
    for line in sys.stdin:
        PATIENCE.spent_s = float(line)
        yield line


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def end_process(work: Callable[[], int]) -> NoReturn:
    """Exit with the code of some work. Python would wait for threads that a user's model has left, forever if they run
    forever."""
    code = 1
    try:
        code = work()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if isinstance(stop.code, str):
            traceback.print_exc()
    except BaseException:
        traceback.print_exc()
    own = threading.current_thread()
    if any(not thread.daemon for thread in threading.enumerate() if thread is not own):
        exit_at_once(code)
    _limit_the_end(code)
    sys.exit(code)


def exit_at_once(code: int) -> NoReturn:
    """Without taking torch down, which takes long, and without the threads that a library or a model has left."""
    _limit_the_end(code)
    try:
        atexit._run_exitfuncs()
    finally:
        _leave(code)


def _limit_the_end(code: int) -> None:
    """End other processes that a model started, for which multiprocessing would wait; and leave after EXIT_S, even if
    an exit function of the model's has not ended then."""
    for child in multiprocessing.active_children():
        child.terminate()
    limit = threading.Timer(EXIT_S, _leave, (code,))
    limit.daemon = True
    limit.start()


def _leave(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    end_process(lambda: main(Path(sys.argv[1]), int(sys.argv[2])))
