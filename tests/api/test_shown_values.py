"""Values of the Python API: how they show themselves, and how they are loaded and saved."""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from api_support import KINDS, PROXY, REFERENCE
from cli_support import ROOT, read, write_proxy

import statsnet
from statsnet.errors import FileFormatError, OtherFileError, UsageError
from statsnet.reporting import values
from statsnet.signatures.results import Result, Subject
from statsnet.signatures.timing import Timing

DEVICE = ROOT / "profiles_db" / "devices" / "nvidia-titan-xp.json.gz"


def value_of(kind: str) -> Any:
    """A value of each kind, from the files in `here`."""
    if kind == "Standings":
        return statsnet.compare("r.json", "faster.json")
    places = {"Signature": "s.json", "Mix": "m.yaml", "SavedProxy": PROXY, "Result": "r.json", "DeviceRecord": DEVICE}
    return statsnet.load(places.get(kind, "scenario.json"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_shows_itself(here: Path, kind: str) -> None:
    value = value_of(kind)
    assert type(value) is getattr(statsnet, kind)
    line = repr(value)
    assert line.startswith(f"{kind}(") and "\n" not in line and 20 < len(line) < 400
    html = value._repr_html_()
    assert "<table" in html
    assert html.count("<div") == html.count("</div>")
    assert not re.search(r"<script|\bsrc=|\bhref=|@import|url\(", html)
    assert not re.search(r"background\s*:", html), "the page's own, light or dark"


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_has_columns_of_one_length(here: Path, kind: str) -> None:
    found = values.columns(value_of(kind))
    assert len({len(column) for column in found.values()}) == 1
    assert len(next(iter(found.values()))) > 0
    (row,) = [line for line in REFERENCE.splitlines() if line.startswith(f"| `{kind}` | ")]
    told = set(re.findall(r"`(\w+)`", row.split("|")[4]))
    assert told <= found.keys()
    assert kind == "Standings" or told == {*found}


def test_data_frames(here: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: pip install -e '.[dev]'")
    frame = value_of("Mix").to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["weight"].sum() == pytest.approx(1.0)
    steps = value_of("Result").to_dataframe()
    assert list(steps.groupby("process")["latency_s"].median()) == pytest.approx([0.020, 0.0201, 0.0199])
    for kind in KINDS:
        assert len(value_of(kind).to_dataframe()) > 0


def test_without_pandas_the_command_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match=re.escape("pip install 'statsnet[pandas]'")):
        value_of("Mix").to_dataframe()


def test_a_proxy_without_a_fit_has_no_table(here: Path) -> None:
    proxy = statsnet.load("p")
    assert isinstance(proxy, statsnet.SavedProxy) and proxy.fit is None
    assert "no fit" in repr(proxy)
    with pytest.raises(UsageError, match=r"has no fit\.json"):
        values.columns(proxy)


def test_texts_of_a_file_are_shown_as_text(here: Path) -> None:
    write_proxy(here / "p", {**read(here / "p" / "spec.json")["mix"][0], "name": "<script>x\x1b[1m</script>"})
    proxy = statsnet.load("p")
    assert "<script" not in proxy._repr_html_() and "\x1b" not in repr(proxy) + proxy._repr_html_()


def test_what_can_not_be_shown_is_said() -> None:
    """A clock that stood still gives no time."""
    still = Result(
        subject=Subject(type="proxy", id=None, mode="inference"),
        environment={"device": "cpu", "device_name": "Z80"},
        processes=(Timing(latency_s=(0.0, 0.0, 0.0)),),
    )
    assert repr(still).startswith("Result(")
    assert still._repr_html_().startswith('<div class="statsnet">')


def test_load_knows_a_proxy_by_each_of_its_files_and_a_packed_profile() -> None:
    proxy = statsnet.load(PROXY)
    assert isinstance(proxy, statsnet.SavedProxy) and proxy.fit is not None
    assert statsnet.load(PROXY / "spec.json") == statsnet.load(str(PROXY / "fit.json")) == proxy
    packed = statsnet.mix("cv/resnet50:1").members[0]
    assert statsnet.load(packed.path) == packed.signature


def test_load_knows_a_device_record_that_is_not_packed(here: Path) -> None:
    (here / "device.json").write_bytes(gzip.decompress(DEVICE.read_bytes()))
    record = statsnet.load("device.json")
    assert isinstance(record, statsnet.DeviceRecord)
    assert record.device == "nvidia-titan-xp"


@pytest.mark.parametrize(
    ("name", "text", "error", "what"),
    [
        ("nothing.json", None, FileFormatError, "does not exist"),
        ("nothing.json.gz", None, FileFormatError, "cannot be read"),
        ("other.json", '{"kind": "x"}', OtherFileError, "is no file of StatsNet"),
        ("list.json", "[1]", FileFormatError, "does not hold an object"),
        ("cut.json", '{"kind": "statsnet.res', FileFormatError, "ends too early"),
        ("notes.txt", "Dear", FileFormatError, "is not valid JSON"),
        ("noise.gz", "Dear", FileFormatError, "cannot be read as JSON"),
        ("bad.yaml", "members: 3", UsageError, "is not a value of members"),
        ("folder/x.txt", "Dear", UsageError, "is not a proxy's folder"),
        ("p/fit.json", (PROXY / "fit.json").read_text(), FileFormatError, "is the fit of another proxy"),
        ("copy.json", (PROXY / "spec.json").read_text(), UsageError, "is a part of a proxy"),
    ],
)
def test_what_can_not_be_loaded(here: Path, name: str, text: str | None, error: type[Exception], what: str) -> None:
    place = here / name
    place.parent.mkdir(exist_ok=True)
    if text is not None:
        place.write_text(text)
    with pytest.raises(error, match=re.escape(what)):
        statsnet.load("folder" if name.startswith("folder") else name)


def test_save_writes_what_load_reads(here: Path) -> None:
    for name in ("s.json", "r.json", "scenario.json"):
        value = statsnet.load(name)
        assert isinstance(value, statsnet.Signature | statsnet.Result | statsnet.ScenarioResult)
        statsnet.save(value, here / "again.json")
        assert statsnet.load("again.json") == value
    with pytest.raises(UsageError, match="SavedProxy is not written"):
        statsnet.save(statsnet.load("p"), "x.json")  # type: ignore[arg-type]
