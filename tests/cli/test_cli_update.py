"""`statsnet update`: a proxy for a device that tables recorded, made anew."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from cli_support import member, read, write_proxy
from device_tables import gemm_record
from synthesis_builders import GEMM, RELU, few_jumps, measured, small_signature

from statsnet.cli import main
from statsnet.devices.device_record import save_record
from statsnet.devices.make_proxy import MakeOptions, TargetDevice
from statsnet.devices.update_proxy import changed_mix
from statsnet.errors import UsageError
from statsnet.proxy.folder import open_proxy
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.member_key import key_file, keyed
from statsnet.signatures.mix import short_id
from statsnet.signatures.mix_change import Addition, MixChange
from statsnet.signatures.model import Signature, WorkloadName
from statsnet.signatures.storage import load_spec, save_signature

TINY = small_signature(workload=WorkloadName(domain="cv", name="tiny", preset="small"), measurements=(), batch=4)
NEW = small_signature(clusters=(replace(GEMM, calls=1.0), replace(RELU, calls=30.0)), motifs=(), measurements=())
NEW_KEY = bytes(32)
NEW_ID = keyed(NEW.id, NEW_KEY)
NEW_NAME = f"signature-{NEW_ID.removeprefix('sha256:')[:8]}"
QUICK = ("--profiles", "db", "--budget", "1ms", "--effort", "quick")


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a device that is not here."""
    path = tmp_path_factory.mktemp("devices") / "acme-one.json.gz"
    save_record(path, gemm_record())
    return path


