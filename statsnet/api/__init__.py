"""The Python API: what the commands do, as functions, and any file of StatsNet as a value.

Each function calls what its command calls. It prints nothing: progress goes to `report`, and what a command would note
on stderr is a warning. All errors are those of statsnet.errors.

Needs no torch
    reading
Runs models and proxies
    measuring
What both check
    checks
"""
