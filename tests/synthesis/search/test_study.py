"""Who tries which design, when workers end, stay silent or come late."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from synthesis_builders import FakeClock, bench_setup, mix_of, moved, small_signature

from statsnet.errors import StatsNetError, UsageError
from statsnet.progress import silent
from statsnet.synthesis.effort import QUICK
from statsnet.synthesis.problem import Design, ProxyRequest
from statsnet.synthesis.search import study
from statsnet.synthesis.search.design_space import DESIGNS
from statsnet.synthesis.search.journal import held_journal, shared_journal
from statsnet.synthesis.search.search_identity import SearchIdentity
from statsnet.synthesis.search.study import Heartbeat, Study
from statsnet.synthesis.search.study_storage import OwnJournal, SharedJournal, StudyStorage

pytest.importorskip("optuna")

HEART = Heartbeat(beat_s=1e6, lost_after_s=100.0, look_s=7.0, patience_s=1.0)
USUAL = (Design(), 1.0)


def identity(**changes: Any) -> SearchIdentity:
    """`changes` are of the request, the bench's setup, or the mix."""
    request = ProxyRequest(mix_text="a:1", **{k: changes.pop(k) for k in ("seed", "budget_s") if k in changes})
    mix = changes.pop("mix", None) or mix_of(small_signature())
    return SearchIdentity.of(mix, bench_setup(**changes), request, DESIGNS)


class Shop:
    """Workers of one journal, and their clock."""

    def __init__(self, folder: Path) -> None:
        self.storage = SharedJournal(path=folder / "j")
        self.clock = FakeClock()

    def worker(
        self,
        name: str | None = None,
        heart: Heartbeat = HEART,
        storage: StudyStorage | None = None,
        note: Callable[[str], None] = silent,
        **changes: Any,
    ) -> Study:
        where, search = storage or self.storage, identity(**changes)
        return Study(where, search, name=name, heartbeat=heart, clock=self.clock, sleep=self.sleep, note=note)

    def sleep(self, pause_s: float) -> None:
        self.clock.now_s += pause_s


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_a_number_of_designs_is_that_of_all_workers(shop: Shop) -> None:
    one, two = shop.worker(), shop.worker()
    claims = [each.claim(3) for each in (one, two, one, two)]
    assert claims[3] is None
    first, second, third = claims[:3]
    assert first and second and third
    assert [c.position for c in (first, second, third)] == [0, 1, 2]
    assert (first.design, first.share) == USUAL
    assert (second.design, second.share) != USUAL
    assert two.finish(second, (0.1, 0.01), 0.01)
    assert [t.number for t in one.tried()] == [second.number]
    assert one.finish(first, (0.2, 0.005), 0.01) and one.finish(third, (0.3, 0.02), 0.02)
    assert one.claim(3) is None
    assert [t.budget_s for t in two.tried()] == [0.01, 0.01, 0.02]
    assert (one.tried_here, two.tried_here) == (2, 1)


def test_no_design_is_tried_twice(tmp_path: Path) -> None:
    """Of few designs, TPE likes to propose the best one again."""
    tried = set()
    storage = OwnJournal(path=tmp_path / "j")
    with storage.held():
        alone = Study(storage, identity(), heartbeat=HEART)
        for number in range(40):
            claim = alone.claim(None)
            assert claim is not None and claim.position == number
            tried.add((claim.design, claim.share))
            assert alone.finish(claim, (abs(claim.design.size - 1.0) + claim.design.order, claim.share), 0.01)
    assert len(tried) == 40


