"""The dtypes of a model: which one it computes in, and another one in that one's place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from statsnet.units import plural

if TYPE_CHECKING:
    import torch

MIXED = "mixed"
"""The dtype of a model whose parameters and buffers have several floating dtypes."""


def model_dtypes(model: torch.nn.Module, inputs: Iterable[torch.Tensor]) -> dict[torch.dtype, int]:
    """The floating dtypes of the parameters and buffers, by number of elements, the most common first.

    A complex dtype counts as that of its real parts. `inputs` decide for a model without floating parameters.
    """
    from statsnet.workloads.trees import parameters_of

    held = _counted([*parameters_of(model), *model.buffers()])
    found = held or _counted(inputs)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def dtype_of(model: torch.nn.Module, inputs: Iterable[torch.Tensor] = ()) -> str:
    """The name of the model's floating dtype, MIXED if there are several, float32 if there is none."""
    names = [dtype_name(dtype) for dtype in model_dtypes(model, inputs)]
    return MIXED if len(names) > 1 else names[0] if names else "float32"


class Cast:
    """Puts `wanted` in place of a model's main floating dtype, and the complex dtype of that width in place of the
    main one's. All other dtypes stay as they are. (bfloat16 has no complex dtype of its width: torch takes complex64.)
    """

    def __init__(self, main: torch.dtype, wanted: torch.dtype) -> None:
        self.main = main
        self.wanted = wanted
        self._instead: dict[torch.dtype, torch.dtype] = {}
        if main != wanted:
            self._instead = {main: wanted}
            of_main = _complex_of(main)
            if of_main is not None and of_main.to_real() == main:  # else the complex dtype is another real one's
                self._instead[of_main] = wanted.to_complex()
        self._done: Counter[tuple[torch.dtype, torch.dtype]] = Counter()
        self._kept: Counter[torch.dtype] = Counter()

    def dtype(self, tensor: torch.Tensor) -> torch.dtype:
        """The dtype that a tensor is to have."""
        wanted = self._instead.get(tensor.dtype, tensor.dtype)
        if wanted != tensor.dtype:
            self._done[tensor.dtype, wanted] += 1
        elif tensor.is_floating_point() or tensor.is_complex():
            self._kept[tensor.dtype] += 1
        return wanted

    @property
    def is_done(self) -> bool:
        """Whether tensors have another dtype than before."""
        return bool(self._done)

    def sentence(self) -> str:
        """What was cast and what was not; empty if there is nothing to say, as all has the wanted dtype."""
        there = (self.wanted, self.wanted.to_complex())
        others = [f"{n} of {dtype_name(dtype)}" for dtype, n in self._kept.items() if dtype not in there]
        kept = f"{' and '.join(others)} stay as they are" if others else ""
        cast = " and ".join(
            f"{plural(n, 'tensor')} from {dtype_name(old)} to {dtype_name(new)}" for (old, new), n in self._done.items()
        )
        if not cast:
            same = f"nothing was cast, for the model's main dtype is {dtype_name(self.main)}"
            return f"{same}: {kept}" if kept else ""
        return f"cast {cast}" + (f"; {kept}" if kept else "")


def _complex_of(dtype: torch.dtype) -> torch.dtype | None:
    """The complex dtype of its width; None for those of 8 bits and fewer, which have none."""
    try:
        return dtype.to_complex()
    except RuntimeError:
        return None


def _counted(tensors: Iterable[torch.Tensor]) -> Counter[torch.dtype]:
    counted: Counter[torch.dtype] = Counter()
    for tensor in tensors:
        if tensor.is_floating_point() or tensor.is_complex():
            counted[tensor.dtype.to_real()] += _elements(tensor)
    return counted


def _elements(tensor: torch.Tensor) -> int:
    from statsnet.workloads.trees import parts_of

    return sum(part.numel() for part in parts_of(tensor))


def dtype_name(dtype: torch.dtype | str) -> str:
    """Its name in torch, without the prefix; of a name, too."""
    return str(dtype).removeprefix("torch.")
