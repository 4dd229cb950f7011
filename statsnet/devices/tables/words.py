"""Our words for operators and dtypes, and the order of each operator's dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from statsnet.signatures.operators import ITEM_SIZE

GEMM = ("batch", "m", "n", "k")
"""A product of an (m, k) and a (k, n) matrix, row-major, `batch` times."""

CONVOLUTION = (
    "batch", "in_channels", "in_h", "in_w", "out_channels", "kernel_h", "kernel_w",
    "pad_h", "pad_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "groups",
)  # fmt: skip
"""Dims of the forward convolution, for all directions."""

ATTENTION = ("batch", "q_len", "kv_len", "heads", "kv_heads", "head_dim", "window")
"""`kv_len` counts the new tokens too; `window` 0: none."""

ATTENTIONS = ("attention_prefill", "attention_decode", "attention_encoder")

MOE = ("tokens", "hidden", "intermediate", "top_k", "experts", "tensor_parallel", "expert_parallel")
RECURRENT = ("hidden", "batch", "steps")
ROWS = ("rows", "columns")

OPERATOR_DIMS = {
    "gemm": GEMM,
    "mla_bmm": GEMM,
    "sparse_gemm": (*GEMM, "per_mille_zero"),
    "convolution": CONVOLUTION,
    **dict.fromkeys(ATTENTIONS, ATTENTION),
    "moe": MOE,
    "rnn": RECURRENT,
    "lstm": RECURRENT,
    "gru": RECURRENT,
    "allreduce": ("elements", "ranks"),
    "gated_delta": ("batch", "tokens", "hidden", "v_heads"),
    **dict.fromkeys(
        ("add", "sub", "mul", "div", "pow", "relu", "gelu", "silu", "silu_mul", "tanh", "softmax", "layer_norm",
         "rms_norm", "embedding", "rope", "dropout"), ROWS,
    ),
}  # fmt: skip
"""What other operators have is taken as it stands in their table."""

WORK = ("flops", "bytes_read", "bytes_written")
"""Dims of an operator that is known by its work alone."""

MAY_BE_ZERO = frozenset({"pad_h", "pad_w", "window", "per_mille_zero", *WORK})
LARGEST_SIZE, LARGEST_WORK = 2**40, 2**62
LONGEST_WORD = 80
"""Characters of an operator's, a dtype's or a variant's name."""

DEFAULTS = {
    "batch": 1, "groups": 1, "dilation_h": 1, "dilation_w": 1, "stride_h": 1, "stride_w": 1, "pad_h": 0, "pad_w": 0,
    "window": 0, "tensor_parallel": 1, "expert_parallel": 1,
}  # fmt: skip
"""What a table that lacks a dim of an operator means."""

DTYPES = {
    "fp32": "float32", "float": "float32", "f32": "float32", "fp16": "float16", "half": "float16", "f16": "float16",
    "bf16": "bfloat16", "fp16_mixed": "float16", "fp64": "float64", "double": "float64", "single": "float32",
    "e4m3": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn", "fp8_e4m3fn": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "fp8_e5m2": "float8_e5m2",
}  # fmt: skip

ITEM_BYTES = {
    **{dtype: float(size) for dtype, size in ITEM_SIZE.items()},
    "tf32": 4.0, "fp8": 1.0, "fp8_block": 1.0, "nvfp4": 0.5625, "int4_wo": 0.5,
}  # fmt: skip
"""Bytes of one element, by torch's names and those of tables; nvfp4 has a scale for each 16 elements."""


def dtype_word(text: str) -> str:
    """The dtype as torch calls it, or as it stands."""
    word = text.strip().lower().removeprefix("torch.")
    return DTYPES.get(word, word)


def named(operator: str, sizes: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
    """Sizes with their names. Raises ValueError if there are too many or too few."""
    return tuple(zip(OPERATOR_DIMS[operator], sizes, strict=True))


def check_sizes(names: Sequence[str], sizes: Sequence[int]) -> None:
    """Raises ValueError for a size that no operator has."""
    for name, size in zip(names, sizes, strict=True):
        least, most = int(name not in MAY_BE_ZERO), LARGEST_WORK if name in WORK else LARGEST_SIZE
        if not least <= size <= most:
            raise ValueError(f"{name} is {size}, not in {least} to {most}")


def check_dims(operator: str, dims: Mapping[str, int]) -> None:
    """Raises ValueError for dims of another operator, or a size that no operator has."""
    names = OPERATOR_DIMS.get(operator)
    if names is not None and dims.keys() != {*names}:
        raise ValueError(f"{operator} has the dims {', '.join(names)}")
    if not dims.keys().isdisjoint(WORK) and dims.keys() != {*WORK}:
        raise ValueError(f"work is given by {', '.join(WORK)}")
    check_sizes(tuple(dims), tuple(dims.values()))
