"""A model in another runtime: exported once, and run there on the same inputs with as many threads as torch has.

Only for inference on a CPU. A setting `runtime=NAME` stands for another software stack, as `onednn=sse41` stands for
another device.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_leaves

from statsnet.environment.temporary import temporary_folder
from statsnet.errors import UsageError, WorkloadError
from statsnet.measure.onnx_bags import translations
from statsnet.workloads.building import BuiltWorkload
from statsnet.workloads.calling import Inputs
from statsnet.workloads.dtypes import dtype_name
from statsnet.workloads.loading import describe
from statsnet.workloads.trees import shape_key

Arrays = list[np.ndarray[Any, Any]]
Program = Callable[[Arrays], Any]
Blocks = list[nn.Module]


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
    runtime could change their layout once and for all. So do the tensors of blocks that read a part of what is before
    them, or a map in another shape: torch reads it where it lies, a graph would copy it first, which no model of the
    mix does. Nor does a model hand out its maps: a runtime that keeps them in a layout of its own would convert them.
    So graphs end with a pool that reads one position of each map, which runtimes compute in their own layout. They
    still compute the whole map.
    """
    _require(runtime, network.MODE, dtype_name(network.DTYPE), device)
    model, inputs = _with_inputs(network, proxy, device)
    return _exported_step(runtime, model, inputs)


def saved_onnx(program: torch.export.ExportedProgram, path: Path) -> Path:
    """The graph as an ONNX model with its weights in another file, as protobuf takes no more than 2 GB."""
    made = torch.onnx.export(program, dynamo=True, verbose=False, custom_translation_table=translations())
    assert made is not None
    made.save(path, external_data=True)
    return path


def _with_inputs(network: ModuleType, proxy: nn.Module, device: str) -> tuple[nn.Module, Inputs]:
    state = {**dict(proxy.named_parameters()), **dict(proxy.named_buffers())}
    kept = {name: t for name, t in state.items() if name.rpartition(".")[2].startswith(network.SIDE_INPUTS)}
    batches = network.batches(proxy, device)
    parts = _parts_read(proxy, batches[0])
    return _WithBranches(proxy), [((batch, kept, parts), {}) for batch in batches]


def _captured(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.export.ExportedProgram:
    # With gradients on, torch splits layers that it would otherwise run as one; and a proxy's blocks read their
    # input by reshaping and slicing, not by strides, which graphs do not know.
    with torch.enable_grad():
        return torch.export.export(model, args, kwargs, strict=False)


def _require(runtime: str, mode: str, dtype: str, device: str) -> None:
    if (mode, dtype, device) != ("inference", "float32", "cpu"):
        raise UsageError(
            f"'runtime={runtime}' was asked for {mode} in {dtype} on {device}",
            cause="other runtimes run inference in float32 on a CPU here",
            hint="leave it out",
        )


def _exported_step(runtime: str, model: nn.Module, inputs: Inputs) -> Callable[[], Any]:
    """A step that takes the inputs in turn. Each set of shapes is exported separately, with fixed shapes."""
    programs: dict[tuple[Any, ...], Program] = {}
    runs: list[Callable[[], Any]] = []
    for args, kwargs in inputs:
        key = shape_key((args, kwargs))
        if key not in programs:
            programs[key] = _program(runtime, model, args, kwargs)
        arrays = [t.detach().numpy() for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        runs.append(partial(programs[key], arrays))
    in_order = itertools.cycle(runs)
    return lambda: next(in_order)()


class _WithBranches(nn.Module):
    """A proxy with the branches and the `parts` of activations that it reads as inputs. The outputs that these replace
    are outputs of the whole, so that nothing of them can be left out. Each is a result of the blocks between two such
    places of a tower."""

    def __init__(self, proxy: nn.Module) -> None:
        super().__init__()
        self.proxy = proxy

    def forward(self, batch: list[Tensor], branches: dict[str, Tensor], parts: dict[str, Tensor]) -> Any:
        cut: list[Tensor] = []
        before, last = self._between(parts)

        def enter(x: Tensor, name: str) -> Tensor:
            cut.append(_end_of(before[name], x))
            return parts[name]

        with _entering(self.proxy, {name: partial(enter, name=name) for name in parts}):
            ends = functional_call(self.proxy, branches, (batch,))
        return [_end_of(blocks, x) for blocks, x in zip(last, ends, strict=True)], cut

    def _between(self, parts: Collection[str]) -> tuple[dict[str, Blocks], list[Blocks]]:
        """The blocks before each that reads a part, back to the part before; and those at each tower's end."""
        before: dict[str, Blocks] = {}
        last: list[Blocks] = []
        for number, tower in enumerate(self.proxy.get_submodule("towers").children()):
            run: Blocks = []
            for name, block in tower.named_children():
                if (full := f"towers.{number}.{name}") in parts:
                    before[full], run = run, []
                run.append(block)
            last.append(run)
        return before, last


def _end_of(blocks: Blocks, x: Tensor) -> Tensor:
    """The result of these blocks. Of maps of convolutions and pools, what a pool reads at one position: a runtime that
    has them in a layout of its own computes all of them and converts nothing."""
    modules = (m for block in blocks for m in block.modules())
    writes_maps = any(isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)) or hasattr(m, "pool") for m in modules)
    return F.max_pool2d(x, 1, stride=x.shape[-2:]) if writes_maps and x.dim() == 4 else x


