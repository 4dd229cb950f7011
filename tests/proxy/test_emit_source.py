"""The text of network.py: it is legal, complete, free of what nothing uses, and always the same."""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import statsnet
from statsnet.blocks import KINDS
from statsnet.proxy.run_file import run_source
from statsnet.proxy.towers import Placed, Tower, build_towers
from statsnet.signatures.documents import SpecBlock, TowerPurpose

Source = Callable[..., str]
MODES = ["inference", "training"]
CODE = """
import hashlib, json, sys
from statsnet.blocks.base import with_tuples
from statsnet.proxy.emit import network_source
from statsnet.proxy.towers import Placed, build_towers
for mode, blocks in json.loads(sys.argv[1]).items():
    rows = [(Placed(kind=k, config=with_tuples(c), optimizer=o), n) for k, c, o, n in blocks]
    text = network_source(build_towers(rows), title="A test", spec_id="sha256:0", mode=mode, dtype="float32", seed=0)
    print(hashlib.sha256(text.encode()).hexdigest())
"""


@pytest.mark.parametrize("mode", MODES)
def test_every_kind_is_there_once(mode: str, write_source: Source) -> None:
    tree = ast.parse(write_source(mode))
    classes = [n.name for n in tree.body if isinstance(n, ast.ClassDef)]
    parts = [k.module for k in KINDS.values()] + [h for k in KINDS.values() for h in k.helpers if isinstance(h, type)]
    kept = {"ReadOn"} if mode == "training" else set()
    assert sorted(classes) == sorted({"Block", "Proxy", *kept, *(part.__name__ for part in parts)})


