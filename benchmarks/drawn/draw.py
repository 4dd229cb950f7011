"""From a seed to six workloads and three mixes of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from random import Random

import msgspec

from benchmarks.drawn.recipe import Names, Recipe, draw_recipe
from statsnet.errors import MeasurementError, StatsNetError
from statsnet.measure.task import Context, Task
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.capture import capture_step
from statsnet.profiling.representatives import Work
from statsnet.progress import Progress, Report
from statsnet.signatures.canonical import write_text_atomically
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.database import MODES
from statsnet.workloads import make_step

WORKLOADS = 6
SHORTEST_S, LONGEST_S = 20e-3, 300e-3
TOLERANCE = 1.5
"""An estimated step may be this many times shorter or longer."""

FIRST_BATCH, LARGEST_BATCH = 2, 4096
MOST_TRIES = 60
"""Recipes for one workload; more than half of a library's classes run, as a rule."""

SIZES_OF_MIXES = ((2, 2, 2), (1, 2, 3))
WEIGHTS = (0.2, 0.3, 0.5, 0.7, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A workload that runs. `rejected` says which recipes were drawn before, and why they are not used."""

    recipe: Recipe
    batch: int
    counted: Counted
    rejected: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A workload of a mix, by its place in the draw."""

    workload: int
    weight: float


Mix = tuple[Member, ...]


def mode_of(seed: str) -> str:
    """Days take turns; any other seed decides by chance."""
    try:
        return MODES[date.fromisoformat(seed).toordinal() % len(MODES)]
    except ValueError:
        return Random(f"{seed} mode").choice(MODES)


def mixes_of(seed: str) -> tuple[Mix, ...]:
    """Three mixes; each workload is in one of them, so that none is measured twice. Weights sum to 1."""
    random = Random(f"{seed} mixes")
    order = random.sample(range(WORKLOADS), WORKLOADS)
    mixes: list[Mix] = []
    for size in random.choice(SIZES_OF_MIXES):
        chosen, order = sorted(order[:size]), order[size:]
        weights = [random.choice(WEIGHTS) for _ in chosen]
        mixes.append(tuple(Member(workload=n, weight=w / sum(weights)) for n, w in zip(chosen, weights, strict=True)))
    return tuple(mixes)


def draw_workload(
    seed: str,
    place: int,
    mode: str,
    names: Callable[[], Names],
    folder: Path,
    count: Count,
    report: Report,
    *,
    tiny: bool = False,
) -> Workload:
    """The first recipe of this seed and place that runs in this mode, with a batch for which its step is long enough.

    Its file is `workload_<place>.py` in the folder; beside it a file of the same name keeps the draw, and where that
    is already, nothing is drawn. Raises MeasurementError if MOST_TRIES recipes are rejected.
    """
    kept = folder / f"workload_{place}.draw.json"
    if kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=Workload)
    file = workload_file(folder, place)
    folder.mkdir(parents=True, exist_ok=True)
    rejected: list[str] = []
    for number in range(MOST_TRIES):
        recipe = draw_recipe(f"{seed}/{place}/{number}", names(), from_grammar=place % 2 == 1)
        report(Progress(stage=f"drawing workload {place}: {recipe.label}"))
        write_text_atomically(file, recipe.text(FIRST_BATCH, tiny=tiny))
        wanted_s = math.exp(Random(f"{recipe.seed} time").uniform(math.log(SHORTEST_S), math.log(LONGEST_S)))
        try:
            batch, counted = _sized(Model(target=target_of(file), mode=mode), wanted_s, count, tiny)
        except StatsNetError as error:
            cause = " ".join(f"{error.message}: {error.cause}".split())
            rejected.append(f"{recipe.label}: {cause[:200]}")
            continue
        write_text_atomically(file, recipe.text(batch, tiny=tiny))
        drawn = Workload(recipe=recipe, batch=batch, counted=counted, rejected=tuple(rejected))
        write_text_atomically(kept, msgspec.json.format(msgspec.json.encode(drawn)).decode() + "\n")
        return drawn
    raise MeasurementError(
        f"none of {MOST_TRIES} drawn workloads runs", cause=rejected[-1], hint="install the libraries of models"
    )


def workload_file(folder: Path, place: int) -> Path:
    return folder / f"workload_{place}.py"


def target_of(file: Path) -> str:
    """As `statsnet profile` takes it."""
    return f"{file.resolve()}:factory"


def _sized(model: Model, wanted_s: float, count: Count, tiny: bool) -> tuple[int, Counted]:
    """The batch for which a step takes about as long as wanted, and its counts there."""
    first = count(CountStep(model=model))
    if tiny:
        return FIRST_BATCH, first
    if not first.calls:
        raise MeasurementError("it computes nothing", cause="its step has no operator")
    scale = wanted_s / first.estimate_s
    batch = min(max(round(FIRST_BATCH * scale), FIRST_BATCH), LARGEST_BATCH)
    counted = first
    if batch != FIRST_BATCH:
        counted = count(CountStep(model=replace(model, batch=batch)))
    if not SHORTEST_S / TOLERANCE <= counted.estimate_s <= LONGEST_S * TOLERANCE:
        raise MeasurementError(
            "its step is too short or too long", cause=f"{counted.estimate_s * 1e3:.0f} ms with a batch of {batch}"
        )
    return batch, counted


FLOPS_PER_S, BYTES_PER_S, CALL_S = 8e10, 8e9, 5e-6
"""Rates of two cores, roughly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A step's work, and about how long it takes from counts alone, so that a draw is the same on every machine."""

    flops: float
    bytes_moved: float
    calls: int

    @property
    def estimate_s(self) -> float:
        return self.flops / FLOPS_PER_S + self.bytes_moved / BYTES_PER_S + self.calls * CALL_S


@dataclass(frozen=True, kw_only=True)
class CountStep(Task[Counted]):
    """Builds a model and runs one step. Raises what `build` and the step raise."""

    model: Model

    def run(self, context: Context) -> Counted:
        step = make_step(self.model.build("cpu"))
        calls = [call for call in capture_step(step, device="cpu") if not is_metadata(call.op)]
        work = Work.of(calls)
        return Counted(flops=work.flops, bytes_moved=work.moved, calls=len(calls))


Count = Callable[[CountStep], Counted]
