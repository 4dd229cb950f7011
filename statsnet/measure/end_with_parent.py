"""A process that ends when its parent does, in whatever way that ends (Linux only).

As a program, `python end_with_parent.py PARENT_PID PROGRAM ...` becomes another program, which ends so too. It is run
by its path, in a Python without packages: between the start of a process and the moment in which it asks for its end
there must be as little time as can be.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Have the kernel end this process when the thread that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    end_with_parent()
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the process that wanted this one has ended")
    os.execvp(sys.argv[2], sys.argv[2:])
