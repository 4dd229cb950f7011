"""The steps of several processes that benchmarks look at, and the proxies that stand for them."""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import reference_workloads
from benchmarks.console import report
from benchmarks.together.linked_namespaces import ending_with_this_program
from statsnet.environment.record import usable_cores
from statsnet.errors import MeasurementError
from statsnet.progress import Progress

MODELS = Path(__file__).with_name("models.py")
WORKLOADS = Path(reference_workloads.__file__ or "").parent
SOURCES = (MODELS, *(WORKLOADS / name for name in ("cv/resnets.py", "nlp/bert.py", "recsys/dlrm.py", "synthetic.py")))
"""What the steps are made of."""

PROCESSES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStep:
    """A training step that several processes make together: a factory in models.py."""

    name: str
    factory: str

    @property
    def target(self) -> str:
        return f"{MODELS}:{self.factory}"

    @property
    def identity(self) -> str:
        """Of the model as its sources have it."""
        return hashlib.sha256(self.factory.encode() + b"".join(f.read_bytes() for f in SOURCES)).hexdigest()


SUBJECTS = (
    SharedStep(name="ResNet-50 DDP", factory="resnet50_ddp"),
    SharedStep(name="BERT FSDP2", factory="bert_fsdp2"),
    SharedStep(name="BERT FSDP2 bfloat16", factory="bert_fsdp2_bfloat16"),
    SharedStep(name="tensor-parallel stack", factory="tensor_parallel_stack"),
    SharedStep(name="sequence-parallel stack", factory="sequence_parallel_stack"),
    SharedStep(name="DLRM all-to-all", factory="dlrm_all_to_all"),
    SharedStep(name="mixture of experts", factory="moe_all_to_all"),
)


def threads(processes: int) -> dict[str, str]:
    """Each process's part of the cores, as `statsnet profile --nproc` gives it, for a proxy's blocks, too."""
    return {"OMP_NUM_THREADS": str(max(1, usable_cores() // processes))}


def proxy_of(subject: SharedStep, folder: Path, *, processes: int = PROCESSES) -> Path:
    """The folder of the subject's proxy, made if it is not there yet.

    Raises MeasurementError where one of the commands that make it fails.
    """
    name = f"{subject.factory}.{processes}.{subject.identity[:8]}"
    signature, proxy = folder / f"{name}.json", folder / f"{name}.proxy"
    if not signature.exists():
        report(Progress(stage=f"{subject.name}: profiled"))
        several = ["--nproc", str(processes), "--group-timeout", "10min"]
        _statsnet("profile", subject.target, *several, "--mode", "training", "-o", str(signature), processes=processes)
    if not (proxy / "fit.json").exists():
        report(Progress(stage=f"{subject.name}: its proxy is made"))
        mix = ["--mix", f"{signature}:1", "--mode", "training"]
        _statsnet("synthesize", *mix, "-o", str(proxy), processes=processes)
    return proxy


def _statsnet(*arguments: str, processes: int) -> None:
    """Run a command as users do: what a process has at its start, as its number of threads, cannot be changed later."""
    command = [sys.executable, "-m", "statsnet", *arguments]
    bound = [*ending_with_this_program(), *command]
    ended = subprocess.run(bound, env=os.environ | threads(processes), capture_output=True, text=True, check=False)
    if ended.returncode:
        raise MeasurementError(
            f"statsnet {arguments[0]} of {arguments[1] if arguments[0] == 'profile' else arguments[2]} failed",
            cause=(ended.stderr.strip() or f"exit code {ended.returncode}").splitlines()[0],
            hint=f"look at it alone: {' '.join(command)}",
        )


def chosen_subjects(text: str) -> list[SharedStep]:
    """An option's NAME,... of factories. Raises ArgumentTypeError for what is none."""
    known = {subject.factory: subject for subject in SUBJECTS}
    if unknown := [name for name in text.split(",") if name not in known]:
        raise argparse.ArgumentTypeError(f"no subject is called '{unknown[0]}'; there are {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(text.split(","))]
