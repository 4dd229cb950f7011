"""A search's journal: what is taken for one, who may write it, and what a killed search leaves in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from synthesis_builders import bench_setup, mix_of, small_signature

from statsnet.errors import StatsNetError, UsageError
from statsnet.synthesis.problem import ProxyRequest
from statsnet.synthesis.search.design_space import DESIGNS
from statsnet.synthesis.search.journal import check_journal, held_journal, ready_journal
from statsnet.synthesis.search.search_identity import SearchIdentity
from statsnet.synthesis.search.study import Study
from statsnet.synthesis.search.study_storage import OwnJournal

LINE = b'{"op_code":0,"worker_id":"w","study_name":"statsnet"}\n'


@pytest.mark.parametrize("content", [b"", LINE, LINE * 3, LINE[:-5], b'{"op'])
def test_a_journal_may_be_whole_or_cut_short(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(content)
    check_journal(tmp_path / "j")
    check_journal(tmp_path / "none")


@pytest.mark.parametrize("content", [b"Dear diary", b'{"a": 1}\n', b"[]", b"\0\0"])
def test_another_file_is_never_overwritten(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "proxy.journal"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is no journal"), held_journal(path):
        ready_journal(path, resume=False)
    assert path.read_bytes() == content


def test_nor_is_a_folder_or_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(UsageError, match="is no journal"):
            check_journal(tmp_path / name)


def test_one_search_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(LINE)
    with held_journal(path):
        with pytest.raises(UsageError, match="another search writes"), held_journal(path):
            pass
    with held_journal(path):
        pass
    assert path.read_bytes() == LINE


def test_what_a_killed_search_leaves_is_resumed_from_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(LINE * 2000 + LINE[:20])
    with held_journal(path):
        ready_journal(path, resume=True)
    assert path.read_bytes() == LINE * 2000
    path.write_bytes(LINE[:-1])
    with held_journal(path):
        ready_journal(path, resume=True)
    assert not path.exists()


def test_a_new_search_begins_anew_only_when_it_has_something_to_write(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(LINE)
    with pytest.raises(StatsNetError), held_journal(path):
        raise StatsNetError("the members can not be measured")
    assert path.read_bytes() == LINE
    with held_journal(path):
        ready_journal(path, resume=False)
        assert path.read_bytes() == b""
    with pytest.raises(StatsNetError, match="could not write"), held_journal(Path("/proc/none/j")):
        pass


@pytest.mark.parametrize(
    ("whole", "damaged", "error"),
    [
        ("64, 100]", "64, 1]", "choose from other designs"),
        ("[24, 44", f"[1{'0' * 400}, 44", "choose from other designs"),
        ('"param_value_internal":0.0', '"param_value_internal":1e999', "infinity"),
        ('"budget_s":0.01', f'"budget_s":1{"0" * 600}', "its budget is 1000"),
    ],
)
def test_a_journal_that_somebody_changed(whole: str, damaged: str, error: str, tmp_path: Path) -> None:
    """Other choices, a choice that is no number, a time that no clock shows."""
    path, request = tmp_path / "own", ProxyRequest(mix_text="a:1", budget_s=0.01)
    search = SearchIdentity.of(mix_of(small_signature()), bench_setup(), request, DESIGNS)
    storage = OwnJournal(path=path, resume=True)
    with storage.held():
        begun = Study(storage, search)
        begun.claim(None)
        begun.close()
        text = path.read_text()
        assert whole in text
        path.write_text(text.replace(whole, damaged, 1))
        with pytest.raises(StatsNetError) as refused:
            Study(storage, search).claim(None)
    assert error in f"{refused.value.cause}"
