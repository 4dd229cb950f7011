"""The cases of synthesis_time.py, the commands they consist of, and a neighbour that keeps a core half busy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from statsnet import workloads

DEMO = "recsys/dlrm:0.5,cv/resnet50:0.5"
SUITE = "recsys:0.5,cv:0.5"

Profiles = Literal["shipped", "here", "elsewhere"]
"""Which signatures a run is given: those that ship, those of this environment, or those of one other environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One `statsnet synthesize`."""

    name: str
    mix: str
    profiles: Profiles = "here"
    beside_neighbour: bool = False


def equal_shares(names: list[str]) -> str:
    return ",".join(f"{name}:1" for name in names)


def _some_of(domain: str, number: int) -> list[str]:
    return [workload.full_name for workload in workloads.in_domain(domain)[:number]]


CASES = {
    "demo": (
        Run(name="demo", mix=DEMO, profiles="shipped"),
        Run(name="demo, all kept", mix=DEMO, profiles="shipped"),
    ),
    "suite": (
        Run(name="suite", mix=SUITE),
        Run(name="suite in another mix, members kept", mix="recsys:0.3,cv:0.7"),
    ),
    "elsewhere": (Run(name="suite, signatures from elsewhere", mix=SUITE, profiles="elsewhere"),),
    "two": (Run(name="two members", mix=DEMO),),
    "ten": (Run(name="ten members", mix=equal_shares([*_some_of("recsys", 5), *_some_of("cv", 5)])),),
    "all": (Run(name="all workloads", mix=equal_shares(list(workloads.names()))),),
    "neighbour": (Run(name="demo beside a neighbour", mix=DEMO, profiles="shipped", beside_neighbour=True),),
}
"""Name -> runs that share one cache of measurements, which is empty before the first."""

GROWTH = ("two", "ten", "suite", "all")


def cases(text: str) -> list[str]:
    """The names in a list; `growth` stands for several. Raises ValueError for another word."""
    named = [name for word in text.split(",") for name in (GROWTH if word == "growth" else (word,))]
    if unknown := [name for name in named if name not in CASES]:
        raise ValueError(f"no case is called '{unknown[0]}'; there are {', '.join(CASES)} and growth")
    return list(dict.fromkeys(named))


def synthesize_arguments(run: Run, *, mode: str, effort: str | None, profiles: Path | None, output: Path) -> list[str]:
    """Behind the word `statsnet`."""
    words = ["synthesize", "--mix", run.mix, "--mode", mode, "-o", str(output)]
    if effort is not None:
        words += ["--effort", effort]
    return words if profiles is None else [*words, "--profiles", str(profiles)]


def profile_arguments(mix: str, *, mode: str, profiles: Path) -> list[str]:
    return ["profile", "--mix", mix, "--mode", mode, "-o", str(profiles)]


HALF_BUSY = """
import os, sys, time
while os.getppid() == int(sys.argv[1]):
    end = time.perf_counter() + 0.05
    while time.perf_counter() < end:
        pass
    time.sleep(0.05)
"""
"""The source of a program that ends with its parent, whose process number it is given."""


def neighbour_command() -> list[str]:
    """Keeps one core busy for half the time, until it is ended."""
    if (program := shutil.which("stress-ng")) is not None:
        return [program, "--quiet", "--cpu", "1", "--cpu-load", "50"]
    return [sys.executable, "-c", HALF_BUSY, str(os.getpid())]


@contextmanager
def neighbour(wanted: bool) -> Iterator[None]:
    """There is one meanwhile, if it is wanted."""
    if not wanted:
        yield
        return
    process = subprocess.Popen(neighbour_command(), stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()
