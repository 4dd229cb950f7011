"""Building a workload: model and inputs on a device, in a dtype, in a mode."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import lcm
from typing import TYPE_CHECKING, Any

from statsnet.errors import DeviceError, UsageError, WorkloadError, first_line, one_of
from statsnet.signatures.database import MODES
from statsnet.workloads.calling import Inputs, Made, Value, batch_of, call, keyword_arguments
from statsnet.workloads.dtypes import Cast, dtype_of, model_dtypes
from statsnet.workloads.loading import Target, resolve
from statsnet.workloads.model_errors import describe, next_step
from statsnet.workloads.optimizers import parameters_kept
from statsnet.workloads.registry import DEFAULT_PRESET, Workload
from statsnet.workloads.tree_copies import copied, map_tensors
from statsnet.workloads.trees import all_tensors, parameters_of, parts_of, shape_key

if TYPE_CHECKING:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

DTYPES = ("float32", "float64", "bfloat16", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltWorkload:
    """A model ready to run, and everything that a step needs.

    `inputs` are (args, kwargs), used in turn: batches of fresh indices, or of varying shapes.
    `loss` maps the model's outputs to a scalar (None: the default of `make_step`). `optimizer` is a name, a
    function of the parameters, or what it makes: see `Stepper`. A training step goes through `accumulation` inputs.
    `fake_mode` is set when built for the device "meta".
    `dtype` is the model's floating dtype, or `mixed`; `is_cast` if tensors have another than the factory gave them.
    `label`, `origin` (the factory's file) and `cast` (what was cast because a dtype was asked for) are for messages
    only: they never enter a signature.
    """

    model: torch.nn.Module
    inputs: Inputs
    loss: Callable[[Any], Any] | None
    optimizer: Any
    workload: Workload | None
    label: str
    mode: str
    preset: str | None
    batch: int | None
    dtype: str
    device: str
    seed: int
    origin: str = ""
    is_cast: bool = False
    cast: str = ""
    accumulation: int = 1
    fake_mode: FakeTensorMode | None = None

    @property
    def sparse_gradients(self) -> bool:
        """Whether an embedding of the model gives sparse gradients. A table of a user's own has the same attribute;
        other layers may use its name for something else."""
        import torch

        layers = (torch.nn.Linear, torch.nn.modules.conv._ConvNd, torch.nn.RNNBase)
        marked = (m for m in self.model.modules() if getattr(m, "sparse", False) is True and not isinstance(m, layers))
        return any(parameter.dim() == 2 for module in marked for parameter in module.parameters(recurse=False))

    @property
    def whole(self) -> torch.nn.Module:
        """The model; in training with its loss, if that is a module: it may have parameters and state."""
        import torch

        is_part = self.mode == "training" and isinstance(self.loss, torch.nn.Module)
        return torch.nn.ModuleList([self.model, self.loss]) if is_part else self.model  # type: ignore[list-item]

    def places_of(self, index: int) -> list[int]:
        """Which entries of `inputs` the step of this number runs on: one, several with gradient accumulation."""
        return [(index * self.accumulation + i) % len(self.inputs) for i in range(self.accumulation)]

    def inputs_of(self, index: int) -> Inputs:
        """What the step of this number runs on."""
        return [self.inputs[place] for place in self.places_of(index)]

    def input_groups(self) -> list[list[int]]:
        """Numbers of the steps until the inputs begin anew, grouped by equal shapes."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for index in range(lcm(len(self.inputs), self.accumulation) // self.accumulation):
            groups.setdefault(tuple(map(shape_key, self.inputs_of(index))), []).append(index)
        return list(groups.values())

    def variants(self) -> list[tuple[int, float]]:
        """(number of the first such step, share of the steps) for each distinct set of input shapes."""
        groups = self.input_groups()
        steps = sum(len(group) for group in groups)
        return [(group[0], len(group) / steps) for group in groups]

    def distinct_inputs(self) -> Inputs:
        """The first input of each distinct set of shapes."""
        first: dict[tuple[Any, ...], Any] = {}
        for entry in self.inputs:
            first.setdefault(shape_key(entry), entry)
        return list(first.values())


def build(
    target: str,
    *,
    mode: str,
    preset: str | None = None,
    batch: int | None = None,
    dtype: str | None = None,
    device: str = "cpu",
    overrides: Mapping[str, Value] | None = None,
    seed: int = 0,
    fake_mode: FakeTensorMode | None = None,
) -> BuiltWorkload:
    """Build the model and inputs of a target: a registered name, "file.py:factory" or "module:factory".

    `preset` defaults to "small" for a registered workload; a factory without presets only takes None.
    `overrides` become keyword arguments of the factory (text is parsed), `batch` its keyword `batch`.
    Without `dtype`, parameters, buffers and inputs keep the dtypes that the factory gave them. With it, only tensors of
    the model's main floating dtype are cast, complex ones to the complex dtype of that width; `cast` says what was.
    Device "meta" builds under a FakeTensorMode (the one given, or a new one): shapes without memory, as on
    a CPU.
    The factory runs with torch's generator seeded; the caller's random state is untouched.
    Raises UsageError, WorkloadError or DeviceError with a cause and a next step.
    """
    if mode not in MODES:
        raise UsageError(f"'{mode}' is not a mode", hint=one_of(mode, MODES))
    if dtype is not None and dtype not in DTYPES:
        raise UsageError(f"'{dtype}' is not a dtype for a workload", hint=one_of(dtype, DTYPES))
    _require_torch()
    check_device(device)
    resolved = resolve(target)
    chosen, sizes = _preset(resolved, preset)
    keywords = keyword_arguments(resolved, sizes, batch, overrides or {})
    if device == "meta" and fake_mode is None:
        fake_mode = _new_fake_mode()
    made = _make(resolved, keywords, seed, fake_mode if device == "meta" else None)
    made, cast = _place(resolved, made, mode, dtype, device, fake_mode if device == "meta" else None)
    default = resolved.workload.optimizer if resolved.workload else "sgd"
    return BuiltWorkload(
        model=made.model,
        inputs=made.inputs,
        loss=made.loss,
        optimizer=made.optimizer or default,
        workload=resolved.workload,
        label=resolved.label,
        mode=mode,
        preset=chosen,
        batch=batch_of(resolved, keywords),
        dtype=dtype_of(made.model, all_tensors(made.inputs)),
        device=device,
        seed=seed,
        origin=resolved.origin,
        is_cast=cast is not None and cast.is_done,
        cast=cast.sentence() if cast else "",
        accumulation=made.accumulation if mode == "training" else 1,
        fake_mode=fake_mode if device == "meta" else None,
    )


def _preset(target: Target, preset: str | None) -> tuple[str | None, Mapping[str, int]]:
    presets = target.workload.presets if target.workload else {}
    if preset is None:
        return (DEFAULT_PRESET, presets[DEFAULT_PRESET]) if DEFAULT_PRESET in presets else (None, {})
    if preset not in presets:
        raise UsageError(
            f"'{target.label}' has no preset '{preset}'",
            hint=one_of(preset, presets) if presets else "leave it out, or set sizes with --set",
        )
    return preset, presets[preset]


def _make(target: Target, keywords: Mapping[str, Value], seed: int, fake: FakeTensorMode | None) -> Made:
    import torch

    from statsnet.workloads.drawing import drawn_in_part

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        with _faked(fake) if fake else drawn_in_part():
            made = call(target, keywords)
            _give_sizes(target, made)
            return made


def _give_sizes(target: Target, made: Made) -> None:
    """Run a model once whose lazy layers learn their sizes from the first input. Raises WorkloadError if it fails."""
    import torch
    from torch.nn.parameter import is_lazy

    if not any(map(is_lazy, [*parameters_of(made.model), *made.model.buffers()])):
        return
    args, kwargs = copied(made.inputs[0])
    modes = [(module, module.training) for module in made.model.modules()]
    try:
        with torch.no_grad():
            set_mode(made.model, "inference")  # whatever its own eval() returns
            made.model(*args, **kwargs)
    except (Exception, SystemExit) as error:
        raise WorkloadError(
            f"the layers of '{target.label}' do not learn their sizes from its inputs",
            cause=describe(error, target.origin),
            hint="run the model once in the factory, on an input that gives its lazy layers their sizes",
        ) from error
    for module, was_training in modes:
        module.training = was_training


def _place(
    target: Target, made: Made, mode: str, dtype: str | None, device: str, fake: FakeTensorMode | None
) -> tuple[Made, Cast | None]:
    """Move to the device, and to the dtype if one is given, and set the mode; on fake tensors only the dtype changes.
    Also what was cast."""
    import torch

    cast: Cast | None = None

    def place(tensor: torch.Tensor) -> torch.Tensor:
        if fake is not None and not _is_fake(tensor):
            tensor = fake.from_tensor(tensor)  # inputs from numpy are real
        if fake is not None and tensor.is_meta and tensor.layout is torch.strided:  # a model built on "meta" itself
            tensor = torch.empty_like(tensor, device="cpu")
        wanted = tensor.dtype if cast is None else cast.dtype(tensor)
        if fake is not None:
            return tensor if wanted == tensor.dtype else tensor.to(wanted)
        return tensor.to(device, wanted)

    try:
        with _faked(fake):
            if dtype is not None and (found := model_dtypes(made.model, all_tensors(made.inputs))):
                cast = Cast(next(iter(found)), getattr(torch, dtype))
            parts = [part for part in (made.model, made.loss) if isinstance(part, torch.nn.Module)]
            with parameters_kept(made.optimizer, parts):
                for part in parts:
                    part._apply(place)  # as `Module.to`, but each tensor may get a dtype of its own
            set_mode(made.model, mode)
            inputs = map_tensors(made.inputs, lambda tensor: _without_history(place(tensor)))
    except torch.OutOfMemoryError as error:
        raise does_not_fit(target.label, device, error) from error
    except Exception as error:
        raise WorkloadError(
            f"'{target.label}' could not be moved to {device}" + (f" as {dtype}" if dtype else ""),
            cause=describe(error, target.origin),
            hint=next_step(error, "try it without --dtype" if dtype else "try it on another device"),
        ) from error
    return replace(made, inputs=inputs), cast


def _without_history(tensor: torch.Tensor) -> torch.Tensor:
    """An input that the factory computed with parameters, as one that still asks for its gradient: what made it is no
    part of a step, and torch goes back through it only once."""
    return tensor if tensor.grad_fn is None else tensor.detach().requires_grad_()


def does_not_fit(label: str, device: str, error: Exception) -> DeviceError:
    """The error of a workload that takes more memory than its device has."""
    hint = next_step(error, "use a smaller --batch or preset")
    return DeviceError(f"'{label}' does not fit on {device}", cause=first_line(error), hint=hint)


def _is_fake(tensor: torch.Tensor) -> bool:
    """Whether the tensors inside, those of a sharded one among them, have no memory."""
    from torch._subclasses.fake_tensor import FakeTensor

    return all(isinstance(part, FakeTensor) for part in parts_of(tensor))


def set_mode(model: torch.nn.Module, mode: str) -> None:
    """Set the model to training or inference, as its users do: some override what they call, and choose for their
    layers. Layers of a model that is in this mode stay as the factory chose, such as a frozen batch norm. Where
    `train()` or `eval()` is another function of the user's and switches nothing, all layers are switched. An exported
    program has no such switch and stays as it was exported."""
    wanted = mode == "training"
    chosen = [m for m in model.modules() if m.training != wanted] if model.training == wanted else []
    switch = model.train if wanted else model.eval
    try:
        if _switches(switch):
            switch()
    except NotImplementedError:
        return
    if model.training != wanted:
        for module in model.modules():
            module.training = wanted
    for module in chosen:
        module.training = not wanted


def _switches(function: Callable[..., Any]) -> bool:
    """Whether it can be a module's `train()` or `eval()`, which needs no argument and takes none but the mode."""
    parameters = list(inspect.signature(function).parameters.values())
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(p.kind in several or p.name == "mode" or isinstance(p.default, bool) for p in parameters)


@contextmanager
def _faked(fake: FakeTensorMode | None) -> Iterator[None]:
    """The fake mode, if any, and modules that can be cast under it."""
    if fake is None:
        yield
        return
    from statsnet.workloads.fakes import castable_modules, lazy_layers

    with castable_modules(), lazy_layers(), fake:
        yield


def _new_fake_mode() -> FakeTensorMode:
    from statsnet.workloads.fakes import SparseFakeTensorMode

    # Real tensors occur where a user's model makes them from numpy or keeps constants at module level.
    return SparseFakeTensorMode(allow_non_fake_inputs=True)


def _require_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise WorkloadError("building a workload needs torch", cause=str(error), hint="pip install torch") from error


def check_device(device: str, *, meta: bool = True) -> None:
    """Raises UsageError for a word that names no device, DeviceError where the device is not. With `meta`, counting on
    fake tensors is one, too."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device) and not (meta and device == "meta"):
        known = "cpu, cuda, cuda:N or meta" if meta else "cpu, cuda or cuda:N"
        raise UsageError(f"'{device}' is not a device", hint=f"use {known}")
    if not device.startswith("cuda"):
        return
    import torch

    if not torch.cuda.is_available():
        raise DeviceError(
            "there is no CUDA device here",
            cause="torch finds no usable GPU" if torch.version.cuda else "torch was built without CUDA",
            hint="use --device cpu" + (", or --device meta to count without a device" if meta else ""),
        )
    if int(device.partition(":")[2] or 0) >= torch.cuda.device_count():
        raise DeviceError(f"there is no {device}", cause=f"torch finds {torch.cuda.device_count()} CUDA devices")