@pytest.fixture
def there(record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database of one counted workload and one device; a proxy `p` for the workload; a signature `new.json`, and the
    same in a file whose name is a secret."""
    few_jumps(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("statsnet.measure.cache.cache_dir", lambda: tmp_path / "cache")
    save_signature(tmp_path / "db" / "meta" / "cv" / "tiny.inference.json", TINY)
    (tmp_path / "db" / "devices").mkdir()
    shutil.copy(record, tmp_path / "db" / "devices")
    save_signature(tmp_path / "new.json", NEW)
    key_file(tmp_path / "new.json").write_text(NEW_KEY.hex())
    (tmp_path / "gringotts").mkdir()
    for path in (tmp_path / "new.json", key_file(tmp_path / "new.json")):
        shutil.copy(path, tmp_path / "gringotts" / path.name.replace("new", "horcrux"))
    write_proxy(tmp_path / "p", member("cv/tiny", 1.0, TINY.id, preset="small", batch=4))
    return tmp_path


def test_a_member_is_added_and_removed_again(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing that is written or said tells its file's name, its id or its key."""
    secret = "gringotts/horcrux.json:0.25"
    words = ["update", "p", "--add", secret, "--device", "recorded:acme-one", *QUICK, "-o", "q"]
    assert main([*words, "--json", "u.json"]) == 0, capsys.readouterr().err
    (said, err), data = capsys.readouterr(), read(there / "u.json")
    written = [path for folder in ("q", "cache") for path in (there / folder).rglob("*") if path.is_file()]
    told = [said, err, *(path.read_text() for path in (there / "u.json", *written))]
    assert not [s for s in ("horcrux", "gringotts", short_id(NEW.id), NEW_KEY.hex()) for text in told if s in text]
    assert data["members"] == [
        {"name": "cv/tiny", "before": 1.0, "after": 0.75}, {"name": NEW_NAME, "before": None, "after": 0.25},
    ]  # fmt: skip
    spec = load_spec(there / "q" / "spec.json")
    assert {m.signature: m.weight for m in spec.mix} == {TINY.id: 0.75, NEW_ID: 0.25}
    assert spec.title == "a mix"
    (added,) = data["added"]
    assert (added["name"], added["before"]) == (NEW_NAME, None)
    assert added["after"]["distances"]["category"] > 0
    assert "How far the proxy is from what was added" in said and "environments that differ" in said

    fit = open_proxy("q").fit()
    capsys.readouterr()
    assert main(["update", "q", "--remove", NEW_NAME, *QUICK, "--json"]) == 0  # for the same device, in place
    data, spec = json.loads(capsys.readouterr().out), load_spec(there / "q" / "spec.json")
    assert [m.name for m in spec.mix] == ["cv/tiny"]
    assert spec.title == "a mix"
    assert not [p.name for p in (there / "q").iterdir() if short_id(NEW_ID) in p.read_text()], "it is forgotten"
    assert spec.reference_environment["device_name"] == "acme-one"
    assert fit is not None and data["before"]["summary"]["step_latency_s"] == fit.summary.step_latency_s
    assert data["mix_moved"]["category"] > 0
    assert data["differences"] == data["added"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["p", "--add", "new.json"], 2, "--add new.json:0.1"),
        (["p", "--add", "new.json:1.5"], 2, "a share of the new mix between 0 and 1"),
        (["p", "--remove", "tinny"], 2, "did you mean"),
        (["p", "--remove", "tiny"], 2, "no member of the proxy's mix stays"),
        (["nothing"], 2, "there is no such folder"),
        (["p", "--add", "gone.json:0.1"], 1, "gone.json"),
        (["p", "--add", "astrology:0.1"], 2, "'astrology' is not known"),
        (["p", "--profiles", "nowhere"], 2, "there is no folder 'nowhere'"),
        (["p", "--device", "tpu"], 2, "'tpu' is not a device"),
        (["changed"], 2, "-o DIR writes the new proxy elsewhere"),
        (["p", "-o", "db"], 1, "'db' is not a proxy folder"),
        (["p", "--json=p/u.json"], 2, "would write into the folder that is made"),
        (["lost"], 2, "--remove a/customers"),
    ],
)
def test_what_can_not_be_updated(
    there: Path, arguments: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_proxy(there / "changed", member("cv/tiny", 1.0, TINY.id))
    (there / "changed" / "network.py").write_text("print('mine')\n")
    write_proxy(there / "lost", member("cv/tiny", 0.5, TINY.id), member("a/customers", 0.5))
    before = {path: path.read_bytes() for path in there.rglob("*") if path.is_file()}
    usual = () if "--device" in arguments else ("--device", "recorded:acme-one")
    usual += () if "--profiles" in arguments else ("--profiles", "db")
    assert main(["update", *arguments, *usual]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert text in said.err, said.err
    assert {path: path.read_bytes() for path in there.rglob("*") if path.is_file()} == before


def device(there: Path, notes: list[str]) -> TargetDevice:
    options = MakeOptions(profiles=there / "db", note=notes.append)
    environment = {"device": "cpu", "device_name": "Z80", "threads": 1}
    return TargetDevice(options=options, db=ProfilesDB(there / "db"), environment=environment, recorded=None)


@pytest.fixture
def measured_there(there: Path) -> Signature:
    """The workload as another machine measured it, in the database by its name."""
    classes = ("gemm|aten|float32|nt", "relu|aten|float32|contiguous")
    here = measured((0.006, 0.002), classes, kernels=("aten", "aten"))
    signature = small_signature(workload=TINY.workload, batch=4, measurements=(here,))
    save_signature(there / "db" / "z80-1" / "cv" / "tiny.inference.json", signature)
    return signature


def test_the_pinned_signature_is_found_in_any_file(there: Path, measured_there: Signature) -> None:
    notes: list[str] = []
    save_signature(there / "db" / "mine" / "deep" / "x.json", NEW)
    write_proxy(there / "p", member("cv/tiny", 0.5, measured_there.id), member("signature-1", 0.5, NEW.id))
    change = MixChange(added=(Addition(name="cv/tiny", share=0.2), Addition(name="new.json", share=0.1)))
    mix = changed_mix(load_spec(there / "p" / "spec.json"), change, device(there, notes))
    weights = {m.name: m.weight for m in mix.members}
    assert weights == pytest.approx({"cv/tiny": 0.35 + 0.2, "signature-1": 0.35 + 0.1})  # both were there already
    assert {m.signature.id for m in mix.members} == {measured_there.id, NEW.id}
    assert not notes


def test_a_private_member_that_an_older_proxy_calls_by_its_plain_id_gets_a_keyed_one(there: Path) -> None:
    save_signature(there / "db" / "mine" / "x.json", NEW)
    key_file(there / "db" / "mine" / "x.json").write_text(NEW_KEY.hex())
    plain_name = f"signature-{short_id(NEW.id)}"
    for signature_id, name in ((NEW.id, plain_name), (NEW_ID, NEW_NAME)):
        write_proxy(there / "p", member(name, 1.0, signature_id))
        spec = replace(load_spec(there / "p" / "spec.json"), title=f"{name}:1")
        mix = changed_mix(spec, MixChange(), device(there, []))
        (only,) = mix.members
        assert (only.keyed_id, only.name, mix.title) == (NEW_ID, NEW_NAME, "1 private workload")
        assert only.signature.id == NEW.id


OF_TINY, OF_NEW = "cv/tiny:0.5", f"{NEW_NAME}:0.5"


@pytest.mark.parametrize(
    ("title", "change", "now"),
    [
        ("Our fleet", MixChange(removed=(NEW_NAME,)), "Our fleet"),
        ("Our fleet, without tinyhouse", MixChange(removed=("tiny",)), "Our fleet, without tinyhouse"),
        ("Tiny and its friends", MixChange(removed=("tiny",)), "1 private workload"),
        (f"{OF_TINY},{OF_NEW}", MixChange(removed=("tiny",)), "1 private workload"),
        (f"{OF_TINY},{OF_NEW}", MixChange(removed=(NEW_NAME,)), "cv/tiny:1"),
        (f"{OF_TINY},{OF_NEW}", MixChange(), "cv/tiny:0.5, 1 private workload"),
        ("cv:1", MixChange(added=(Addition(name="new.json", share=0.5),)), "cv/tiny:0.25, 1 private workload"),
        ("a mix, with signature-0123abcd:0.25", MixChange(), "cv/tiny:0.5, 1 private workload"),
    ],
)
def test_a_title_names_nobody_who_has_left_and_nobody_private(
    there: Path, title: str, change: MixChange, now: str
) -> None:
    save_signature(there / "db" / "mine" / "x.json", NEW)
    key_file(there / "db" / "mine" / "x.json").write_text(NEW_KEY.hex())
    write_proxy(there / "p", member("cv/tiny", 0.5, TINY.id), member(NEW_NAME, 0.5, NEW_ID))
    spec = replace(load_spec(there / "p" / "spec.json"), title=title)
    assert changed_mix(spec, change, device(there, [])).title == now


@pytest.mark.parametrize(("batch", "is_found"), [(4, True), (8, False)])
def test_a_signature_of_the_same_name_and_sizes_stands_for_one_in_no_file(
    there: Path, measured_there: Signature, batch: int, is_found: bool
) -> None:
    notes: list[str] = []
    write_proxy(there / "p", member("cv/tiny", 1.0, preset="small", batch=batch))
    spec = load_spec(there / "p" / "spec.json")
    if not is_found:
        with pytest.raises(UsageError, match="there is no signature of cv/tiny"):
            changed_mix(spec, MixChange(), device(there, notes))
        return
    (member_of,) = changed_mix(spec, MixChange(), device(there, notes)).members
    assert member_of.signature.id == measured_there.id
    assert "cv/tiny" in notes[0] and "same name and sizes" in notes[0]
