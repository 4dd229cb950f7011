"""A model in another runtime: exported once, and run there on the same inputs with as many threads as torch has.

Only for inference on a CPU. A setting `runtime=NAME` stands for another software stack, as `onednn=sse41` stands for
another device.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_leaves

from statsnet.environment.temporary import temporary_folder
from statsnet.errors import UsageError, WorkloadError
from statsnet.workloads.building import BuiltWorkload
from statsnet.workloads.calling import Inputs
from statsnet.workloads.loading import describe
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
    """As `exported_workload`, for a proxy's network.

    The tensors that blocks keep in place of other branches become inputs of the exported graph too. As constants, a
    runtime could change their layout once and for all.
    """
    _require(runtime, network.MODE, str(network.DTYPE).removeprefix("torch."), device)
    state = {**dict(proxy.named_parameters()), **dict(proxy.named_buffers())}
    kept = {name: t for name, t in state.items() if name.rpartition(".")[2].startswith(network.SIDE_INPUTS)}
    inputs: Inputs = [((batch, kept), {}) for batch in network.batches(proxy, device)]
    return _exported_step(runtime, _WithBranches(proxy), inputs)


def _require(runtime: str, mode: str, dtype: str, device: str) -> None:
    if (mode, dtype, device) != ("inference", "float32", "cpu"):
        raise UsageError(
            f"'runtime={runtime}' was asked for {mode} in {dtype} on {device}",
            cause="other runtimes run inference in float32 on a CPU here",
            hint="leave it out",
        )


def _exported_step(runtime: str, model: nn.Module, inputs: Inputs) -> Callable[[], Any]:
    """A step that takes the inputs in turn. Each set of shapes is exported separately, with fixed shapes."""
    make = RUNTIMES[runtime]
    programs: dict[tuple[Any, ...], Program] = {}
    runs: list[Callable[[], Any]] = []
    for args, kwargs in inputs:
        key = shape_key((args, kwargs))
        if key not in programs:
            programs[key] = _program(runtime, make, model, args, kwargs)
        arrays = [t.detach().numpy() for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        runs.append(partial(programs[key], arrays))
    in_order = itertools.cycle(runs)
    return lambda: next(in_order)()


class _WithBranches(nn.Module):
    def __init__(self, proxy: nn.Module) -> None:
        super().__init__()
        self.proxy = proxy

    def forward(self, batch: list[Tensor], branches: dict[str, Tensor]) -> Any:
        return functional_call(self.proxy, branches, (batch,))


def _program(
    runtime: str,
    make: Callable[[torch.export.ExportedProgram], Program],
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Program:
    try:
        # With gradients on, torch splits layers that it would otherwise run as one; and a proxy's blocks read their
        # input by reshaping and slicing, not by strides, which graphs do not know.
        with torch.enable_grad():
            program = torch.export.export(model, args, kwargs, strict=False)
        return make(program)
    except ImportError as error:
        raise UsageError(
            f"'runtime={runtime}' needs packages that are not installed",
            cause=str(error),
            hint="pip install 'statsnet[runtimes]'",
        ) from error
    except Exception as error:
        raise WorkloadError(
            f"a model could not be handed to {runtime}",
            cause=describe(error, "").splitlines()[0],
            hint="leave this runtime out for this mix",
        ) from error


def _onnxruntime(program: torch.export.ExportedProgram) -> Program:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    made = torch.onnx.export(program, dynamo=True, verbose=False)
    assert made is not None
    with temporary_folder() as folder:  # a file, as protobuf takes no more than 2 GB
        path = folder / "model.onnx"
        made.save(path, external_data=True)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    return lambda arrays: session.run(None, dict(zip(names, arrays, strict=True)))


def _openvino(program: torch.export.ExportedProgram, *, precision: str) -> Program:
    import openvino

    compiled = openvino.Core().compile_model(
        openvino.convert_model(program),
        "CPU",
        {
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "INFERENCE_PRECISION_HINT": precision,
            "PERFORMANCE_HINT": "LATENCY",
        },
    )
    request = compiled.create_infer_request()
    return lambda arrays: request.infer(arrays, share_inputs=True, share_outputs=True)


RUNTIMES: dict[str, Callable[[torch.export.ExportedProgram], Program]] = {
    "onnxruntime": _onnxruntime,
    "openvino": partial(_openvino, precision="f32"),
    "openvino-bf16": partial(_openvino, precision="bf16"),
}
