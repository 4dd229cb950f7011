"""Errors of processes that run a step together: whose fault they are, in plain words, told by one of them."""

from __future__ import annotations

import os
import re
import time

from statsnet.environment.launch import launched_together
from statsnet.errors import StatsNetError
from statsnet.measure.rank_ends import OTHERS_S, is_first_to_tell, lost_another, torchruns_store

SAME = "have all processes call the same collectives in the same order, or allow more with --group-timeout"

_WAITED = re.compile(r"timed? ?out", re.IGNORECASE)

_OTHER_SIZE = re.compile(r"preamble\.length <= op\.nbytes\. (\d+) vs (\d+)")
"""Gloo's own words for a message that does not fit."""

_CALLBACK = re.compile(r"(\w*Error: )?Got the following error when running the callback: ")
"""Torch's, once for each future on which another one waited."""

_PLACE = re.compile(r" \([^()]+, line \d+\)$")


def says(error: Exception, what: re.Pattern[str]) -> bool:
    return isinstance(error, StatsNetError) and what.search(f"{error.message} {error.cause}") is not None


def is_victim(error: Exception) -> bool:
    """Whether a process only waited for another, or lost it."""
    return isinstance(error, StatsNetError) and lost_another(f"{error.message} {error.cause}")


def has_waited(error: Exception) -> bool:
    """Whether it waited until its time was over."""
    return is_victim(error) and says(error, _WAITED)


def without_callbacks(cause: str) -> str:
    """What a communication hook's error says, without the futures that it has passed."""
    return _CALLBACK.sub("", cause)


def in_plain_words(error: StatsNetError) -> StatsNetError:
    """The same error without the words of the library that moves the data, where it is one of a collective; with the
    place in the user's file."""
    place = _PLACE.search(error.cause)
    where = place[0] if place else ""
    if (other := _OTHER_SIZE.search(error.cause)) is not None:
        sizes = f"of {other[1]} bytes where it expects {other[2]}"
        cause = f"in a collective it received a message {sizes}: the processes' collectives are not the same"
    elif has_waited(error):
        cause = f"it waited in vain for another in a collective{where}: they call different ones, or one of them hangs"
    elif is_victim(error):
        cause = f"it lost the connection to another process in a collective{where}: that one has ended"
        return type(error)(error.message, cause=cause, hint="look at what that process has said")
    else:
        return error
    return type(error)(error.message, cause=cause, hint=SAME)


def to_tell(error: StatsNetError) -> StatsNetError | None:
    """What this process is to say of its error: None if it is one of several that torchrun started, and another has
    told. One that only waited for another lets that one speak first: torchrun ends it then."""
    if not launched_together():
        return error
    if is_victim(error):
        time.sleep(OTHERS_S)
    return (
        named(in_plain_words(error), os.environ.get("RANK", "?"), os.environ.get("WORLD_SIZE", "?"))
        if is_first_to_tell(torchruns_store())
        else None
    )


def named(error: StatsNetError, rank: int | str, processes: int | str) -> StatsNetError:
    """The error with the process that it is of, if it does not name that yet."""
    if re.match(r"rank \d+ of \d+: ", error.message):
        return error
    return type(error)(f"rank {rank} of {processes}: {error.message}", cause=error.cause, hint=error.hint)
