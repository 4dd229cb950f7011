"""A model in another runtime: exported once, and run there on the same inputs with as many threads as torch has.

Only for inference on a CPU. A setting `runtime=NAME` stands for another software stack, as `onednn=sse41` stands for
another device.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from statsnet.environment.temporary import temporary_folder
from statsnet.errors import UsageError, WorkloadError
from statsnet.measure.graph_inputs import taking_tensors
from statsnet.measure.lacking_operators import IN_ALL, IN_ONNX, rewritten
from statsnet.measure.onnx_translations import translations
from statsnet.measure.proxy_graph import graph_of
from statsnet.measure.whole_layers import LAYERS
from statsnet.workloads.building import BuiltWorkload
from statsnet.workloads.calling import Inputs
from statsnet.workloads.dtypes import dtype_name
from statsnet.workloads.grouped_products import let_graphs_hold_them
from statsnet.workloads.model_errors import describe, first_cause
from statsnet.workloads.trees import shape_key

Arrays = list[np.ndarray[Any, Any]]
Program = Callable[[Arrays], Any]


def exported_workload(runtime: str, built: BuiltWorkload) -> Callable[[], Any]:
    """A step that runs a workload's model in a runtime on its inputs in turn.

    Raises UsageError for a training step or if the runtime is not installed, WorkloadError if the model cannot be
    exported.
    """
    _require(runtime, built.mode, built.dtype, built.device)
    return _exported_step(runtime, built.model, built.inputs)


def exported_proxy(runtime: str, network: ModuleType, proxy: nn.Module, device: str) -> Callable[[], Any]:
    """As `exported_workload`, for a proxy's network (see `graph_of`)."""
    _require(runtime, network.MODE, dtype_name(network.DTYPE), device)
    return _exported_step(runtime, *graph_of(network, proxy, device))


def saved_onnx(program: torch.export.ExportedProgram, path: Path) -> Path:
    """The graph as an ONNX model with its weights in another file, as protobuf takes no more than 2 GB."""
    program = rewritten(program, IN_ONNX)
    with torch.no_grad():  # else one pass of the exporter lays attention out as with gradients, another as without
        made = torch.onnx.export(program, dynamo=True, verbose=False, custom_translation_table=translations())
    assert made is not None
    made.save(path, external_data=True)
    return path


