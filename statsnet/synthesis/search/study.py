"""A search's study: which designs were tried, by whom, and who tries the next one.

Workers know of each other only through the storage. A trial counts towards the number that is asked for while it runs
and once it is finished. A worker says from time to time that it is alive; a trial whose worker has been silent for
long is lost, and another one takes its place.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from statsnet.deadline import Clock
from statsnet.errors import UsageError
from statsnet.progress import silent
from statsnet.signatures.rounding import PRIVATE_DIGITS, rounded
from statsnet.synthesis.problem import Design
from statsnet.synthesis.search.design_space import design_of, is_design, may_be_usual, propose, set_usual
from statsnet.synthesis.search.search_identity import SearchIdentity
from statsnet.synthesis.search.storage_errors import StoragePatience, is_failure
from statsnet.synthesis.search.study_storage import StudyStorage

OWN_STUDY = "statsnet"
"""The name in a journal of its own."""

_IDENTITY = "search"
_BEATS, _BUDGET_S = "beats", "budget_s"
_RETRIES = 20
"""So often another design is drawn in place of one that was tried: designs are few, and trying one takes minutes."""

_BEGINNING_S = 5.0
"""So long after its study appears, whoever began it has surely said what it is of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """How often a worker says that it is alive, after how long a silence its trial is lost, how often one that has
    nothing left to try looks whether others are done, for how long it asks a storage again that failed, and the first
    pause between; in seconds. Silence is what one worker hears by its own clock, because the clocks of machines
    differ."""

    beat_s: float = 15.0
    lost_after_s: float = 120.0
    look_s: float = 5.0
    patience_s: float = 300.0
    pause_s: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A design that this worker tries. `position` counts those before it that are not lost."""

    number: int
    position: int
    design: Design
    share: float
    trial_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignTrial:
    """One tried design. `error` is the fit's measured objective, `share` the part of `budget_s` that was asked for.
    `budget_s` is the budget of that day, because members' times depend on the machine's speed."""

    number: int
    design: Design
    share: float
    error: float
    step_latency_s: float
    budget_s: float

    def to_dict(self, *, is_private: bool) -> dict[str, Any]:
        """With few digits of its error if members are private: it is against exact figures of theirs."""
        told = rounded(self.error, PRIVATE_DIGITS) if is_private else self.error
        return asdict(self) | {"error": told}


class Study:
    """Raises StatsNetError wherever the storage fails, UsageError if the study is of another search. Close it at the
    end."""

    def __init__(
        self,
        storage: StudyStorage,
        identity: SearchIdentity,
        *,
        name: str | None = None,
        heartbeat: Heartbeat = Heartbeat(),
        clock: Clock = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        note: Callable[[str], None] = silent,
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)  # a database that is away is told by ourselves
        self.name = name or (identity.study if storage.shared else OWN_STUDY)
        self.tried_here = 0
        self._where, self._seed, self._heart, self._clock, self._sleep = storage, identity.seed, heartbeat, clock, sleep
        self._patience = StoragePatience(
            errors=storage.errors, limit_s=heartbeat.patience_s, pause_s=heartbeat.pause_s,
            clock=clock, sleep=sleep, note=note,
        )  # fmt: skip
        self._heard: dict[int, tuple[object, float]] = {}
        self._unclaimed: list[Any] = []
        """Trials that were begun in vain, and may not have been given up because the storage was away."""
        self._patience.call(lambda: self._open(identity), opening=True)

    def _open(self, identity: SearchIdentity) -> None:
        import optuna

        self._storage = self._where.opened()
        with contextlib.ExitStack() as failed:
            failed.callback(self.close)
            begun = self._begun()
            # Workers that all draw the same numbers would try the same designs.
            seed = None if self._where.shared else self._seed
            sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=6, multivariate=True)
            self._study = optuna.load_study(study_name=self.name, storage=self._storage, sampler=sampler)
            self._bind(identity, begun)
            if not self._where.shared:  # whoever ran them has ended
                self._lose(self._running())
            failed.pop_all()

    def close(self) -> None:
        self._where.close(self._storage)

    def _begun(self) -> bool:
        """Whether this worker is the one that begins the study."""
        from optuna.exceptions import DuplicatedStudyError
        from optuna.study import StudyDirection

        try:
            self._storage.create_new_study([StudyDirection.MINIMIZE] * 2, self.name)
        except DuplicatedStudyError:
            return False
        return True

    def _bind(self, identity: SearchIdentity, begun_here: bool) -> None:
        """Say what the study is of, or find out whether it is of this search."""
        begun = None if begun_here else self._begun_by()
        if begun is None and not self._trials():
            self._study.set_user_attr(_IDENTITY, identity.to_dict())
            return
        found = identity.differences(begun)
        if not found:
            return
        if self._where.shared:
            raise UsageError(
                f"the study '{self.name}' in '{self._where.shown}' is of another search",
                cause="; ".join(found),
                hint="give all workers the same options on machines of one kind, or begin another study with --study",
            )
        raise UsageError(
            f"'{self._where.shown}' is the journal of another search",
            cause="; ".join(found),
            hint="leave out --resume, or choose another folder",
        )

    def _begun_by(self) -> object:
        """What the study is of. Between beginning it and saying so, another worker needs a moment."""
        begin_s = self._clock()
        while True:
            found: object = self._study.user_attrs.get(_IDENTITY)
            waits = self._where.shared and not self._trials() and self._clock() - begin_s < _BEGINNING_S
            if found is not None or not waits:
                return found
            self._sleep(_BEGINNING_S / 20)

    def claim(self, most: int | None) -> Claim | None:
        """A trial for this worker alone; None if `most` are finished or are being tried by others.

        Numbers of trials are unique, and those that are not lost only become fewer. So a trial with fewer than `most`
        before it is one of the first `most`, whatever others claim at the same time.
        """
        return self._patience.call(lambda: self._claimed(most))

    def _claimed(self, most: int | None, retries: int = _RETRIES) -> Claim | None:
        self._lose([*self._silent(), *self._unclaimed])
        self._unclaimed.clear()
        if most is not None and len(self._alive()) >= most:
            return None
        trial = self._study.ask()
        try:
            before = [t for t in self._alive() if t.number < trial.number]
            if most is not None and len(before) >= most:
                self._lose([trial])
                return None
            usual = not any(may_be_usual(t.params) for t in before)
            try:
                params = set_usual(self._storage, trial._trial_id) if usual else propose(trial)
            except (ValueError, TypeError, ArithmeticError) as error:  # a choice may be anything
                raise self._where.errors.error("it holds trials that choose from other designs") from error
            if retries and any(t.params == params for t in before):
                self._lose([trial])
                return self._claimed(most, retries - 1)
            design, share = design_of(params, self._seed)
        except BaseException:  # a second attempt asks for another trial
            self._unclaimed.append(trial)
            with contextlib.suppress(Exception):  # the first failure is what counts
                self._lose([trial])
            raise
        return Claim(number=trial.number, position=len(before), design=design, share=share, trial_id=trial._trial_id)

    @contextlib.contextmanager
    def trying(self, claim: Claim) -> Iterator[None]:
        """While this worker tries the design, it says so. If that fails, the trial is lost at once."""
        stop = threading.Event()
        thread = threading.Thread(target=self._beat, args=(claim.trial_id, stop), daemon=True)
        if self._where.shared:
            thread.start()
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):  # the first failure is what counts
                self._lose([claim])
            raise
        finally:
            stop.set()
            if self._where.shared:
                thread.join()

    def _beat(self, trial_id: int, stop: threading.Event) -> None:
        from optuna.exceptions import UpdateFinishedTrialError

        beats = 0
        while not stop.wait(self._heart.beat_s):
            beats += 1
            try:
                self._storage.set_trial_user_attr(trial_id, _BEATS, beats)
            except UpdateFinishedTrialError:  # others took it for lost
                break
            except Exception as error:
                if not is_failure(error):
                    raise
                self._patience.saw(error)
        self._storage.remove_session()

    def finish(self, claim: Claim, values: Sequence[float], budget_s: float) -> bool:
        """Whether the result counts: not if this worker was silent for so long that others took the trial for lost."""
        counts = self._patience.call(lambda: self._finished(claim, values, budget_s))
        self.tried_here += counts
        return counts

    def _finished(self, claim: Claim, values: Sequence[float], budget_s: float) -> bool:
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        try:
            self._storage.set_trial_user_attr(claim.trial_id, _BUDGET_S, budget_s)
            self._storage.set_trial_state_values(claim.trial_id, TrialState.COMPLETE, values)
        except UpdateFinishedTrialError:  # lost; or the answer to a first attempt was
            return bool(self._storage.get_trial(claim.trial_id).state == TrialState.COMPLETE)
        return True

    def wait(self) -> None:
        self._sleep(self._heart.look_s)

    def tried(self) -> list[DesignTrial]:
        """All that are finished, in their order."""
        return self._patience.call(lambda: [self._tried(t) for t in self._trials() if _is_finished(t)])

    def _tried(self, trial: Any) -> DesignTrial:
        """Raises StatsNetError for a trial that no search writes."""
        values, budget_s = tuple(trial.values), trial.user_attrs.get(_BUDGET_S)
        times = [v for v in (*values, budget_s) if isinstance(v, int | float) and 0 <= v < math.inf]
        if len(values) != 2 or len(times) != 3 or not is_design(trial.params):
            raise self._where.errors.error(f"its trial {trial.number} is damaged")
        design, share = design_of(trial.params, self._seed)
        error, step_s = values
        return DesignTrial(
            number=trial.number, design=design, share=share, error=error, step_latency_s=step_s, budget_s=budget_s
        )

    def _trials(self) -> list[Any]:
        return list(self._study.get_trials(deepcopy=False))

    def _alive(self) -> list[Any]:
        return [t for t in self._trials() if t.state.name != "FAIL"]

    def _running(self) -> list[Any]:
        return [t for t in self._trials() if t.state.name == "RUNNING"]

    def _silent(self) -> list[Any]:
        """Trials that run, of which nothing new has been heard for too long. While the storage is away, nothing can be
        heard of anybody."""
        running, now_s, found = self._running(), self._clock(), []
        if self._patience.was_away():
            self._heard.clear()
        for trial in running:
            beats = trial.user_attrs.get(_BEATS)
            last, since_s = self._heard.get(trial.number, (None, now_s))
            if trial.number not in self._heard or beats != last:
                self._heard[trial.number] = (beats, now_s)
            elif now_s - since_s > self._heart.lost_after_s:
                found.append(trial)
        return found

    def _lose(self, trials: Sequence[Any]) -> None:
        """Gives up trials or claims."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        for trial in trials:
            trial_id = trial.trial_id if isinstance(trial, Claim) else trial._trial_id
            with contextlib.suppress(UpdateFinishedTrialError):  # another worker was first, or it is finished
                self._storage.set_trial_state_values(trial_id, TrialState.FAIL)


def _is_finished(trial: Any) -> bool:
    """A database is asked for trials' states first, then for their parameters and values, while others write: a trial
    that was running when it was asked may have values now, and lack parameters."""
    return trial.state.name == "COMPLETE" and bool(trial.values)
