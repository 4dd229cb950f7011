"""Models that no table knows: drawn from a seed, written as factories that run, compared by their files alone."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from benchmark_programs import Program
from measuring import member, write_proxy

from benchmarks.drawn.draw import (
    FIRST_BATCH,
    LONGEST_S,
    MOST_TRIES,
    SHORTEST_S,
    WORKLOADS,
    Counted,
    CountStep,
    Member,
    Workload,
    draw_workload,
    mixes_of,
    mode_of,
    target_of,
    workload_file,
)
from benchmarks.drawn.making import DrawnMix, comparisons_of, make_network, members_of, profile
from benchmarks.drawn.recipe import GRAMMAR, LIBRARIES, Names, Recipe, draw_recipe
from benchmarks.drawn.table import UnseenRow, add, markdown, read
from benchmarks.ways.comparisons import PROXY
from statsnet.errors import MeasurementError, WorkloadError
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model, TimeWorkload
from statsnet.progress import Progress, silent
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.member_key import key_of, keyed
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.storage import save_signature
from statsnet.workloads.settings import BASELINE

NAMES: Names = {"transformers": ["BertModel", "ViTModel"], "monai": ["UNet"]}
CLASSES = {
    "transformers": "LlamaForCausalLM",
    "diffusers": "UNet2DModel",
    "torch_geometric": "conv.GATConv",
    "monai": "SegResNet",
}


def estimated(seconds: float) -> Counted:
    return Counted(flops=0.0, bytes_moved=0.0, calls=round(seconds / 5e-6))


def drawn(folder: Path, count: Any, place: int = 1, **more: Any) -> Workload:
    return draw_workload("s", place, "inference", lambda: NAMES, folder, count, silent, **more)


def test_a_seed_decides_the_mode_the_mixes_and_every_file() -> None:
    assert mode_of("2026-11-26") != mode_of("2026-11-27")
    assert mode_of("2026-11-26") == mode_of("2026-11-28")
    for seed in ("2026-11-26", "any", "b"):
        mixes = mixes_of(seed)
        assert mixes == mixes_of(seed)
        assert len(mixes) == 3
        assert sorted(m.workload for mix in mixes for m in mix) == list(range(WORKLOADS))
        assert all(sum(m.weight for m in mix) == pytest.approx(1.0) for mix in mixes)
        for from_grammar in (True, False):
            recipe = draw_recipe(f"{seed}/0/0", NAMES, from_grammar=from_grammar)
            assert recipe == draw_recipe(f"{seed}/0/0", NAMES, from_grammar=from_grammar)
            assert recipe.text(4) == recipe.text(4)
            assert (recipe.source == GRAMMAR) == from_grammar
    assert len({mixes_of(str(seed)) for seed in range(10)}) == 10
    assert len({Recipe(source=GRAMMAR, name="", seed=str(seed)).text(2) for seed in range(50)}) == 50


def test_without_libraries_all_is_of_the_grammar() -> None:
    assert draw_recipe("s", {}, from_grammar=False).source == GRAMMAR


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_networks_of_the_grammar_run(mode: str, tmp_path: Path) -> None:
    for seed in range(12):
        file = tmp_path / f"workload_{seed}.py"
        file.write_text(Recipe(source=GRAMMAR, name="", seed=f"run/{seed}").text(2, tiny=True))
        assert CountStep(model=Model(target=target_of(file), mode=mode)).run(Context()).calls > 0


@pytest.mark.parametrize("library", LIBRARIES)
def test_classes_of_libraries_run(library: str, tmp_path: Path) -> None:
    if not find_spec(library):
        pytest.skip(f"{library} is not installed")
    file = tmp_path / "workload.py"
    file.write_text(Recipe(source=library, name=CLASSES[library], seed="run").text(2, tiny=True))
    for mode in ("inference", "training"):
        counted = CountStep(model=Model(target=target_of(file), mode=mode)).run(Context())
        assert counted.calls > 0 and counted.flops > 0


def test_a_batch_makes_a_step_long_enough(tmp_path: Path) -> None:
    def count(task: CountStep) -> Counted:
        return estimated(1e-3 * (task.model.batch or FIRST_BATCH))

    workload = drawn(tmp_path, count)
    assert SHORTEST_S <= 1e-3 * workload.batch <= LONGEST_S
    assert f"batch: int = {workload.batch}" in workload_file(tmp_path, 1).read_text()
    assert workload.counted.estimate_s == pytest.approx(1e-3 * workload.batch)


def test_what_does_not_run_or_takes_too_long_is_drawn_anew(tmp_path: Path) -> None:
    outcomes = iter([WorkloadError("no", cause="a reason"), estimated(5.0), estimated(0.0), estimated(0.1)])

    def count(task: CountStep) -> Counted:
        if task.model.batch is not None:
            return estimated(0.1)
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    workload = drawn(tmp_path, count, place=0)
    assert workload.recipe.seed == "s/0/3"
    why = ("a reason", "too long", "computes nothing")
    assert all(part in line for part, line in zip(why, workload.rejected, strict=True))

    def never(task: CountStep) -> Counted:
        raise WorkloadError("no", cause="never")

    with pytest.raises(MeasurementError, match=f"none of {MOST_TRIES}"):
        drawn(tmp_path, never)


def test_a_kept_draw_is_not_drawn_again(tmp_path: Path) -> None:
    first = drawn(tmp_path, lambda task: estimated(0.1))
    text = workload_file(tmp_path, 1).read_text()

    def no_more(task: CountStep) -> Counted:
        raise AssertionError("it is drawn again")

    assert drawn(tmp_path, no_more) == first
    assert workload_file(tmp_path, 1).read_text() == text


@pytest.fixture
def mix(tmp_path: Path) -> DrawnMix:
    """A mix that is profiled and has its proxy, as an interrupted run leaves it."""
    signatures = [m.signature for m in resolve_mix("cv/alexnet:1,nlp/gpt2:1", "inference", ProfilesDB()).members]
    members = (Member(workload=2, weight=0.25), Member(workload=5, weight=0.75))
    made = DrawnMix(folder=tmp_path, number=1, mode="inference", members=members)
    for part, signature in zip(members, signatures, strict=True):
        save_signature(made.signature(part.workload), signature)
        workload_file(tmp_path, part.workload).write_text("def factory(): ...\n")
    made.network(PROXY).mkdir()
    # A proxy sorts its members, and knows them by the keyed ids of their signatures alone.
    ids = [keyed(s.id, key_of(made.signature(m.workload))) for s, m in zip(signatures, members, strict=True)]
    write_proxy(made.network(PROXY), member("signature-b", 0.75, ids[1]), member("signature-a", 0.25, ids[0]))
    return made


def test_members_without_names_are_measured_as_their_models(mix: DrawnMix) -> None:
    assert [(m.target, m.weight) for m in members_of(mix)] == [
        (target_of(workload_file(mix.folder, 5)), 0.75),
        (target_of(workload_file(mix.folder, 2)), 0.25),
    ]
    (compared,) = comparisons_of(mix, [PROXY])
    tasks = [subject.job(BASELINE).task for _, subject in compared.suite]
    assert all(isinstance(task, TimeWorkload) for task in tasks)
    assert [weight for weight, _ in compared.suite] == [0.75, 0.25]
    assert len({subject.identity for subject in compared.subjects()}) == 3


def test_what_is_made_is_not_made_again(mix: DrawnMix) -> None:
    said: list[Progress] = []
    profile(mix, said.append)
    make_network(mix, PROXY, said.append)
    assert said == []
    names = str(mix.folder)
    assert mix.text == f"{names}/signature_2.inference.json:0.25,{names}/signature_5.inference.json:0.75"


def row(mix: int, error: float, **more: Any) -> UnseenRow:
    usual: dict[str, Any] = {
        "seed": "2026-01-31", "mode": "inference", "mix": mix, "members": "a 1.00", "way": PROXY,
        "setting": "threads=1", "suite_factor": 2.0, "proxy_factor": 2.0 * (1 + error), "error": error,
        "kernel_class_points": 4.0, "category_points": 1.0, "coverage": 0.97, "suite_step_s": 0.2,
        "proxy_step_s": 0.005, "suite_rounds": 3, "proxy_rounds": 3, "machine": "m", "date": "2026-01-31",
    }  # fmt: skip
    return UnseenRow(**{**usual, **more})


def test_the_table_grows_and_says_what_all_of_it_says(tmp_path: Path) -> None:
    path = tmp_path / "unseen.csv"
    add(path, [row(0, 0.5), row(0, -0.01, setting="x")])
    add(path, [row(0, 0.02), row(1, 0.03, kernel_class_points=6.0, coverage=0.5), row(1, 0.9, way="random")])
    assert [r.error for r in read(path)] == [0.02, -0.01, 0.03, 0.9]  # the first was measured again
    lines = markdown(read(path)).splitlines()
    assert "| 200 → 5.0 ms | 4.0 | 1.0 | 97.0% | 2.00, 2.04: **+2.0 %** | 2.00, 1.98: **−1.0 %** |" in lines[2]
    assert lines[3].endswith("50.0% | 2.00, 2.06: **+3.0 %** | – |")
    proxies, others, goal = lines[-3:]
    assert proxies.startswith("| statsnet, inference | 3 | 2.0 % | 2.9 % | 3.0 % | +1.3 % | 67% | 1 of 2 | 1 of 2 |")
    assert others.startswith("| random, inference | 1 | 90.0 %")
    assert goal.startswith("| goal |  | 3% | 10% |")


def test_floors_and_modes_stand_apart(tmp_path: Path) -> None:
    text = markdown([row(0, 0.1), row(0, 0.2, mode="training"), row(0, 0.3, floor_s=0.02)])
    assert "statsnet, training | 1 | 20.0 %" in text
    assert "statsnet, both modes | 2 | 15.0 %" in text
    assert "statsnet, floor 20 ms, inference | 1 | 30.0 %" in text


@pytest.mark.parametrize(
    ("option", "text", "cause"),
    [("--seed", "../x", "is no seed"), ("--floor", "20", "'20' is not a duration"), ("--rounds", "0", "1 or more")],
)
def test_bad_input_is_refused(option: str, text: str, cause: str, run_program: Program) -> None:
    done = run_program("unseen.py", option, text)
    assert done.returncode == 2
    assert cause in done.stderr


def test_a_table_s_rows_from_a_day_on_are_printed(tmp_path: Path, run_program: Program) -> None:
    path = tmp_path / "unseen.csv"
    add(path, [row(0, 0.1, date="2026-11-30"), row(1, 0.2, date="2026-12-01")])
    for options, errors in (([], 2), (["--since", "2026-12-01"], 1)):
        assert f"| statsnet, inference | {errors} |" in run_program("unseen.py", "--kept", path, *options).stdout


def test_a_missing_table_is_named(tmp_path: Path, run_program: Program) -> None:
    assert "is no table of UnseenRows" in run_program("unseen.py", "--kept", tmp_path / "none.csv").stderr
