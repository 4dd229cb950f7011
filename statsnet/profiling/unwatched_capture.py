"""A capture that torch does not notice.

Parts of torch ask whether a dispatch mode is on, such as `CaptureMode`, and then take another way
(`areAnyTensorSubclassLike` in ATen/TensorSubclassLikeUtils.h): they write into no tensor and read no value. The
derivative of `cumprod` takes a general formula then in place of a short one, that of `matrix_exp` concatenates what it
else copies, `eigvals` computes eigenvectors too. What is captured is then not what runs. This capture sees operators
at a dispatch key that nothing else uses, for which nobody asks. It depends on more of torch's inside than a mode does,
so it is taken only where a mode's calls are not those of a profiled step.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from types import TracebackType
from typing import Any

import torch

from statsnet.errors import StatsNetError
from statsnet.profiling.capture import CaptureMode, OpCall
from statsnet.profiling.unseen import Unseen

_KEY = "Fake"
"""torch reserves this dispatch key, below autograd and above all backends, for fake tensors outside of it."""


_ASKING = frozenset({"aten._linalg_eigh.default", "aten._linalg_svd.default"})
"""A mode sees them with vectors, also where only the values were asked for."""


class UnwatchedCapture(CaptureMode):
    """Records the calls made inside the `with` block, as CaptureMode does, without being a dispatch mode."""

    _current: UnwatchedCapture | None = None

    def __enter__(self) -> UnwatchedCapture:
        stack = ExitStack()
        stack.callback(setattr, UnwatchedCapture, "_current", UnwatchedCapture._current)
        UnwatchedCapture._current = self
        stack.enter_context(torch._C._IncludeDispatchKeyGuard(_registered().key))
        self._entered.append(stack)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.pop().close()

    def _aside(self) -> AbstractContextManager[Any]:
        return torch._C._ExcludeDispatchKeyGuard(_registered().keys)  # type: ignore[no-any-return]

    @property
    def _entered(self) -> list[ExitStack]:
        return vars(self).setdefault("entered", [])  # type: ignore[no-any-return]

    @classmethod
    def see(cls, func: Any, *args: Any, **kwargs: Any) -> Any:
        """What torch calls in place of each operator."""

        def run(*args: Any, **kwargs: Any) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(_registered().keys):
                return func(*args, **kwargs)

        return run(*args, **kwargs) if cls._current is None else cls._current._record(func, args, kwargs, run)


class _Registered:
    """The fallback for all operators at the key, which stays until the process ends."""

    def __init__(self) -> None:
        self.key = torch._C._dispatch_key_parse(_KEY)
        self.keys = torch._C.DispatchKeySet(self.key)
        self.library = torch.library.Library("_", "IMPL")
        self.library.fallback(UnwatchedCapture.see, _KEY)


_registered = cache(_Registered)


def look_nearer(
    unseen: Unseen,
    calls: list[OpCall],
    capture: Callable[[type[CaptureMode]], list[OpCall]],
    look: Callable[[list[OpCall]], Unseen],
) -> tuple[Unseen, list[OpCall], type[CaptureMode]] | None:
    """What a profiled step lacks of the calls that an unwatched capture sees, these calls, and the type of capture; if
    the step lacks some of the `calls` that a mode captured, or these lack too much of the step. None if that explains
    no more of the step, or is not possible here."""
    if not is_suspect(unseen, calls):
        return None
    is_asked = is_suspect(Unseen(step_s=0.0), calls)
    try:
        calls = capture(UnwatchedCapture)
    except (StatsNetError, RuntimeError, AttributeError):  # this torch has no such key, or the model cannot run with it
        return None
    nearer = look(calls)
    return (nearer, calls, UnwatchedCapture) if is_nearer(nearer, unseen, is_asked=is_asked) else None


def is_suspect(unseen: Unseen, calls: list[OpCall]) -> bool:
    """Whether a mode may have captured these calls otherwise than they run."""
    return bool(unseen.unmatched) or unseen.is_too_much or any(call.op in _ASKING for call in calls)


def is_nearer(nearer: Unseen, unseen: Unseen, *, is_asked: bool) -> bool:
    """Whether an unwatched capture explains more of a profiled step than a mode, or as much where the mode's calls ask
    for more than the model does."""
    is_nearer = nearer.unmatched < unseen.unmatched or (unseen.is_too_much and not nearer.is_too_much)
    return is_nearer or (is_asked and nearer.unmatched == unseen.unmatched)


def is_possible() -> bool:
    """Whether this torch lets a capture go unwatched."""
    try:
        return bool(_registered())
    except (RuntimeError, AttributeError):
        return False
