"""The layers: what may import what, who knows torch, who prints."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from functools import cache
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
PACKAGES = [
    *(path for path in MODULES if path.name == "__init__.py" and path.parent != ROOT),
    ROOT.parent / "benchmarks/__init__.py",
]
NEEDS_NO_TORCH = ("signatures", "analysis", "errors", "units", "environment", "progress", "deadline", "display", "api")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a file imports, by full names, anywhere and as soon as it is imported itself; and the functions that it
    calls by name."""

    imports: frozenset[str]
    early: frozenset[str]
    calls: frozenset[str]


@cache
def facts(path: Path) -> Facts:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    return Facts(
        imports=frozenset(name for node in nodes for name in imported(node)),
        early=frozenset(name for node in at_import(tree) for name in imported(node)),
        calls=frozenset(dotted(node.func) for node in nodes if isinstance(node, ast.Call)),
    )


def imported(node: ast.AST) -> list[str]:
    """Full names of the modules that an import statement names; a relative one begins with a dot."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        return [f"{module}.{alias.name}" for alias in node.names] if module == "statsnet" else [module]
    return []


def dotted(node: ast.expr) -> str:
    """`sys.exit`; empty for what is no name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def at_import(tree: ast.Module) -> list[ast.AST]:
    """Nodes that run when a module is imported: no function bodies, nothing for type checkers alone."""
    nodes: list[ast.AST] = []
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        nodes.append(node)
        for child in ast.iter_child_nodes(node):
            checking = isinstance(child, ast.If) and dotted(child.test).endswith("TYPE_CHECKING")
            if not checking and not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                stack.append(child)
    return nodes


def packages(names: frozenset[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def part_of(path: Path) -> str:
    """The package or module right below `statsnet` that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_every_part_has_a_layer() -> None:
    assert {part_of(p) for p in MODULES} <= {*LEVEL, "__init__", "__main__"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.parent.name)
def test_every_folder_s_docstring_lists_its_files_by_subject(package: Path) -> None:
    lines = (ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or "").splitlines()
    listed = [name.strip() for line in lines if line.startswith("    ") for name in line.rstrip(",").split(",")]
    files = [path.stem for path in package.parent.glob("*.py") if path != package]
    folders = [f"{path.parent.name}/" for path in package.parent.glob("*/__init__.py")]
    assert sorted(listed) == sorted(files + folders)


def test_the_code_map_names_every_folder() -> None:
    code_map = (ROOT.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    folders = [path.parent.name for path in ROOT.glob("*/__init__.py")]
    assert not [name for name in folders if f"\n| `{name}/` |" not in code_map]


def test_imports_point_down_only() -> None:
    """Those inside functions, too; none is relative."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in MODULES
        if (source := part_of(path)) in LEVEL
        for name in facts(path).imports
        if name.startswith("statsnet.") and (target := name.split(".")[1]) in LEVEL and target != source
        if LEVEL[target] >= LEVEL[source]
    ]
    assert not wrong
    assert not [path for path in MODULES if any(name.startswith(".") for name in facts(path).imports)]


@pytest.mark.parametrize("part", [*NEEDS_NO_TORCH, "__init__"])
def test_the_lower_layers_import_no_torch(part: str) -> None:
    assert not [path for path in MODULES if part_of(path) == part and "torch" in packages(facts(path).early)]


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


@pytest.mark.parametrize(
    ("names", "allowed"),
    [
        ({"print", "sys.stdout.write", "sys.stderr.write"}, PRINTERS),
        ({"sys.exit", "exit", "quit", "os._exit"}, EXITERS),
    ],
)
def test_only_the_command_line_prints_and_exits(names: set[str], allowed: set[str]) -> None:
    found = {str(p.relative_to(ROOT)) for p in MODULES if part_of(p) != "cli" and names & facts(p).calls}
    assert found <= allowed


def test_only_synthesis_knows_optuna() -> None:
    assert {part_of(path) for path in MODULES if "optuna" in packages(facts(path).imports)} == {"synthesis"}


def test_no_benchmark_imports_the_command_line_but_to_fuzz_or_kill_it() -> None:
    found = {
        path.name
        for path in (ROOT.parent / "benchmarks").rglob("*.py")
        if any(f"{name}.".startswith("statsnet.cli.") for name in facts(path).imports)
    }
    assert found <= {"commands.py", "interrupted.py"}


def test_the_demo_s_workloads_need_no_library_but_transformers() -> None:
    """What `statsnet[demo]` brings: the other libraries of `statsnet[models]` would make `make demo` slower."""
    brought = {"torch", "numpy", "transformers", "statsnet", "reference_workloads", *sys.stdlib_module_names}
    for domain in ("recsys", "cv"):
        for path in (ROOT.parent / "reference_workloads" / domain).glob("*.py"):
            assert packages(facts(path).imports) <= brought, path
