"""What becomes of a member's signature in a folder that others fill, too."""

from __future__ import annotations

from pathlib import Path

from statsnet.measure.engine import Done
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.members import _kept, _Missing
from statsnet.signatures.storage import load_signature

GOLDEN = Path(__file__).parents[1] / "signatures" / "golden_signature.json"


def test_what_another_command_has_written_meanwhile_stays(tmp_path: Path) -> None:
    golden = load_signature(GOLDEN)
    path = tmp_path / "recsys" / "ncf.inference.json"
    missing = _Missing(model=Model(target="recsys/ncf", mode="inference"), path=path)
    assert _kept(missing, Done(index=0, result=golden)).what == "profiled"
    written = path.read_bytes()
    assert _kept(missing, Done(index=0, result=golden)).what == "skipped"
    assert path.read_bytes() == written
    assert load_signature(path) == golden
