"""Two processes write the same signatures of one database, and the same entries of one cache, while a third reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from statsnet.measure.cache import MeasurementCache
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import load_signature, save_signature

TIMES = 60
KEYS = ("aa" * 32, "bb" * 32)

WRITER = f"""
import sys
from dataclasses import replace
from pathlib import Path
from statsnet.measure.cache import MeasurementCache
from statsnet.signatures.storage import load_signature, save_signature

start, path, cache, batch = sys.argv[1], Path(sys.argv[2]), MeasurementCache(Path(sys.argv[3])), int(sys.argv[4])
signature = replace(load_signature(start), batch=batch)
print("ready", flush=True)
sys.stdin.readline()
for number in range({TIMES}):
    save_signature(path, signature)
    for key in {KEYS!r}:
        assert cache.remember(key, list[int], lambda: [batch] * 500)
        cache.put(key, [batch] * 500)
"""


def test_every_file_is_one_of_theirs_at_any_moment(dense_signature: Signature, tmp_path: Path) -> None:
    save_signature(tmp_path / "start.json", dense_signature)
    path, cache = tmp_path / "db" / "here" / "cv" / "tiny.inference.json", MeasurementCache(tmp_path / "cache")
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "start.json"), str(path), str(cache.folder), batch],
            env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for batch in ("3", "5")
    ]  # fmt: skip
    for writer in writers:
        assert writer.stdout is not None and writer.stdin is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    seen: set[int | None] = set()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            seen.add(load_signature(path).batch)
            assert len(ProfilesDB(tmp_path / "db").entries) == 1
        for key in KEYS:
            kept = cache.get(key, list[int])
            assert kept is None or kept in ([3] * 500, [5] * 500)
    assert [writer.wait() for writer in writers] == [0, 0]
    for writer in writers:
        writer.communicate()
    assert seen <= {3, 5} and load_signature(path).batch in {3, 5}
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert cache.contents().entries == len(KEYS)
    assert not list(cache.folder.rglob("*.tmp"))
