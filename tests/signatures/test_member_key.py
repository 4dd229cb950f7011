"""Keys of private signatures: an id in a proxy's folder that nobody computes from a guess."""

from __future__ import annotations

import dataclasses
import errno
import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from statsnet.errors import FileFormatError, StatsNetError
from statsnet.signatures import member_key
from statsnet.signatures.database import ProfilesDB, find_signatures
from statsnet.signatures.member_key import KEY_BYTES, key_beside, key_file, key_of, keyed
from statsnet.signatures.mix import MixMember, resolve_mix, shared_names
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import save_signature


@pytest.fixture
def own(tmp_path: Path, make_dense: Callable[..., Signature]) -> Path:
    path = tmp_path / "gpt5-ranker.json"
    save_signature(path, make_dense(workload=None))
    return path


def member_of(path: Path) -> MixMember:
    (member,) = resolve_mix(f"{path}:1", "inference", ProfilesDB(path.parent / "none")).members
    return member


def test_an_hmac_by_its_test_vector() -> None:
    """RFC 4231, test case 2."""
    assert keyed("what do ya want for nothing?", b"Jefe") == (
        "sha256:5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    )


def test_a_key_is_made_once_and_is_its_owners(own: Path) -> None:
    assert key_beside(own) is None
    key = key_of(own)
    assert len(key) == KEY_BYTES and key_of(own) == key == key_beside(own)
    assert stat.S_IMODE(key_file(own).stat().st_mode) == 0o600
    assert sorted(p.name for p in own.parent.iterdir()) == [own.name, f"{own.name}.key"]


def test_the_same_signature_has_another_id_for_another_owner(own: Path, tmp_path: Path) -> None:
    member = member_of(own)
    guess = tmp_path / "attacker" / "guess.json"
    save_signature(guess, member.signature)
    other = member_of(guess)
    assert other.signature.id == member.signature.id
    assert len({member.keyed_id, other.keyed_id, member.signature.id}) == 3
    assert member.name != other.name
    assert member_of(own).keyed_id == member.keyed_id, "it stays the same"
    for name in (member.name, member.keyed_id or ""):
        assert member.signature.id[7:15] not in name


def test_a_signature_that_ships_keeps_its_id(tmp_path: Path, make_dense: Callable[..., Signature]) -> None:
    path = tmp_path / "dense.json"
    save_signature(path, make_dense())
    assert (member_of(path).keyed_id, member_of(path).name) == (None, "cv/dense")
    assert not key_file(path).exists()


def test_with_its_key_a_signature_is_found_again(own: Path) -> None:
    member = member_of(own)
    assert member.keyed_id is not None
    wanted = {member.keyed_id, member.signature.id}
    assert find_signatures(wanted, [own.parent]) == dict.fromkeys(wanted, member.signature)
    key_file(own).unlink()
    assert find_signatures(wanted, [own.parent]) == {member.signature.id: member.signature}


@pytest.mark.parametrize("text", ["", "0" * 63, "0" * 65, "x" * 64, "0" * 64 + "\n\n", "0" * 5000, "ключ"])
def test_what_is_no_key(own: Path, text: str) -> None:
    key_file(own).write_text(text, encoding="utf-8")
    with pytest.raises(FileFormatError, match="is no key of a signature"):
        key_of(own)
    assert find_signatures({"sha256:" + "0" * 64}, [own.parent]) == {}
    assert key_file(own).read_text(encoding="utf-8") == text


def no_links(*_: object) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


def test_without_links_a_key_is_stored_all_the_same(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", no_links)
    key = key_of(own)
    assert key_beside(own) == key == key_of(own)
    assert stat.S_IMODE(key_file(own).stat().st_mode) == 0o600
    assert sorted(p.name for p in own.parent.iterdir()) == [own.name, f"{own.name}.key"]


@pytest.mark.parametrize("has_links", [True, False])
def test_the_key_of_a_faster_process_stays(own: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool) -> None:
    looked: list[bytes | None] = []

    def key_that_comes_late(path: Path) -> bytes | None:
        looked.append(key_beside(path))
        if len(looked) == 1:
            key_file(path).write_text("ab" * KEY_BYTES)
        return looked[-1]

    monkeypatch.setattr(member_key, "key_beside", key_that_comes_late)
    if not has_links:
        monkeypatch.setattr(os, "link", no_links)
    assert key_of(own).hex() == "ab" * KEY_BYTES
    assert looked[0] is None
    assert sorted(p.name for p in own.parent.iterdir()) == [own.name, f"{own.name}.key"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_in_which_nobody_may_write(own: Path) -> None:
    own.parent.chmod(0o500)
    try:
        with pytest.raises(StatsNetError, match="cannot be stored") as raised:
            member_of(own)
        assert "permission denied" in raised.value.cause and "name the copy" in raised.value.hint
    finally:
        own.parent.chmod(0o700)


def test_a_packed_signature_has_no_folder_for_its_key(own: Path) -> None:
    archive = own.parent / "packed.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.write(own, own.name)
    with pytest.raises(StatsNetError, match="cannot be stored") as raised:
        member_of(own.parent / "packed" / own.name)
    assert "no such file or directory" in raised.value.cause and "name the copy" in raised.value.hint
    assert not (own.parent / "packed").exists()


def test_a_proxy_is_called_by_what_its_folder_may_tell(own: Path) -> None:
    db = ProfilesDB(own.parent / "none")
    assert shared_names(f"{own}:1", "inference", db) == {str(own): member_of(own).name}


def test_two_of_one_owner_differ(own: Path) -> None:
    other = own.with_name("other.json")
    save_signature(other, dataclasses.replace(member_of(own).signature, batch=3))
    db = ProfilesDB(own.parent / "none")
    mix = resolve_mix(f"{own}:1,{other}:1", "inference", db)
    assert len({m.name for m in mix.members}) == len({m.keyed_id for m in mix.members}) == 2
    assert "gpt5" not in mix.title