def test_who_asks_when_the_last_is_taken_between_gets_none(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both saw one place left, and both asked for a trial."""
    one, two = shop.worker(), shop.worker()
    asked = one._study.ask

    def ask_after_the_other() -> Any:
        monkeypatch.setattr(one._study, "ask", asked)
        assert two.claim(1) is not None
        return asked()

    monkeypatch.setattr(one._study, "ask", ask_after_the_other)
    assert one.claim(1) is None
    assert one.claim(1) is None


def test_a_silent_worker_loses_its_design_and_comes_too_late(shop: Shop) -> None:
    one, two = shop.worker(), shop.worker()
    lost = one.claim(1)
    assert lost
    assert two.claim(1) is None
    shop.clock.now_s += 99.0
    assert two.claim(1) is None
    shop.clock.now_s += 2.0
    again = two.claim(1)
    assert again
    assert (again.design, again.share) == USUAL, "the lost one was the usual design"
    assert not one.finish(lost, (0.1, 0.01), 0.01)
    assert two.finish(again, (0.2, 0.01), 0.01)
    assert [t.number for t in one.tried()] == [again.number]


def test_a_trial_that_ends_while_a_database_is_read_is_not_damaged(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state is read first, then its parameters, then its values."""
    one = shop.worker()
    assert one.claim(1)
    (read,) = one._study.get_trials()
    read.params, read.values = {}, [0.1, 0.01]
    monkeypatch.setattr(one._study, "get_trials", lambda **_: [read])
    assert one.tried() == []


def test_a_sign_of_life_keeps_a_design(shop: Shop) -> None:
    one, two = shop.worker(), shop.worker()
    claim = one.claim(1)
    assert claim
    for beats in range(4):
        assert two.claim(1) is None
        one._storage.set_trial_user_attr(claim.trial_id, "beats", beats)
        shop.clock.now_s += 99.0
    assert one.finish(claim, (0.1, 0.01), 0.01)


def test_while_a_design_is_tried_others_hear_of_it(shop: Shop) -> None:
    one, two = shop.worker(heart=dataclasses.replace(HEART, beat_s=1e-3)), shop.worker()
    claim = one.claim(1)
    assert claim
    with one.trying(claim):
        while two._trials()[0].user_attrs.get("beats", 0) < 2:
            pass
    assert one.finish(claim, (0.1, 0.01), 0.01)


def test_a_worker_that_fails_says_so(shop: Shop) -> None:
    one, two = shop.worker(), shop.worker()
    claim = one.claim(1)
    assert claim
    with pytest.raises(KeyboardInterrupt), one.trying(claim):
        raise KeyboardInterrupt
    assert two.claim(1) is not None


def test_a_storage_that_is_away_for_a_moment_costs_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    one = shop.worker()
    claim = one.claim(2)
    assert claim
    put, failures = one._storage.set_trial_state_values, [OSError("gone"), OSError("gone")]

    def fails_first(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return put(*args)

    monkeypatch.setattr(one._storage, "set_trial_state_values", fails_first)
    with pytest.raises(StatsNetError, match="can not be used\ncause: gone"):
        one.finish(claim, (0.1, 0.01), 0.01)
    assert one.finish(claim, (0.1, 0.01), 0.01)
    assert one.finish(claim, (0.1, 0.01), 0.01), "it is finished, whoever did not hear of it"


class FailingOnce:
    """Optuna's storage, whose call of this number fails: before it is done, or after, when only the answer is lost."""

    def __init__(self, kept: Any, fails_at: int, *, done: bool) -> None:
        self._kept, self.calls, self._fails_at, self._done = kept, 0, fails_at, done

    def __getattr__(self, name: str) -> Any:
        usual = getattr(self._kept, name)

        def call(*args: Any, **more: Any) -> Any:
            self.calls += 1
            if self.calls != self._fails_at:
                return usual(*args, **more)
            if self._done:
                usual(*args, **more)
            raise ConnectionError("the server closed the connection")

        return call


class InMemory(StudyStorage):
    """A shared storage, without a file."""

    shown = "memory"

    def __init__(self, kept: FailingOnce) -> None:
        self.kept = kept

    def check(self) -> None: ...

    def opened(self) -> Any:
        return self.kept


@pytest.mark.parametrize("done", [False, True])
def test_a_database_may_crash_at_any_moment(shop: Shop, done: bool) -> None:
    """At each call of a search in turn. What a worker began without hearing of it is lost like that of a silent one."""
    import optuna

    fails_at, calls = 0, 1
    while fails_at <= calls:
        fails_at += 1
        kept = FailingOnce(optuna.storages.InMemoryStorage(), fails_at, done=done)
        begin_s, one, finished = shop.clock(), shop.worker(storage=InMemory(kept)), 0
        while len(one.tried()) < 2:
            if (claim := one.claim(2)) is not None:
                finished += one.finish(claim, (0.1, 0.01), 0.01)
            else:
                one.wait()
        calls = kept.calls
        assert finished == len(one.tried()) == 2, fails_at
        assert [(t.design, t.share) for t in one.tried()].count(USUAL) == 1, fails_at
        assert shop.clock() - begin_s <= 2 * HEART.lost_after_s, fails_at
    assert calls > 20


def test_while_the_storage_is_away_nobody_is_silent(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    one, two = shop.worker(), shop.worker(note=said.append)
    claim = one.claim(1)
    assert claim and two.claim(1) is None
    usual = two._storage.get_all_trials

    def away(*args: Any, **more: Any) -> Any:
        shop.clock.now_s += 2 * HEART.lost_after_s
        monkeypatch.setattr(two._storage, "get_all_trials", usual)
        raise OSError("gone")

    monkeypatch.setattr(two._storage, "get_all_trials", away)
    assert two.claim(1) is None
    assert said == [f"the search's storage '{shop.storage.path}' does not answer (gone); it is asked again for 1 s"]
    assert one.finish(claim, (0.1, 0.01), 0.01)


def test_an_error_of_our_own_is_not_the_storage_s(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(trial: Any) -> Any:
        raise KeyError("size")

    one = shop.worker()
    assert one.claim(3)
    monkeypatch.setattr(study, "propose", wrong)
    with pytest.raises(KeyError, match="size"):
        one.claim(3)
    monkeypatch.undo()
    assert one.claim(2), "the trial that was begun does not count"


@pytest.mark.parametrize(("number", "attempts"), [(errno.EACCES, 1), (errno.ENOSPC, 1), (errno.EIO, 2)])
def test_only_what_may_pass_is_tried_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, number: int, attempts: int
) -> None:
    one, asked = shop.worker(), []

    def fails() -> Any:
        asked.append(number)
        raise OSError(number, "it is as it is")

    monkeypatch.setattr(one._study, "ask", fails)
    with pytest.raises(StatsNetError, match=r"can not be used\ncause: .*it is as it is"):
        one.claim(1)
    assert len(asked) == attempts


def test_a_trial_that_got_no_design_is_lost_at_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    one, put, failures = shop.worker(), study.set_usual, [OSError("gone")]

    def fails_first(storage: Any, trial_id: int) -> Any:
        if failures:
            raise failures.pop()
        return put(storage, trial_id)

    monkeypatch.setattr(study, "set_usual", fails_first)
    claim = one.claim(1)
    assert claim and (claim.design, claim.share) == USUAL


def test_a_trial_that_could_not_be_given_up_is_lost_at_the_next_attempt(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database went away while a worker claimed a design, and is back. Else the trial would hold the only place."""
    one, failing = shop.worker(), {"set_usual", "set_trial_state_values"}

    def fails_first(name: str, usual: Any) -> Any:
        def call(*args: Any) -> Any:
            if name in failing:
                failing.remove(name)
                raise OSError("gone")
            return usual(*args)

        return call

    monkeypatch.setattr(study, "set_usual", fails_first("set_usual", study.set_usual))
    give_up = fails_first("set_trial_state_values", one._storage.set_trial_state_values)
    monkeypatch.setattr(one._storage, "set_trial_state_values", give_up)
    claim = one.claim(1)
    assert not failing, "both failed"
    assert claim and (claim.design, claim.share) == USUAL


def test_a_study_that_is_removed_meanwhile(shop: Shop) -> None:
    one = shop.worker()
    claim = one.claim(1)
    assert claim
    one._storage.delete_study(one._study._study_id)
    with pytest.raises(StatsNetError, match="can not be used"):
        one.claim(2)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"seed": 1}, "its seed is 0, here 1"),
        ({"budget_s": 0.02}, "its budget is not given, here 20 ms"),
        ({"mode": "training"}, "its mode is inference, here training"),
        ({"effort": QUICK}, "its effort is normal, here quick"),
        ({"mix": mix_of(moved(small_signature()))}, "its mix is another"),
        ({"environment": {"device": "cpu", "device_name": "6502"}}, "its machine is another (device_name: Z80 against"),
    ],
)
def test_who_is_of_another_search_is_refused(shop: Shop, changes: dict[str, Any], cause: str) -> None:
    shop.worker("s")
    shop.worker("s")
    with pytest.raises(UsageError, match=r"the study 's' in '.*j' is of another search") as caught:
        shop.worker("s", **changes)
    assert cause in caught.value.cause
    assert "--study" in caught.value.hint
    shop.worker("another", **changes)


def test_searches_for_other_mixes_have_other_names(shop: Shop) -> None:
    other = {"mix": mix_of(small_signature(), small_signature())}
    assert shop.worker().name != shop.worker(**other).name
    assert shop.worker().name == shop.worker().name


def test_the_order_of_a_mix_does_not_matter() -> None:
    mix = mix_of(small_signature(), moved(small_signature()))
    assert identity(mix=mix) == identity(mix=dataclasses.replace(mix, members=mix.members[::-1]))


def test_a_study_of_another_program(shop: Shop) -> None:
    one = shop.worker("s")
    one._study.set_user_attr("search", ["diary"])
    with pytest.raises(UsageError, match="another version of StatsNet"):
        shop.worker("s")


def test_a_journal_of_its_own_has_no_other_worker(tmp_path: Path) -> None:
    storage = OwnJournal(path=tmp_path / "j", resume=True)
    with storage.held():
        killed = Study(storage, identity())
        assert killed.claim(1)
        again = Study(storage, identity())
        assert again.claim(1), "whoever had it has ended"


def test_one_alone_and_several_together_keep_out_of_each_other_s_way(tmp_path: Path) -> None:
    with shared_journal(tmp_path / "j"), shared_journal(tmp_path / "j"):
        with pytest.raises(UsageError, match="another search writes"), held_journal(tmp_path / "j"):
            pass
    (tmp_path / "k").write_bytes(b"")
    with held_journal(tmp_path / "k"):
        with pytest.raises(UsageError, match="another search writes"), shared_journal(tmp_path / "k"):
            pass


def test_a_line_that_a_killed_worker_left_unfinished_goes(shop: Shop) -> None:
    one = shop.worker()
    claim = one.claim(2)
    assert claim
    with open(shop.storage.path, "ab") as journal:
        journal.write(b'{"op_code":4,"work')
    two = shop.worker()
    assert one.finish(claim, (0.1, 0.01), 0.01)
    assert len(two.tried()) == 1
