"""Reading and mixing signatures needs no torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import statsnet

CODE = """
import sys
sys.modules["torch"] = None
import importlib, pkgutil
import statsnet, statsnet.signatures, statsnet.environment, statsnet.errors, statsnet.units
for module in pkgutil.iter_modules(statsnet.signatures.__path__):
    importlib.import_module("statsnet.signatures." + module.name)
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.target import target_of_mix
mix = resolve_mix("cv:1,recsys:1", "inference", ProfilesDB(sys.argv[1]))
print(target_of_mix(mix).flops_per_s > 0, statsnet.__version__)
"""


def test_no_torch_is_needed(profiles: Path) -> None:
    source = Path(statsnet.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(profiles)],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(source), "PATH": ""},
    )
    assert (done.stdout.split(), done.stderr) == (["True", statsnet.__version__], "")
