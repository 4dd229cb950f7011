"""For all tests: one thread, no instructions that the processor cannot run, no waiting for quiet moments or others, and
nothing left to chance or to the order of tests."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

PRODUCT = "import torch; torch.ones(64, 64, dtype=torch.bfloat16) @ torch.ones(64, 64, dtype=torch.bfloat16)"


def _traps_at_amx() -> bool:
    """Some virtual machines list AMX and trap at its first instruction, in a product of bfloat16."""
    cpuinfo = Path("/proc/cpuinfo")
    if "ONEDNN_MAX_CPU_ISA" in os.environ or not cpuinfo.exists() or "amx_tile" not in cpuinfo.read_text():
        return False
    return subprocess.run([sys.executable, "-c", PRODUCT], check=False).returncode == -signal.SIGILL


gc.disable()  # until all tests are there: what is imported meanwhile stays

# Bytecode is kept, also where the user's setting is not to: to compile the tests takes each worker six seconds, and the
# modules that a process of a test imports a third of one.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# All of this must be set before torch is imported, which the plugins below do.
os.environ["STATSNET_PATIENCE_S"] = "0"  # what is not quiet is the tests themselves
os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # for tests that open a model in this process
os.environ["STATSNET_DEVICE_LOCK"] = "0"  # two of them may measure at once: their times are not looked at
os.environ["OMP_NUM_THREADS"] = "1"  # tiny operators would spend their time in barriers
for name in ("STATSNET_CACHE", "TORCHINDUCTOR_CACHE_DIR"):  # of each worker
    os.environ[name] = tempfile.mkdtemp(prefix="tests-of-statsnet-")
    atexit.register(shutil.rmtree, os.environ[name], ignore_errors=True)
# Libraries set these when a test imports them; but while variables change, no measuring process is forked.
os.environ.update(KMP_DUPLICATE_LIB_OK="True", KMP_INIT_AT_FORK="FALSE", GRPC_ENABLE_FORK_SUPPORT="0")
# A compiler that starts processes of its own and tries which vectors it may use takes longer than all that is compiled.
os.environ.update(TORCHINDUCTOR_COMPILE_THREADS="1", TORCHINDUCTOR_VEC_ISA_OK="0")
if _traps_at_amx():
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_FP16"

# `--hypothesis-profile default` looks for more examples, and others than the usual ones.
settings.register_profile(
    "tests", max_examples=50, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")

pytest_plugins = ["benchmark_programs", "measuring", "networks", "onnx_exporter"]


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def _forget_the_test() -> None:
    """pytest puts the test's name into a variable. But while variables change, no measuring process is forked, and a
    fresh one takes seconds to start."""
    os.environ.pop("PYTEST_CURRENT_TEST", None)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    _forget_the_test()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call() -> None:
    _forget_the_test()


@pytest.fixture(autouse=True)
def _denormal_numbers_are_left() -> Iterator[None]:
    """Models that are drawn are run without them, and hypothesis asks for them."""
    yield
    if "benchmarks.drawn.by_name" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)


@pytest.fixture(autouse=True)
def _no_group_is_left() -> Iterator[None]:
    """A workload that exchanges data makes a group of processes, also of one alone, and keeps it until the process
    ends. torch refuses a second one."""
    yield
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()
