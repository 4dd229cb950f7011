"""Building a workload: model and inputs on a device, in a dtype, in a mode."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statsnet.errors import DeviceError, UsageError, WorkloadError
from statsnet.signatures.database import MODES
from statsnet.workloads.calling import Inputs, Made, Value, batch_of, call, keyword_arguments
from statsnet.workloads.loading import Target, describe, next_step, resolve
from statsnet.workloads.registry import DEFAULT_PRESET, Workload

if TYPE_CHECKING:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

DTYPES = ("float32", "float64", "bfloat16", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltWorkload:
    """A model ready to run, and everything that a step needs.

    `inputs` are (args, kwargs), used in turn: batches of fresh indices, or of varying shapes.
    `loss` maps the model's outputs to a scalar (None: the default of `make_step`). `optimizer` is a name, a
    function of the parameters, or a torch optimizer. `fake_mode` is set when built for the device "meta".
    `label` and `origin` (the factory's file) are for messages only: they never enter a signature.
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
    fake_mode: FakeTensorMode | None = None

    @property
    def sparse_gradients(self) -> bool:
        """Whether an embedding of the model gives sparse gradients."""
        return any(getattr(module, "sparse", False) is True for module in self.model.modules())

    def input_groups(self) -> list[list[int]]:
        """Indices of the inputs, grouped by equal shapes."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for index, entry in enumerate(self.inputs):
            groups.setdefault(shapes_of(entry), []).append(index)
        return list(groups.values())

    def variants(self) -> list[tuple[int, float]]:
        """(index of the first such input, share of the inputs) for each distinct set of input shapes."""
        return [(group[0], len(group) / len(self.inputs)) for group in self.input_groups()]


def build(
    target: str,
    *,
    mode: str,
    preset: str | None = None,
    batch: int | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    overrides: Mapping[str, Value] | None = None,
    seed: int = 0,
    fake_mode: FakeTensorMode | None = None,
) -> BuiltWorkload:
    """Build the model and inputs of a target: a registered name, "file.py:factory" or "module:factory".

    `preset` defaults to "small" for a registered workload; a factory without presets only takes None.
    `overrides` become keyword arguments of the factory (text is parsed), `batch` its keyword `batch`.
    Device "meta" builds under a FakeTensorMode (the one given, or a new one): shapes without memory, as on
    a CPU.
    The factory runs with torch's generator seeded; the caller's random state is untouched.
    Raises UsageError, WorkloadError or DeviceError with a cause and a next step.
    """
    if mode not in MODES:
        raise UsageError(f"'{mode}' is not a mode", hint=f"one of {', '.join(MODES)}")
    if dtype not in DTYPES:
        raise UsageError(f"'{dtype}' is not a dtype for a workload", hint=f"one of {', '.join(DTYPES)}")
    _require_torch()
    _check_device(device)
    resolved = resolve(target)
    chosen, sizes = _preset(resolved, preset)
    keywords = keyword_arguments(resolved, sizes, batch, overrides or {})
    if device == "meta" and fake_mode is None:
        fake_mode = _new_fake_mode()
    made = _make(resolved, keywords, seed, fake_mode if device == "meta" else None)
    made = _place(resolved, made, mode, dtype, device, fake_mode if device == "meta" else None)
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
        dtype=dtype,
        device=device,
        seed=seed,
        origin=resolved.origin,
        fake_mode=fake_mode if device == "meta" else None,
    )


def _preset(target: Target, preset: str | None) -> tuple[str | None, Mapping[str, int]]:
    presets = target.workload.presets if target.workload else {}
    if preset is None:
        return (DEFAULT_PRESET, presets[DEFAULT_PRESET]) if DEFAULT_PRESET in presets else (None, {})
    if preset not in presets:
        raise UsageError(
            f"'{target.label}' has no preset '{preset}'",
            hint=f"one of {', '.join(presets)}" if presets else "leave it out, or set sizes with --set",
        )
    return preset, presets[preset]


def _make(target: Target, keywords: Mapping[str, Value], seed: int, fake: FakeTensorMode | None) -> Made:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        with fake or contextlib.nullcontext():
            return call(target, keywords)


def _place(target: Target, made: Made, mode: str, dtype: str, device: str, fake: FakeTensorMode | None) -> Made:
    """Move to the device and dtype, and set the mode; on fake tensors only the dtype changes."""
    import torch
    from torch.utils._pytree import tree_map_only

    to_dtype = getattr(torch, dtype)

    def place(tensor: torch.Tensor) -> torch.Tensor:
        if fake is not None:
            tensor = fake.from_tensor(tensor)  # no-op on one of its own; inputs from numpy are real
            return tensor.to(to_dtype) if tensor.is_floating_point() else tensor
        return tensor.to(device, to_dtype if tensor.is_floating_point() else tensor.dtype)

    try:
        with fake or contextlib.nullcontext():
            if fake is None:
                made.model.to(device, to_dtype)
            else:
                _cast_fake(made.model, place)
            made.model.train(mode == "training")
            inputs = tree_map_only(torch.Tensor, place, made.inputs)
    except torch.OutOfMemoryError as error:
        raise DeviceError(
            f"'{target.label}' does not fit on {device}",
            cause=str(error).splitlines()[0],
            hint=next_step(error, "use a smaller --batch or preset"),
        ) from error
    except Exception as error:
        raise WorkloadError(
            f"'{target.label}' could not be moved to {device} as {dtype}",
            cause=describe(error, target.origin),
            hint=next_step(error, "try it with --dtype float32"),
        ) from error
    return Made(model=made.model, inputs=inputs, loss=made.loss, optimizer=made.optimizer)


def _cast_fake(model: torch.nn.Module, place: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """`model.to(dtype)` for fake tensors, which `Module.to` cannot swap; tied parameters stay tied."""
    import torch

    placed: dict[int, Any] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in placed:
                placed[id(parameter)] = torch.nn.Parameter(place(parameter.detach()), parameter.requires_grad)
            setattr(module, name, placed[id(parameter)])
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, place(buffer))


def _new_fake_mode() -> FakeTensorMode:
    from statsnet.workloads.fakes import SparseFakeTensorMode

    # Real tensors occur where a user's model makes them from numpy or keeps constants at module level.
    return SparseFakeTensorMode(allow_non_fake_inputs=True)


def _require_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise WorkloadError("building a workload needs torch", cause=str(error), hint="pip install torch") from error


def _check_device(device: str) -> None:
    import torch

    if not re.fullmatch(r"cpu|meta|cuda(:\d+)?", device):
        raise UsageError(f"'{device}' is not a device", hint="one of cpu, cuda, cuda:N or meta")
    if not device.startswith("cuda"):
        return
    if not torch.cuda.is_available():
        raise DeviceError(
            "there is no CUDA device here",
            cause="torch finds no usable GPU" if torch.version.cuda else "torch was built without CUDA",
            hint="use --device cpu, or --device meta to count without a device",
        )
    if int(device.partition(":")[2] or 0) >= torch.cuda.device_count():
        raise DeviceError(f"there is no {device}", cause=f"torch finds {torch.cuda.device_count()} CUDA devices")


def shapes_of(entry: Any) -> tuple[Any, ...]:
    """A key for inputs (args, kwargs) of equal shapes: each tensor's shape and dtype, anything else as it is."""
    import torch
    from torch.utils._pytree import tree_leaves

    return tuple(
        (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in tree_leaves(entry)
    )
