"""A file → an ONNX model whose functions are inlined and whose sizes are numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from statsnet.errors import FileFormatError, UsageError, first_line
from statsnet.signatures.gzipped import read_unpacked

MOST_BYTES = 2**31 - 1
"""What protobuf can read. A larger model has its weights in files beside it, which are not needed."""

LONG_BYTES = 2**16
"""Weights of so many bytes are no sizes: only their shapes are needed, and a model is copied several times."""

MOST_NODES = 300_000
"""Of a model, with what its functions hold wherever they are called: a function that calls another twice, which calls
a third twice, doubles with every line of the file. Each node takes a kilobyte."""

MOST_NESTED = 100
"""Functions within functions. Exporters write one for each module at most."""


def onnx_package() -> Any:
    try:
        import onnx
        import onnx.inliner
        import onnx.reference
        import onnx.shape_inference
    except ImportError as error:
        raise UsageError(
            "the package onnx is not installed",
            cause="ONNX models are read with it",
            hint="pip install 'statsnet[onnx]'",
        ) from error
    return onnx


def load_model(path: Path, dims: Mapping[str, int], note: Callable[[str], object]) -> tuple[Any, bool]:
    """The model, and whether it had a symbolic size. Raises as `read_onnx` does."""
    parsed = _parsed(path)
    _check_size(parsed, path)
    model = _inlined(parsed, path)
    was_symbolic = _set_dims(model.graph, dims, path, note)
    return _with_shapes(model, path), was_symbolic


def _parsed(path: Path) -> Any:
    onnx = onnx_package()
    beside = "keep its weights in files beside it: onnx.save_model(..., save_as_external_data=True)"
    data = read_unpacked(path, most=MOST_BYTES, hint=beside)
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's DecodeError is of a package that is not ours
        raise FileFormatError(
            f"'{path}' is no ONNX model", cause=f"{type(error).__name__}: {error}", hint="export it with torch.onnx"
        ) from error
    if not model.HasField("graph") or not model.graph.node:
        raise FileFormatError(
            f"'{path}' is no ONNX model", cause="it holds no graph of operators", hint="export it with torch.onnx"
        )
    for weight in model.graph.initializer:
        if weight.ByteSize() > LONG_BYTES:
            for name in _VALUES:
                weight.ClearField(name)
    return model


_VALUES = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
"""Where protobuf keeps a tensor's elements."""


def _check_size(model: Any, path: Path) -> None:
    try:
        if (count := _nodes_in(model)) <= MOST_NODES:
            return
        cause = f"with its functions it has {count:.3g} operators, at most {MOST_NODES} are read"
    except ValueError as error:
        cause = str(error)
    raise FileFormatError(f"'{path}' cannot be read", cause=cause, hint="export a smaller model, without functions")


_Size = tuple[float, int]
"""Of nodes: how many they are, and how deep their functions call each other."""


def _nodes_in(model: Any) -> float:
    """Of the graph, with every function where it is called. Raises ValueError where that has no end."""
    functions = {_name(f.name, f): f for f in model.functions}
    if len(functions) < len(model.functions):
        raise ValueError("two of its functions have one name")
    known: dict[tuple[str, str, str], _Size] = {}

    def within(nodes: Any, depth: int) -> _Size:
        sizes = [of_node(node, depth) for node in nodes]
        return sum(count for count, _ in sizes), max((height for _, height in sizes), default=0)

    def of_node(node: Any, depth: int) -> _Size:
        inner = [g for a in node.attribute for g in ([a.g] if a.HasField("g") else a.graphs)]
        name = _name(node.op_type, node)
        if name in functions and name not in known and depth < MOST_NESTED:
            count, height = within(functions[name].node, depth + 1)
            known[name] = count, height + 1
        own, height = known.get(name, (1.0, int(name in functions)))
        if depth + height > MOST_NESTED:
            raise ValueError(f"its functions call each other more than {MOST_NESTED} deep")
        sizes = [within(g.node, depth) for g in inner]
        return own + sum(count for count, _ in sizes), max([height, *(height for _, height in sizes)])

    return within(model.graph.node, 0)[0]


def _name(name: str, of: Any) -> tuple[str, str, str]:
    """Of a function, or of what a node calls."""
    return "" if of.domain == "ai.onnx" else of.domain, name, getattr(of, "overload", "")


def _inlined(model: Any, path: Path) -> Any:
    """With what the functions compute that the model itself holds, as torch's exporter writes them."""
    if not model.functions:
        return model
    try:
        return onnx_package().inliner.inline_local_functions(model)
    except Exception as error:  # its errors have no common type
        raise FileFormatError(
            f"functions of '{path}' cannot be read", cause=first_line(error)[:200],
            hint="check the model with onnx.checker",
        ) from error  # fmt: skip


def _set_dims(graph: Any, dims: Mapping[str, int], path: Path, note: Callable[[str], object]) -> bool:
    """Give every symbolic size of the inputs a number; returns whether there was one."""
    names = {t.name for t in graph.initializer}
    symbolic: set[str] = set()
    unnamed = 0
    for value in graph.input:
        for dim in value.type.tensor_type.shape.dim if value.name not in names else ():
            if dim.HasField("dim_value") and dim.dim_value > 0:
                continue
            name = dim.dim_param if isinstance(dim.dim_param, str) else ""  # bytes where it is no UTF-8
            if name:
                symbolic.add(name)
            else:
                unnamed += 1
            dim.dim_value = dims.get(name, 1)
    if unknown := dims.keys() - symbolic:
        raise UsageError(
            f"'{path}' has no dimension {sorted(unknown)[0]!r}",
            cause=f"its named dimensions are {', '.join(sorted(symbolic)) or 'none'}",
            hint="name one of these" if symbolic else "leave out --dim",
        )
    if free := sorted(symbolic - dims.keys()):
        note(
            f"{len(free)} symbolic dimensions of the inputs are counted as 1: give their sizes with --dim NAME=SIZE "
            f"({', '.join(free)})"
        )
    if unnamed:
        note(f"{unnamed} dimensions of the inputs have neither a size nor a name, and are counted as 1")
    return bool(symbolic or unnamed)


def _with_shapes(model: Any, path: Path) -> Any:
    onnx = onnx_package()
    graph = model.graph
    del graph.value_info[:]  # they would keep the symbolic names
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # its errors have no common type
        raise FileFormatError(
            f"shapes of '{path}' cannot be inferred", cause=first_line(error)[:200],
            hint="check the sizes that were given, and the model with onnx.checker",
        ) from error  # fmt: skip
