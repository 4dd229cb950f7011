"""Which library implementation an operator used on a CPU, from oneDNN's and MKL's verbose output.

Both libraries print a line per primitive to the process's standard output. While the log is open, it redirects file
descriptor 1 to a temporary file. After each operator, it returns the names that were printed since the last one.
Formats: https://uxlfoundation.github.io/oneDNN/dev_guide_verbose.html and Intel's "MKL verbose mode".
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any

import torch

from statsnet.signatures.kernel_class import OF_ONE_ROW

_MKL_CALL = re.compile(r"^MKL_VERBOSE ([A-Z0-9_]+)\(([^)]*)\)")


class KernelLog:
    """Context manager; `take()` returns the implementation names that were logged since the last `take()`."""

    def __enter__(self) -> KernelLog:
        self._libc = ctypes.CDLL(None)
        self._position = 0
        with ExitStack() as stack:
            self._file = stack.enter_context(tempfile.TemporaryFile())
            self._flush()
            saved_stdout = os.dup(1)
            stack.callback(os.close, saved_stdout)
            os.dup2(self._file.fileno(), 1)
            stack.callback(self._hand_back, saved_stdout)
            for library in (torch.backends.mkldnn, torch.backends.mkl):
                if library.is_available():
                    _make_verbose(library, stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _hand_back(self, stdout: int) -> None:
        """Restore standard output, and pass on what the model's own code printed."""
        self._flush()
        os.dup2(stdout, 1)
        self._file.seek(0)
        for line in self._file:
            if not line.startswith((b"onednn_verbose", b"MKL_VERBOSE")):
                _write(line)

    def _flush(self) -> None:
        sys.stdout.flush()
        self._libc.fflush(None)

    def take(self) -> tuple[str, ...]:
        self._libc.fflush(None)
        size = os.fstat(self._file.fileno()).st_size
        if size == self._position:
            return ()
        text = os.pread(self._file.fileno(), size - self._position, self._position)
        self._position = size
        return implementations(text.decode(errors="replace"))


def _make_verbose(library: Any, stack: ExitStack) -> None:
    """A library built without its verbose mode names nothing: its operators count as ATen's own."""
    with suppress(AssertionError, AttributeError, RuntimeError):
        stack.enter_context(library.verbose(1))


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def implementations(log: str) -> tuple[str, ...]:
    """Distinct implementation names in a piece of verbose output, in order of first use.

    Reorders count only if nothing else ran: otherwise they belong to the primitive that reads their result.
    """
    names: dict[str, None] = {}
    reorders: dict[str, None] = {}
    for line in log.splitlines():
        fields = line.split(",")
        if line.startswith("onednn_verbose") and len(fields) > 6 and fields[3] == "exec":
            target = reorders if fields[5] == "reorder" else names
            target[_onednn_name(fields[6])] = None
        elif call := _MKL_CALL.match(line):
            names[_mkl_name(call[1], call[2].split(","))] = None
    return tuple(names or reorders)


def _onednn_name(implementation: str) -> str:
    """`conv:any+jit:avx2` (a deconvolution) -> `onednn:conv:any:jit:avx2`, because a plus joins an operator's
    kernels."""
    return "onednn:" + re.sub(r"[^a-z0-9_:.]+", ":", implementation.lower())[:100]


def _mkl_name(routine: str, arguments: list[str]) -> str:
    """`SGEMM(T,N,m,n,k,...)`: a product with one row or column runs a matrix-vector kernel."""
    name = f"mkl:{routine.lower()}"
    if routine.endswith("GEMM") and len(arguments) > 4 and "1" in (arguments[2], arguments[3]):
        return name + OF_ONE_ROW
    return name
