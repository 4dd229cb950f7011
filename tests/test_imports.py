"""The layers: what may import what, who knows torch, who prints."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import statsnet

ROOT = Path(statsnet.__file__).parent
LAYERS = (
    {"errors", "deadline"},
    {"units", "environment", "progress", "display"},
    {"signatures"},
    {"workloads"},
    {"measure"},
    {"profiling", "blocks"},
    {"proxy"},
    {"synthesis", "analysis", "recordings"},
    {"devices", "evaluation", "exports"},
    {"reporting"},
    {"cli", "api"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MODULES = sorted(ROOT.rglob("*.py"))
NEEDS_NO_TORCH = ("signatures", "analysis", "errors", "units", "environment", "progress", "deadline", "display", "api")


def part_of(path: Path) -> str:
    """The package or module right below `statsnet` that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(node: ast.AST) -> list[str]:
    """Full names of the modules that an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        return [f"{module}.{alias.name}" for alias in node.names] if module == "statsnet" else [module]
    return []


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def edges() -> list[tuple[str, str, str]]:
    """(file, part that imports, part that is imported), imports inside functions included."""
    return [
        (str(path.relative_to(ROOT)), part_of(path), name.split(".")[1])
        for path in MODULES
        for node in ast.walk(tree_of(path))
        for name in imported(node)
        if name.startswith("statsnet.") and part_of(path) not in ("__init__", "__main__")
    ]


def test_every_part_has_a_layer() -> None:
    assert {part_of(p) for p in MODULES} <= {*LEVEL, "__init__", "__main__"}


def test_imports_point_down_only() -> None:
    wrong = [
        f"{file} imports {target}"
        for file, source, target in edges()
        if target in LEVEL and source != target
        if LEVEL[target] >= LEVEL[source]
    ]
    assert not wrong


def test_no_import_is_relative() -> None:
    for path in MODULES:
        assert not any(isinstance(n, ast.ImportFrom) and n.level for n in ast.walk(tree_of(path))), path


def at_import(tree: ast.Module) -> list[ast.AST]:
    """Nodes that run when a module is imported: no function bodies, nothing for type checkers alone."""
    nodes: list[ast.AST] = []
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        nodes.append(node)
        for child in ast.iter_child_nodes(node):
            checking = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            if not checking and not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                stack.append(child)
    return nodes


@pytest.mark.parametrize("part", [*NEEDS_NO_TORCH, "__init__"])
def test_the_lower_layers_import_no_torch(part: str) -> None:
    for path in MODULES:
        if part_of(path) == part:
            names = {n.partition(".")[0] for node in at_import(tree_of(path)) for n in imported(node)}
            assert "torch" not in names, path


CODE = """
import json, sys
sys.modules["torch"] = None
import statsnet
from statsnet import environment, errors, units
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.model import Cluster, Measurement, Memory, Signature, WorkloadName
from statsnet.signatures.storage import load_signature, save_signature
from pathlib import Path

folder = Path(sys.argv[1])
relu = Cluster(op="aten.relu.default", phase="forward", category="activation", calls=1.0,
               args=({"shape": [8], "dtype": "float32"},), outputs=({"shape": [8], "dtype": "float32"},))
signature = Signature(mode="inference", dtype="float32", clusters=(relu,),
                      workload=WorkloadName(domain="cv", name="tiny", preset="small"),
                      memory=Memory(parameter_count=0, parameter_bytes=0, buffer_bytes=0, input_bytes=0))
save_signature(folder / "here" / "cv" / "tiny.inference.json", signature)
again = load_signature(folder / "here" / "cv" / "tiny.inference.json")
assert again.id == signature.id
mix = resolve_mix("cv:1", "inference", ProfilesDB(folder))
print([m.name for m in mix.members])
"""


def test_signatures_and_mixes_need_no_torch(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)],
        env={"PYTHONPATH": str(ROOT.parent), "PATH": ""}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("['cv/tiny']", "")


PRINTERS = {"measure/timing.py"}
"""Pasted into every proxy, where it is the command line."""

EXITERS = {
    "measure/timing.py",
    "measure/process_main.py",
    "measure/process_server.py",
    "measure/end_with_parent.py",
    "__main__.py",
}
"""Programs of their own."""


def calls(path: Path, names: set[str]) -> list[int]:
    """Lines of a file that call one of the functions."""
    return [
        node.lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names
    ]


@pytest.mark.parametrize(
    ("names", "allowed"),
    [
        ({"print", "sys.stdout.write", "sys.stderr.write"}, PRINTERS),
        ({"sys.exit", "exit", "quit", "os._exit"}, EXITERS),
    ],
)
def test_only_the_command_line_prints_and_exits(names: set[str], allowed: set[str]) -> None:
    for path in MODULES:
        if part_of(path) != "cli" and str(path.relative_to(ROOT)) not in allowed:
            assert not calls(path, names), path


def test_only_synthesis_knows_optuna() -> None:
    for path in MODULES:
        names = {n.partition(".")[0] for node in ast.walk(tree_of(path)) for n in imported(node)}
        assert part_of(path) == "synthesis" or "optuna" not in names, path


def test_no_benchmark_imports_the_command_line_but_to_fuzz_it() -> None:
    for path in (ROOT.parent / "benchmarks").rglob("*.py"):
        names = [n for node in ast.walk(tree_of(path)) for n in imported(node)]
        assert path.name == "commands.py" or not any(f"{n}.".startswith("statsnet.cli.") for n in names), path


def test_the_demo_s_workloads_need_no_library_but_transformers() -> None:
    """What `statsnet[demo]` brings: the other libraries of `statsnet[models]` would make `make demo` slower."""
    brought = {"torch", "numpy", "transformers", "statsnet", "reference_workloads", *sys.stdlib_module_names}
    for domain in ("recsys", "cv"):
        for path in (ROOT.parent / "reference_workloads" / domain).glob("*.py"):
            names = {n.partition(".")[0] for node in ast.walk(tree_of(path)) for n in imported(node)}
            assert names <= brought, path