def _captured(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.export.ExportedProgram:
    # With gradients on, torch splits layers that it would otherwise run as one; and a proxy's blocks read their
    # input by reshaping and slicing, not by strides, which graphs do not know.
    let_graphs_hold_them()
    model, args, kwargs = taking_tensors(model, args, kwargs)
    with torch.enable_grad():
        return rewritten(torch.export.export(model, args, kwargs, strict=False), {**LAYERS, **IN_ALL})


def _require(runtime: str, mode: str, dtype: str, device: str) -> None:
    if (mode, dtype, device) != ("inference", "float32", "cpu"):
        raise UsageError(
            f"'runtime={runtime}' was asked for {mode} in {dtype} on {device}",
            cause="other runtimes run inference in float32 on a CPU here",
            hint="leave it out",
        )


def _exported_step(runtime: str, model: nn.Module, inputs: Inputs) -> Callable[[], Any]:
    """A step that takes the inputs in turn. Each set of shapes is exported separately."""
    programs: dict[tuple[Any, ...], Program] = {}
    runs: list[Callable[[], Any]] = []
    array_of: dict[Tensor, Any] = {}  # what stays from step to step is one array, which is handed over once
    for args, kwargs in inputs:
        key = shape_key((args, kwargs))
        if key not in programs:
            programs[key] = _program(runtime, model, args, kwargs)
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        arrays = [array_of.setdefault(t, t.detach().numpy()) for t in tensors]
        runs.append(partial(programs[key], arrays))
    in_order = itertools.cycle(runs)
    return lambda: next(in_order)()


def _program(runtime: str, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
    try:
        return RUNTIMES[runtime](_captured(model, args, kwargs))
    except ImportError as error:
        raise UsageError(
            f"'runtime={runtime}' needs packages that are not installed",
            cause=str(error),
            hint=f"pip install 'statsnet[{'iree' if runtime == 'iree' else 'runtimes'}]'",
        ) from error
    except Exception as error:
        raise WorkloadError(
            f"a model could not be handed to {runtime}",
            cause=describe(first_cause(error), "").splitlines()[0],  # the exporter's own error is a page of advice
            hint="leave this runtime out for this mix",
        ) from error


def _onnxruntime(program: torch.export.ExportedProgram) -> Program:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    with temporary_folder() as folder:
        path = saved_onnx(program, folder / "model.onnx")
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given, made_of = [value.name for value in session.get_inputs()], [value.name for value in session.get_outputs()]
    feeds: dict[tuple[int, ...], dict[str, Any]] = {}

    def run(arrays: Arrays) -> Any:
        """Outputs stay where the runtime wrote them: a proxy has more of them than a model, and copies take time."""
        key = tuple(map(id, arrays))
        if key not in feeds:
            values = map(onnxruntime.OrtValue.ortvalue_from_numpy, arrays)
            feeds[key] = dict(zip(given, values, strict=True))
        return session.run_with_ort_values(made_of, feeds[key])

    return run


def _silent_openvino() -> Any:
    """OpenVINO without what it tells its makers. Unasked, it sends them the names of a model's operators, which may be
    the model's own, and how many there are of each. A package that it takes for not installed sends nothing."""
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # so its import fails
    import openvino
    from openvino.tools.ovc import telemetry_stub

    for name, module in [*sys.modules.items()]:
        if name.startswith("openvino.") and hasattr(module, "tm"):  # imported before, by a model's file
            module.tm = telemetry_stub  # type: ignore[attr-defined]
    return openvino


def _openvino(program: torch.export.ExportedProgram, *, precision: str) -> Program:
    openvino = _silent_openvino()
    try:
        return _compiled_openvino(openvino.convert_model(program), precision)
    except Exception:  # its reader of torch's graphs knows other operators than that of ONNX, some of which no CPU runs
        with temporary_folder() as folder:
            return _compiled_openvino(saved_onnx(program, folder / "model.onnx"), precision)


def _compiled_openvino(graph: Any, precision: str) -> Program:
    openvino = _silent_openvino()
    compiled = openvino.Core().compile_model(
        graph,
        "CPU",
        {
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "INFERENCE_PRECISION_HINT": precision,
            "PERFORMANCE_HINT": "LATENCY",
        },
    )
    request = compiled.create_infer_request()
    given: dict[int, tuple[Any, Any]] = {}  # by id: the array, which so keeps it, and the tensor that shares its memory
    held: list[Any] = [None] * len(compiled.inputs)

    def run(arrays: Arrays) -> Any:
        """The request, which holds the outputs. What stays from step to step is handed over once: `request.infer` would
        look up each input and output in each step, and a proxy has many more of them than a model."""
        if len(arrays) != len(held):
            raise WorkloadError(
                "OpenVINO takes other inputs than the model",
                cause=f"the model is given {len(arrays)} tensors, its graph in OpenVINO has {len(held)}",
                hint="give the model no tensor twice",
            )
        for place, array in enumerate(arrays):
            if held[place] is not array:
                if id(array) not in given:
                    given[id(array)] = array, openvino.Tensor(np.asarray(array, order="C"), shared_memory=True)
                request.set_input_tensor(place, given[id(array)][1])
                held[place] = array
        request.start_async()
        request.wait()
        return request

    return run


MOST_OF_PROTOBUF = 2**31
"""Bytes. IREE's importer reads larger models without their weights. It would lack constants of smaller ones then."""


def _iree(program: torch.export.ExportedProgram) -> Program:
    from iree import compiler, runtime

    with temporary_folder() as folder:
        path = saved_onnx(program, folder / "model.onnx")
        graph, weights = path.with_suffix(".mlir"), path.with_suffix(".irpa")
        command = [sys.executable, "-m", "iree.compiler.tools.import_onnx", str(path), "-o", str(graph),
                   "--externalize-params", "--save-params-to", str(weights)]  # fmt: skip
        if sum(file.stat().st_size for file in folder.iterdir()) > MOST_OF_PROTOBUF:
            command.append("--large-model")
        imported = subprocess.run(command, capture_output=True, text=True, check=False)
        if imported.returncode:
            raise RuntimeError((imported.stderr.strip() or "the import failed").splitlines()[-1])
        host = "--iree-llvmcpu-target-cpu=host"
        try:
            binary = compiler.compile_file(str(graph), target_backends=["llvm-cpu"], extra_args=[host])
        except compiler.CompilerToolError as error:  # its first line says only that there is an error
            raise RuntimeError(_first_error(str(error))) from None
        index = runtime.ParameterIndex()
        if weights.exists():
            index.load(str(weights), readable=True, mmap=False)
    runtime.flags.parse_flags(f"--task_topology_group_count={torch.get_num_threads()}")
    config = runtime.Config("local-task")
    instance = config.vm_instance
    modules = [runtime.create_hal_module(instance, config.device),
               runtime.create_io_parameters_module(instance, index.create_provider(scope="model"))]  # fmt: skip
    modules.append(runtime.VmModule.copy_buffer(instance, binary))
    context = runtime.SystemContext(vm_modules=modules, config=config)
    (name,) = [name for name in modules[-1].function_names if "$" not in name and not name.startswith("__")]
    function = context.modules[modules[-1].name][name]
    given: dict[tuple[int, ...], list[Any]] = {}

    def run(arrays: Arrays) -> Any:
        key = tuple(map(id, arrays))
        if key not in given:
            given[key] = [runtime.asdevicearray(config.device, array) for array in arrays]
        made = function(*given[key])
        return made if isinstance(made, tuple) else (made,)

    return run


def _first_error(told: str) -> str:
    """The first error of a compiler that names each as `FILE:LINE:COLUMN: error: WHAT`."""
    return next((what for line in told.splitlines() if (what := line.partition("error: ")[2])), told.strip())


RUNTIMES: dict[str, Callable[[torch.export.ExportedProgram], Program]] = {
    "onnxruntime": _onnxruntime,
    "openvino": partial(_openvino, precision="f32"),
    "openvino-bf16": partial(_openvino, precision="bf16"),
    "iree": _iree,
}