@pytest.mark.parametrize("mode", MODES)
def test_imports_torch_and_the_standard_library_alone(mode: str, write_source: Source) -> None:
    """And pynvml, which it can do without: networks run by themselves where it is not installed, too."""
    for node in ast.walk(ast.parse(write_source(mode))):
        if isinstance(node, ast.Import):
            roots = {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            roots = {str(node.module).partition(".")[0]}
        else:
            continue
        assert roots <= {"torch", "pynvml", *sys.stdlib_module_names}


@pytest.fixture(scope="module")
def variants(write_source: Source, small_blocks: list[Any]) -> dict[str, str]:
    """Networks of all blocks and of one kind each, so that each shows what only others use."""
    texts = {mode: write_source(mode) for mode in MODES} | {"run.py": run_source()}
    for kind, config, _ in small_blocks:
        for mode, optimizer in (("inference", None), ("training", None), ("training", "sgd")):
            towers = build_towers([(Placed(kind=kind, config=config, optimizer=optimizer), 2)])
            texts[f"{kind} {mode} {optimizer}"] = write_source(mode, towers)
    return texts


def test_nothing_is_unused(variants: dict[str, str]) -> None:
    for name, text in variants.items():
        tree = ast.parse(text)
        assert not (defined(tree) - used(tree) - {"main"}), name  # a network calls run.py's main


def defined(tree: ast.Module) -> set[str]:
    """Names that a module's top level binds, imports included."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(a.asname or a.name).partition(".")[0] for a in node.names}
    return names


def used(tree: ast.Module) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def test_ruff_finds_nothing(variants: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    for number, text in enumerate(variants.values()):
        (tmp_path / f"network_{number}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--line-length", "120"]
    done = subprocess.run(
        [*command, "--select", "E,F,W,I,B", str(tmp_path)], capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_same_blocks_give_the_same_bytes(
    write_source: Source, count_blocks: Callable[..., list[tuple[Placed, int]]]
) -> None:
    """In another process too, in whatever order they come."""
    texts = [write_source(mode) for mode in MODES]
    assert [write_source(mode, title="A test") for mode in MODES] == texts, "written anew"
    rows = {m: [[b.kind, b.config, b.optimizer, n] for b, n in reversed(count_blocks(m))] for m in MODES}
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "12345",
        "PYTHONPATH": str(Path(statsnet.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(rows)],
        env=environment, capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [hashlib.sha256(text.encode()).hexdigest() for text in texts]


def test_layout(write_source: Source, count_blocks: Callable[..., list[tuple[Placed, int]]]) -> None:
    """Defaults are left out; equal neighbours are written once; long calls are broken between arguments."""
    conv = {
        "batch": 10, "channels": 128, "size": (56, 56), "filters": 128, "kernel": (3, 3), "stride": (1, 1),
        "padding": (1, 1), "groups": 1, "bias": False, "norm": True, "activation": "relu",
    }  # fmt: skip
    towers = [
        Tower(blocks=(Placed(kind="conv", config=conv, optimizer="sgd"),) * 3),
        *[Tower(blocks=(Placed(kind="softmax", config={"shape": (9,), "axis": 0}),))] * 4,
    ]
    text = write_source("training", towers)
    layout = text[text.index("def towers()") :].partition("\n\n\n")[0]
    assert (
        layout
        == """\
def towers() -> list[nn.Sequential]:
    return [
        nn.Sequential(
            *stepped(
                "sgd",
                *repeat(
                    3, Conv, batch=10, channels=128, size=(56, 56), filters=128, kernel=(3, 3), stride=(1, 1),
                    padding=(1, 1), norm=True, activation="relu",
                ),
            ),
        ),
        *(nn.Sequential(Softmax(shape=(9,), axis=0)) for _ in range(4)),
    ]"""
    )


def test_any_kind_may_stand_several_times_in_a_row(write_source: Source, small_blocks: list[Any]) -> None:
    """A dimension of a block may be called as anything in `repeat` is."""
    for kind, config, _ in small_blocks:
        text = write_source("inference", [Tower(blocks=(Placed(kind=kind, config=config),) * 2)])
        assert "*repeat(" in text
        names: dict[str, Any] = {"__name__": kind}
        exec(compile(text, "network.py", "exec"), names)
        (tower,) = names["towers"]()
        assert [type(block).__name__ for block in tower] == [KINDS[kind].module.__name__] * 2


@pytest.mark.parametrize(
    "changes",
    [
        {"spec_id": 'x"\nimport os'},
        {"mode": "both"},
        {"dtype": "float32; import os"},
        {"dtype": "1e999"},
        {"towers": [Tower(blocks=(Placed(kind="reduce", config={"function": "a-b", "shape": (2,)}),))]},
        {"towers": [Tower(blocks=(Placed(kind="softmax", config={"shape": ("a b",)}),))]},
        {"towers": [Tower(blocks=(Placed(kind="reduce", config={"function": "save", "shape": (2,), "axes": "x"}),))]},
    ],
)
def test_only_checked_data_becomes_code(changes: dict[str, Any], write_source: Source) -> None:
    with pytest.raises(ValueError, match="cannot stand in a network"):
        write_source(**{"mode": "inference", **changes})


def test_a_kind_holds_no_words_but_its_own(small_blocks: list[Any]) -> None:
    """Some name functions of torch: `save` would write a file."""
    for name, config, _ in small_blocks:
        kind = KINDS[name]
        kind.check(config)
        for argument in config if kind.arguments(config) is None else ():
            with pytest.raises(ValueError, match="cannot stand in a network"):
                kind.check({**config, argument: "save"})


OPERATOR = {
    "operator": ("cumsum", "default"), "spelling": "torch", "operands": (("own", (4, 4), ()), ("int64", (2,), ())),
    "arguments": (("operand", 0), ("number", 0), ("dtype", "float64")), "output": -1,
}  # fmt: skip


def test_no_text_of_an_operator_becomes_code(write_source: Source) -> None:
    """Wherever it stands."""
    assert "torch.cumsum(x, 0, dtype=torch.float64)" in write_source(
        "inference", [Tower(blocks=(Placed(kind="operator", config=with_hostile_text(OPERATOR, -1)),))]
    )
    for place in range(9):  # so many it has
        hostile = with_hostile_text(OPERATOR, place)
        assert hostile != OPERATOR
        with pytest.raises((ValueError, LookupError)):
            write_source("inference", [Tower(blocks=(Placed(kind="operator", config=hostile),))])
        with pytest.raises(ValueError, match="is no word"):
            SpecBlock(kind="operator", config=hostile, optimizer=None)


def with_hostile_text(value: Any, place: int) -> Any:
    """The value with one of its texts, counted from 0, replaced by code."""
    left = itertools.count()

    def changed(value: Any) -> Any:
        if isinstance(value, str):
            return "float32 if print() else torch.float32" if next(left) == place else value
        if isinstance(value, dict):
            return {name: changed(v) for name, v in value.items()}
        return tuple(map(changed, value)) if isinstance(value, tuple) else value

    return changed(value)


def test_any_title_is_a_docstring(write_source: Source) -> None:
    text = write_source("inference", title='A """ mix \\ of ' + "many " * 40 + '"')
    tree = ast.parse(text)
    assert "many many" in str(ast.get_docstring(tree))
    assert max(map(len, text.splitlines())) <= 120


def test_each_tower_says_what_it_stands_for(write_source: Source) -> None:
    """Equal neighbours share a comment and add up; nothing in a name ends the comment."""

    def tower(size: int, share: float, *members: str) -> Tower:
        purpose = TowerPurpose(step_share=share, categories=("data_arrangement", "softmax"), members=members)
        return Tower(blocks=(Placed(kind="softmax", config={"shape": (size,), "axis": 0}),), purpose=purpose)

    towers = [tower(9, 0.25, "cv/a"), tower(9, 0.125, "cv/a"), tower(8, 0.1, "x\nimport os", "y\u2028z"), tower(7, 0)]
    text = write_source("inference", towers)
    comments = [line.strip() for line in text[text.index("def towers()") :].splitlines() if "% of the step" in line]
    assert comments == [
        "# 37.5 % of the step: data arrangement, softmax, as in cv/a",
        "# 10.0 % of the step: data arrangement, softmax, as in x?import os, y?z",
        "# 0.0 % of the step: data arrangement, softmax",
    ]


def test_without_measured_shares_nothing_is_claimed(write_source: Source) -> None:
    assert "of the step:" not in write_source("inference")
