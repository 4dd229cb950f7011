"""Packed folders: read as if they were not packed, the same bytes for the same files, and damaged ones refused."""

from __future__ import annotations

import os
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

from statsnet.errors import FileFormatError
from statsnet.signatures import packed
from statsnet.signatures.canonical import read_json
from statsnet.signatures.database import ProfilesDB, default_profiles_dir, find_signatures, pack
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import load_signature, save_signature

DENSE = Path("machine-b", "cv", "dense.training.json")


@pytest.fixture
def archive(profiles: Path) -> Path:
    """That of machine-b's only domain, cv."""
    return pack(profiles / "machine-b" / "cv")


def zip_of(path: Path, *names: str, content: bytes = b"{}", **options: Any) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", **options) as zipped:
        warnings.simplefilter("ignore")  # a name that stands twice
        for name in names:
            zipped.writestr(name, content)
    return path


def test_a_packed_folder_is_read_like_a_plain_one(profiles: Path) -> None:
    plain = ProfilesDB(profiles)
    entries = plain.entries
    signatures = [e.load() for e in entries]
    for folder in sorted(profiles.glob("*/*/")):
        pack(folder)
    assert {p.suffix for p in profiles.glob("*/*")} == {".zip"}
    db = ProfilesDB(profiles)
    assert db.entries == entries
    assert [e.load() for e in db.entries] == signatures
    assert resolve_mix("cv:1", "inference", db) == resolve_mix("cv:1", "inference", plain)
    assert resolve_mix(f"{profiles / DENSE}:1", "training", db).members[0].signature == load_signature(profiles / DENSE)
    assert find_signatures({s.id for s in signatures}, [profiles]) == {s.id: s for s in signatures}


def test_packing_gives_the_same_bytes_whatever_the_dates(profiles: Path, archive: Path, tmp_path: Path) -> None:
    again = tmp_path / "again" / "cv"
    again.mkdir(parents=True)
    for path in reversed(packed.files(archive)):
        (again / path.name).write_bytes(packed.read(path, 10**6))
    assert pack(again).read_bytes() == archive.read_bytes()
    assert pack(profiles / "machine-b" / "cv").read_bytes() == archive.read_bytes()


def test_a_plain_file_goes_before_a_packed_one(profiles: Path, archive: Path, dense_signature: Signature) -> None:
    path = archive.with_suffix("") / "dense.inference.json"
    before = load_signature(path)
    assert before != dense_signature
    save_signature(path, dense_signature)
    assert load_signature(path) == dense_signature
    assert len(ProfilesDB(profiles).find("dense", "inference")) == 2
    assert pack(path.parent) == archive
    assert not path.parent.exists()
    assert load_signature(path) == dense_signature
    assert len(packed.files(archive)) == 3


def test_is_file(profiles: Path, archive: Path) -> None:
    assert packed.is_file(profiles / DENSE)
    assert packed.is_file(profiles / "machine-a" / "cv" / "dense.inference.json")
    assert not packed.is_file(profiles / DENSE.with_name("nothing.json"))
    assert not packed.is_file(profiles / "machine-a" / "nlp" / "nothing.json")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("cv/nothing.json", "does not exist"),
        ("cv", "is a packed folder, not a file\ntry: name a file in it: "),
        ("cv.zip", "is a packed folder, not a file\ntry: name a file in it: "),
    ],
)
def test_what_is_not_in_a_packed_folder(archive: Path, path: str, message: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        load_signature(archive.parent / path)
    assert message in str(caught.value)


def test_a_few_packed_bytes_do_not_become_gigabytes(tmp_path: Path) -> None:
    zip_of(tmp_path / "cv.zip", "x.json", content=b" " * 10**8, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(FileFormatError, match="is too large") as caught:
        load_signature(tmp_path / "cv" / "x.json")
    assert "limit" in caught.value.cause


def test_a_huge_archive_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zip_of(tmp_path / "cv.zip", "x.json", "y.json")
    monkeypatch.setattr(packed, "MAX_FILES", 1)
    with pytest.raises(FileFormatError) as caught:
        packed.files(path)
    assert "more than 1 files" in caught.value.cause
    monkeypatch.setattr(packed, "MAX_ARCHIVE_BYTES", 10)
    with pytest.raises(FileFormatError, match="is too large"):
        packed.files(path)


def test_archives_that_are_no_packed_folders(tmp_path: Path) -> None:
    path = tmp_path / "machine" / "cv.zip"
    path.parent.mkdir()
    path.write_text("no zip file")
    with pytest.raises(FileFormatError, match="not a packed folder") as caught:
        _ = ProfilesDB(tmp_path).entries
    assert caught.value.hint
    for names, cause in (
        (("cv/x.json",), "a file without a proper name: 'cv/x.json'"),
        (("\x1b]0;x.json",), "a file without a proper name: '?]0;x.json'"),
        (("x.json", "x.json"), "'x.json' twice"),
    ):
        with pytest.raises(FileFormatError) as caught:
            packed.files(zip_of(path, *names))
        assert cause in caught.value.cause
    zip_of(path, "x.json", compression=zipfile.ZIP_LZMA)
    with pytest.raises(FileFormatError) as caught:
        packed.read(path.parent / "cv" / "x.json", 10)
    assert "neither stored nor deflated" in caught.value.cause
    path.write_text("no zip file")
    assert find_signatures({"sha256:"}, [tmp_path]) == {}  # as files that are none, it is passed over


def test_every_damage_to_an_archive_is_named(archive: Path) -> None:
    """Cut off anywhere, or with any byte changed, it gives an error of ours or the content that it had."""
    whole, path = archive.read_bytes(), archive.with_suffix("") / "wide.inference.json"
    content = packed.read(path, 10**6)
    damaged = [whole[:length] for length in range(0, len(whole), 61)]
    damaged += [whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :] for i in range(0, len(whole), 7)]
    refused = 0
    for data in damaged:
        archive.write_bytes(data)
        try:
            assert packed.read(path, 10**6) == content
        except (FileFormatError, FileNotFoundError):
            refused += 1
    assert refused > len(damaged) // 4


def test_profiles_that_ship_are_packed() -> None:
    folder = default_profiles_dir()
    assert not list(folder.glob("*/*/*"))
    db = ProfilesDB(folder)
    assert len(db.entries) + len(db.counts) == sum(len(packed.files(a)) for a in folder.glob("*/*.zip"))
    assert read_json(db.entries[0].path)["kind"] == "statsnet.signature"


def test_packing_fails_whole(profiles: Path) -> None:
    folder = profiles / "machine-b" / "cv"
    names = sorted(p.name for p in folder.iterdir())
    (folder.parent / "cv.zip").write_text("no zip file")
    with pytest.raises(FileFormatError):
        pack(folder)
    assert sorted(p.name for p in folder.iterdir()) == names


def test_a_pipe_in_place_of_an_archive_or_a_profile(tmp_path: Path) -> None:
    """Whoever opened it would wait forever."""
    (tmp_path / "machine" / "nlp").mkdir(parents=True)
    for pipe in ("cv.zip", "nlp/x.inference.json"):
        os.mkfifo(tmp_path / "machine" / pipe)
    with pytest.raises(FileFormatError, match="cannot be read") as refused:
        _ = ProfilesDB(tmp_path).entries
    assert "pipe or a device" in refused.value.cause
    assert find_signatures({"sha256:" + "0" * 64}, [tmp_path]) == {}
    with pytest.raises(OSError, match="pipe or a device"):
        packed.read(tmp_path / "machine" / "nlp" / "x.inference.json", 10)
