"""FLOPs and bytes are those of the work that is done: sparse, nested, quantised, packed, composite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from statsnet.errors import WorkloadError  # noqa: E402
from statsnet.profiling.capture import OpCall, capture_step  # noqa: E402
from statsnet.profiling.costs import Cost, cost_of  # noqa: E402
from statsnet.profiling.made_up import arguments  # noqa: E402
from statsnet.profiling.memory import memory_record  # noqa: E402
from statsnet.signatures.model import Cluster  # noqa: E402
from statsnet.signatures.operators import check_argument  # noqa: E402
from statsnet.workloads import build  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

ROWS, COLUMNS, STORED, WIDTH = 40, 60, 120, 8


def captured(step: Callable[[], Any], *, mode: Callable[[], Any] = torch.no_grad) -> list[OpCall]:
    with mode():
        calls = capture_step(step, device="cpu")
    for call in calls:
        for argument in (*call.args, *call.outputs):
            check_argument(argument, "a call")
    return calls


def costs(calls: list[OpCall], *names: str) -> list[Cost]:
    found = [cost_of(c.op, c.args, c.outputs) for c in calls if c.op.split(".")[1] in names]
    assert all(cost is not None for cost in found)
    return found  # type: ignore[return-value]


def flops(calls: list[OpCall], *names: str) -> float:
    return sum(cost.flops for cost in costs(calls, *names))


def sparse(layout: str) -> Any:
    """Three stored elements in each of 40 rows; of blocks, as many blocks of 2 x 2 as make 120 elements."""
    if layout == "bsr":
        dense = torch.zeros(ROWS, COLUMNS)
        for block in range(STORED // 4):
            dense[2 * (block % 20) : 2 * (block % 20) + 2, 2 * block % COLUMNS : 2 * block % COLUMNS + 2] = 1
        return dense.to_sparse_bsr((2, 2))
    dense = torch.zeros(ROWS, COLUMNS)
    for row in range(ROWS):
        dense[row, [(row + 7 * k) % COLUMNS for k in range(3)]] = 1.0
    return {"csr": dense.to_sparse_csr, "coo": dense.to_sparse, "csc": dense.to_sparse_csc}[layout]()


INDEX_BYTES = {"coo": 2 * STORED * 8, "csr": (ROWS + 1 + STORED) * 8, "csc": (COLUMNS + 1 + STORED) * 8,
               "bsr": (ROWS // 2 + 1 + STORED // 4) * 8}  # fmt: skip


@pytest.mark.parametrize("layout", ["coo", "csr", "bsr"])
def test_sparse_products_cost_their_nonzeros(layout: str) -> None:
    matrix, dense = sparse(layout), torch.randn(COLUMNS, WIDTH)
    calls = captured(lambda: matrix @ dense)
    (cost,) = [c for c in costs(calls, "mm", "_sparse_mm") if c.flops]
    assert cost.flops == 2 * STORED * WIDTH
    assert cost.bytes_read == STORED * 4 + INDEX_BYTES[layout] + COLUMNS * WIDTH * 4
    assert cost.bytes_written == ROWS * WIDTH * 4
    memory = memory_record(None, [matrix], None, device="cpu")
    assert memory["input_bytes"] == STORED * 4 + INDEX_BYTES[layout]


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr"])
def test_sparse_parameters_count_what_they_store(layout: str) -> None:
    model = nn.Linear(3, 2)
    model.sparse = nn.Parameter(sparse(layout))
    memory = memory_record(model, [], None, device="cpu")
    assert memory["parameter_count"] == 3 * 2 + 2 + STORED
    assert memory["parameter_bytes"] == (3 * 2 + 2 + STORED) * 4 + INDEX_BYTES[layout]


def rows() -> Any:
    model = nn.Linear(COLUMNS, 2)
    model.sparse = nn.Parameter(sparse("csr"))
    return model, torch.randn(3, COLUMNS)


def test_what_only_values_tell_is_not_counted_without_data() -> None:
    with pytest.raises(WorkloadError, match="factory") as caught:
        build(f"{__file__}:rows", mode="inference", device="meta")
    assert "how many elements aten._to_sparse_csr.default stores" in caught.value.cause
    assert "a real device instead of meta" in caught.value.hint


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_other_sparse_products_too(layout: str) -> None:
    matrix = sparse(layout)
    vector, bias = torch.randn(COLUMNS), torch.randn(ROWS, WIDTH)
    assert flops(captured(lambda: matrix @ vector), "mv", "mm", "addmv", "_sparse_mm") == 2 * STORED
    wide = torch.randn(COLUMNS, WIDTH)
    calls = captured(lambda: torch.sparse.addmm(bias, matrix, wide))
    assert flops(calls, "_sparse_addmm", "addmm") == 2 * STORED * WIDTH


def test_a_sparse_matrix_is_made_up_again_for_a_replay() -> None:
    matrix = sparse("csr")
    (call,) = [c for c in captured(lambda: matrix @ torch.ones(COLUMNS, WIDTH)) if c.op.split(".")[1] == "mm"]
    cluster = Cluster(op=call.op, phase="forward", category="gemm", calls=1, args=tuple(call.args),
                      outputs=tuple(call.outputs), flops=1.0, bytes_read=1.0, bytes_written=1.0)  # fmt: skip
    (again, dense), _ = arguments(cluster, "cpu")
    assert (again.layout, again._nnz()) == (torch.sparse_csr, STORED)
    assert (again @ dense).shape == (ROWS, WIDTH)


LENGTHS = [5, 3, 2]


def test_a_padded_batch_that_torch_nests_costs_its_real_tokens() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    padding = torch.arange(5) >= torch.tensor(LENGTHS)[:, None]
    x = torch.randn(3, 5, 8)
    calls = captured(lambda: encoder(x, src_key_padding_mask=padding))
    tokens, squares = sum(LENGTHS), sum(n * n for n in LENGTHS)
    products = 2 * tokens * (8 * 24 + 8 * 8 + 2 * 8 * 16) + 4 * 8 * squares
    small = tokens * 16 + tokens * 8 * 18  # the activation; norms and residuals
    assert flops(calls, "_transformer_encoder_layer_fwd") == 2 * (products + small)


def test_a_jagged_batch_costs_its_tokens() -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    rows = torch.nested.nested_tensor([torch.randn(n, 8) for n in LENGTHS], layout=torch.jagged)
    calls = captured(lambda: net(rows))
    assert flops(calls, "addmm", "mm", "linear") == 2 * sum(LENGTHS) * 2 * 8 * 16
    offsets = (len(LENGTHS) + 1) * 8
    assert memory_record(None, [rows], None, device="cpu")["input_bytes"] == sum(LENGTHS) * 8 * 4 + offsets


def test_a_nested_tensor_of_the_older_kind_costs_its_tokens() -> None:
    rows = torch.nested.nested_tensor([torch.randn(n, 8) for n in LENGTHS])
    net = nn.Linear(8, 16)
    assert flops(captured(lambda: net(rows)), "linear", "addmm", "mm") == 2 * sum(LENGTHS) * 8 * 16
    scores = captured(lambda: torch.matmul(rows, rows.transpose(1, 2)))
    assert flops(scores, "matmul", "bmm") == 2 * 8 * sum(n * n for n in LENGTHS)


def test_quantised_layers_count_products_and_parameters() -> None:
    quantised = torch.ao.quantization.quantize_dynamic(
        nn.Sequential(nn.Linear(8, 16), nn.LSTM(16, 4)), {nn.Linear, nn.LSTM}, dtype=torch.qint8
    )
    x = torch.randn(3, 2, 8)
    calls = captured(lambda: quantised(x))
    (linear,) = costs(calls, "linear_dynamic")
    assert linear.flops == 2 * 6 * 8 * 16
    assert linear.bytes_read == 6 * 8 * 4 + 8 * 16 + 16 * 4  # weights of one byte each
    assert flops(calls, "quantized_lstm") == 2 * 6 * 16 * (16 + 4) + 9 * 6 * 4
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 2, 16), [3, 2])
    assert flops(captured(lambda: quantised[1](packed)), "quantized_lstm") == 2 * 5 * 16 * (16 + 4) + 9 * 5 * 4
    memory = memory_record(quantised, [], None, device="cpu")
    weights, biases = 8 * 16 + 16 * (16 + 4), 16 + 2 * 16
    assert memory["parameter_count"] >= weights + biases
    assert memory["parameter_bytes"] >= weights + biases * 4


def test_quantised_maps_cost_what_floating_ones_do() -> None:
    x = torch.quantize_per_tensor(torch.randn(2, 3, 8, 8), 0.1, 0, torch.quint8)
    calls = captured(lambda: F.max_pool2d(torch.ops.quantized.add_relu(x, x, 0.1, 0), 2))
    assert flops(calls, "add_relu") == 2 * x.numel()
    assert flops(calls, "quantized_max_pool2d") == x.numel()
    (cost,) = costs(calls, "add_relu")
    assert (cost.bytes_read, cost.bytes_written) == (2 * x.numel(), x.numel())


def test_a_linear_layer_fused_with_its_loss_costs_its_products() -> None:
    fused = pytest.importorskip("torch.nn.modules.linear_cross_entropy_options", reason="torch 2.13 has it")
    rows, width, classes = 6, 8, 10
    x, weight = torch.randn(rows, width, requires_grad=True), torch.randn(classes, width, requires_grad=True)
    options = fused.LinearCrossEntropyOptions(chunking_method="auto", batch_chunk_size=2)

    def step() -> None:
        target = torch.zeros(rows, dtype=torch.long)
        F.linear_cross_entropy(x, weight, target, options=options).backward()

    calls = captured(step, mode=torch.enable_grad)
    fused_flops = flops(calls, "_linear_cross_entropy_batch_chunked")
    assert fused_flops == (3 * 2 * width + 4) * rows * classes  # forward, and the gradients of both


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_composite_operators_are_taken_apart_in_any_mode(mode: Callable[[], Any]) -> None:
    a, b, layer, x = torch.randn(2, 3, 4), torch.randn(2, 4, 5), nn.Conv1d(4, 6, 1), torch.randn(2, 4, 7)

    def step() -> Any:
        return torch.einsum("bij,bjk->bik", a, b), layer(x), F.linear(a, torch.ones(5, 4)), F.layer_norm(a, (4,))

    @torch.inference_mode()
    def inside() -> Any:
        return step()

    expected = Counter(
        c.op for c in captured(step) if c.op.split(".")[1] in ("bmm", "convolution", "mm", "native_layer_norm")
    )
    for calls in (captured(step, mode=mode), captured(inside)):
        counted = Counter(c.op for c in calls)
        assert {op: counted[op] for op in expected} == dict(expected)
        assert not {"einsum", "linear", "conv1d", "layer_norm"} & {c.op.split(".")[1] for c in calls}


@pytest.mark.parametrize(("causal", "pairs"), [(False, 6 * 6), (True, 6 * 7 // 2)])
def test_grouped_query_attention_counts_its_query_heads(causal: bool, pairs: int) -> None:
    query, key = torch.randn(2, 8, 6, 4), torch.randn(2, 2, 6, 4)
    calls = captured(lambda: F.scaled_dot_product_attention(query, key, key, is_causal=causal, enable_gqa=True))
    names = ("_scaled_dot_product_flash_attention_for_cpu", "bmm")
    assert flops(calls, *names) in (2 * 2 * 8 * pairs * 8, 2 * 2 * 8 * 36 * 8)
