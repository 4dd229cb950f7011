"""A file → an ONNX model whose functions are inlined and whose sizes are numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from statsnet.errors import FileFormatError, UsageError, first_line
from statsnet.signatures.gzipped import read_unpacked


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
    model = _inlined(_parsed(path), path)
    was_symbolic = _set_dims(model.graph, dims, path, note)
    return _with_shapes(model, path), was_symbolic


def _parsed(path: Path) -> Any:
    onnx = onnx_package()
    data = read_unpacked(path)
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
    return model


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
