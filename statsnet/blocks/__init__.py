"""The blocks that a proxy is made of.

What every kind has, and must do
    base, conformance
Products
    linear, matmul, conv, convolution_library, conv_chain, deconv, attention, recurrent
One pass over the elements
    pointwise, normalization, softmax, pooling, resample
Looked up and moved
    embedding, zipf, rearrange, comparison, scatter
An optimizer's work alone
    parameters
Any pure operator of ATen
    operator, operator_schema, operator_reading, operator_call, operator_sizes, operator_trial, operator_values,
    operator_source, operator_spelling, convolution_gradients
Beside the kinds: what processes exchange
    collective
"""

from collections.abc import Callable

from statsnet.blocks.attention import AttentionKind
from statsnet.blocks.base import BlockKind, Config
from statsnet.blocks.comparison import ComparisonKind
from statsnet.blocks.conv import ConvKind
from statsnet.blocks.conv_chain import ConvChainKind
from statsnet.blocks.deconv import DeconvKind
from statsnet.blocks.embedding import EmbeddingBagKind, EmbeddingKind
from statsnet.blocks.linear import LinearKind
from statsnet.blocks.matmul import MatMulKind
from statsnet.blocks.normalization import NormKind
from statsnet.blocks.operator import OperatorKind
from statsnet.blocks.parameters import ParametersKind
from statsnet.blocks.pointwise import PointwiseKind
from statsnet.blocks.pooling import PoolKind
from statsnet.blocks.rearrange import ConcatKind, GatherKind, ReduceKind, TopKKind, TransposeKind
from statsnet.blocks.recurrent import RecurrentKind
from statsnet.blocks.resample import PadKind, ResizeKind, SampleKind
from statsnet.blocks.scatter import ScatterAddKind
from statsnet.blocks.softmax import SoftmaxKind
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import first_tensor, is_tensor, tensors_of
from statsnet.signatures.quantized import is_quantized
from statsnet.signatures.sparse import is_sparse

KINDS: dict[str, BlockKind] = {
    kind.name: kind
    for kind in (
        ParametersKind(), ConvKind(), ConvChainKind(), DeconvKind(), LinearKind(), MatMulKind(), AttentionKind(),
        RecurrentKind(), EmbeddingKind(), EmbeddingBagKind(), NormKind(), SoftmaxKind(), PoolKind(), ResizeKind(),
        SampleKind(), PadKind(), TransposeKind(), ConcatKind(), ComparisonKind(), GatherKind(), ScatterAddKind(),
        ReduceKind(), TopKKind(), PointwiseKind(), OperatorKind(),
    )
}  # fmt: skip
"""In order of preference: the first kind that recognises a motif's first operator takes it."""


def recognise(motif: list[Cluster]) -> tuple[str, Config] | None:
    """Kind and full-size configuration of the block that stands for a motif, None if no kind knows it."""
    return None if _is_empty(motif) or _is_generic(motif) else _recognised(motif)


def asked(rule: Callable[[list[Cluster]], Config | None], motif: list[Cluster]) -> Config | None:
    """What a block's rule says of a motif; None if it counts on arguments of another form, as a softmax over an axis of
    a tensor without axes, or if all that it reads or its first result is empty."""
    return None if _is_empty(motif) else _said(rule, motif)


def readings(motif: list[Cluster]) -> list[tuple[str, Config]]:
    """All blocks that may stand for a motif: first the one that `recognise` finds; then, if the motif may be a step of
    a recurrent layer or of a comparison, such a block."""
    if _is_empty(motif) or _is_generic(motif):
        return []
    read = [_recognised(motif), *((name, _said(kind.from_step, motif)) for name, kind in KINDS.items())]
    return [(name, config) for name, config in filter(None, read) if config is not None]


def _recognised(motif: list[Cluster]) -> tuple[str, Config] | None:
    said = ((name, _said(kind.from_motif, motif)) for name, kind in KINDS.items())
    return next(((name, config) for name, config in said if config is not None), None)


def _said(rule: Callable[[list[Cluster]], Config | None], motif: list[Cluster]) -> Config | None:
    """A file from elsewhere may hold arguments that torch could not have been called with."""
    try:
        return rule(motif)
    except (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError):
        return None


def _is_empty(motif: list[Cluster]) -> bool:
    """A cache of keys begins empty, and so does what is concatenated then."""
    read, written = tensors_of(motif[0].args), first_tensor(motif[0].outputs)
    return (bool(read) and all(0 in tensor.shape for tensor in read)) or (written is not None and 0 in written.shape)


def _is_generic(motif: list[Cluster]) -> bool:
    """Whether it begins with a product of a sparse matrix, or with quantised tensors: the generic block has these."""
    first = motif[0]
    sparse = any(is_tensor(arg) and arg.get("elements") is not None and is_sparse(arg) for arg in first.args)
    quantized = first.op.startswith(("quantized.", "aten.quantized_")) or any(map(is_quantized, first.args))
    return sparse or quantized