def _is_map(x: Tensor) -> bool:
    return x.dim() > 3


def _parts_read(proxy: nn.Module, batch: list[Tensor]) -> dict[str, Tensor]:
    """By the blocks' names: what is read by those that read a part of the output before them, or a map in another
    shape."""
    parts: dict[str, Tensor] = {}

    def enter(x: Tensor, name: str, usual: Callable[[Tensor], Tensor]) -> Tensor:
        entered = usual(x)
        reshaped = entered.shape != x.shape and (_is_map(x) or _is_map(entered))
        if reshaped or entered.numel() < x.numel():
            parts[name] = entered.clone(memory_format=torch.contiguous_format)
        return entered

    blocks = {name: block for name, block in proxy.named_modules() if hasattr(block, "enter")}
    watched = {name: partial(enter, name=name, usual=block.enter) for name, block in blocks.items()}
    with torch.no_grad(), _entering(proxy, watched):
        proxy(batch)
    return parts


@contextlib.contextmanager
def _entering(proxy: nn.Module, instead: Mapping[str, Callable[[Tensor], Tensor]]) -> Iterator[None]:
    """Blocks, by name, read their input through these functions."""
    blocks: list[Any] = [proxy.get_submodule(name) for name in instead]
    for block, function in zip(blocks, instead.values(), strict=True):
        block.enter = function
    try:
        yield
    finally:
        for block in blocks:
            del block.enter


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
            cause=describe(error, "").splitlines()[0],
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


def _openvino(program: torch.export.ExportedProgram, *, precision: str) -> Program:
    import openvino

    try:
        graph = openvino.convert_model(program)
    except Exception:  # its reader of torch's graphs knows fewer operators than its reader of ONNX
        with temporary_folder() as folder:
            return _compiled_openvino(saved_onnx(program, folder / "model.onnx"), precision)
    return _compiled_openvino(graph, precision)


def _compiled_openvino(graph: Any, precision: str) -> Program:
    import openvino

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
    return lambda arrays: request.infer(arrays, share_inputs=True, share_outputs=True)


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
        binary = compiler.compile_file(str(graph), target_backends=["llvm-cpu"], extra_args=[host])
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


RUNTIMES: dict[str, Callable[[torch.export.ExportedProgram], Program]] = {
    "onnxruntime": _onnxruntime,
    "openvino": partial(_openvino, precision="f32"),
    "openvino-bf16": partial(_openvino, precision="bf16"),
    "iree": _iree,
}
