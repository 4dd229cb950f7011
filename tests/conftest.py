"""For all tests: a processor that names instructions which it cannot run, and no waiting for quiet moments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

PRODUCT = "import torch; torch.ones(64, 64, dtype=torch.bfloat16) @ torch.ones(64, 64, dtype=torch.bfloat16)"


def pytest_configure() -> None:
    """Some virtual machines list AMX and trap at its first instruction, in a product of bfloat16: oneDNN is told not to
    use it, before torch is imported."""
    os.environ["STATSNET_PATIENCE_S"] = "0"  # what is not quiet is the tests themselves
    cpuinfo = Path("/proc/cpuinfo")
    if "ONEDNN_MAX_CPU_ISA" in os.environ or not cpuinfo.exists() or "amx_tile" not in cpuinfo.read_text():
        return
    if subprocess.run([sys.executable, "-c", PRODUCT], check=False).returncode == -signal.SIGILL:
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_FP16"
