"""What stays in memory, told from who reads a tensor first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

DATA_AT: dict[str, tuple[int, ...]] = {
    "mm": (0,), "addmm": (1,), "_addmm_activation": (1,), "addmv": (2,), "mkldnn_linear": (0,),
    "convolution": (0,), "_convolution": (0,), "cudnn_convolution": (0,), "miopen_convolution": (0,),
    "mkldnn_convolution": (0,), "convolution_overrideable": (0,), "cudnn_convolution_relu": (0,),
    "native_batch_norm": (0,), "_native_batch_norm_legit": (0,), "cudnn_batch_norm": (0,), "miopen_batch_norm": (0,),
    "_batch_norm_with_update": (0,), "native_layer_norm": (0,), "native_group_norm": (0,), "_fused_rms_norm": (0,),
    "embedding": (1,), "_embedding_bag": (1, 2, 6), "_embedding_bag_forward_only": (1, 2, 6), "_prelu_kernel": (0,),
    "_cudnn_rnn": (0, 4, 5), "miopen_rnn": (0, 3, 4), "mkldnn_rnn_layer": (0, 5, 6),
}  # fmt: skip
"""For each operator of ATen that has weights: the places of the tensors among its arguments that are data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorUse:
    """A tensor that an operator (`aten::addmm`) reads at this place among its arguments."""

    operator: str
    storage: int
    place: int
    elements: int
    item_bytes: int
    is_floating: bool


def memory_of(uses: Iterable[TensorUse]) -> dict[str, int | None]:
    """Memory of a step from the tensors that its forward pass reads and did not make.

    Tensors in the place of a weight of a layer's operator count as parameters, those in the place of its data as
    inputs. Of those that no such operator reads, floating-point tensors that are a second or later argument (scales,
    statistics) count as parameters, all others as inputs. A recording says no more: buffers are among the parameters;
    activations and the optimizer's state are not known.
    """
    largest: dict[int, TensorUse] = {}
    data: set[int] = set()
    weights: set[int] = set()
    later: set[int] = set()
    for use in uses:
        if use.storage not in largest or use.elements > largest[use.storage].elements:
            largest[use.storage] = use
        if (places := DATA_AT.get(use.operator.removeprefix("aten::"))) is not None:
            (data if use.place in places else weights).add(use.storage)
        elif use.place > 0 and use.is_floating:
            later.add(use.storage)
    found = (weights | later) - data
    parameters = [use for storage, use in largest.items() if storage in found]
    inputs = [use for storage, use in largest.items() if storage not in found]
    return {
        "parameter_count": sum(use.elements for use in parameters),
        "parameter_bytes": sum(use.elements * use.item_bytes for use in parameters),
        "buffer_bytes": 0,
        "input_bytes": sum(use.elements * use.item_bytes for use in inputs),
        "optimizer_bytes": None,
        "activation_bytes": None,
        "peak_bytes": None,
    }
