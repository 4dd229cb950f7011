"""Equal parts, told by the names of arguments."""

from __future__ import annotations

import pytest

from statsnet.signatures.partitions import Shapes, parts_of

FLASH, EFFICIENT = "aten._flash_attention_forward.default", "aten._efficient_attention_forward.default"
PACKED: Shapes = {"query": (40, 4, 8), "key": (60, 4, 8)}


@pytest.mark.parametrize(
    ("op", "name", "count", "shapes", "parts"),
    [
        ("aten._embedding_bag.default", "offsets", 3, {"weight": (9, 4), "indices": (12,)}, (0, 4)),
        ("aten._grouped_mm.default", "offs", 4, {"self": (40, 8), "mat2": (4, 8, 6)}, (10, 10)),
        ("aten._grouped_mm.default", "offs", 4, {"self": (8, 40), "mat2": (40, 6)}, (10, 10)),
        ("aten._scaled_grouped_mm.default", "offs", 4, {"self": (4, 6, 8), "mat2": (8, 40)}, (10, 10)),
        (FLASH, "cum_seq_q", 5, PACKED, (0, 10)),
        (FLASH, "cum_seq_k", 5, PACKED, (0, 15)),
        (EFFICIENT, "cu_seqlens_q", 5, {"query": (1, 40, 4, 8), "key": (1, 60, 4, 8)}, (0, 10)),
        ("aten.segment_reduce.default", "lengths", 6, {"data": (30, 4)}, (5, 0)),
        ("aten.index_select.default", "index", 3, {"self": (12, 4)}, None),
        ("aten._jagged_to_padded_dense_forward.default", "offsets", 3, {"values": (12, 4)}, (0, 6)),
        ("aten._embedding_bag_backward.default", "offsets", 4, {"grad": (3, 8), "indices": (12,)}, (0, 4)),
        ("aten._segment_reduce_backward.default", "lengths", 6, {"grad": (6, 4), "data": (30, 4)}, (5, 0)),
        ("aten._segment_reduce_backward.default", "offsets", 7, {"grad": (6, 4), "data": (30, 4)}, (0, 5)),
        ("aten._pack_padded_sequence.default", "lengths", 3, {"input": (7, 3, 4)}, (7, 0)),
        ("aten._pack_padded_sequence.default", "lengths", 3, {"input": (3, 7, 4)}, (7, 0)),
        ("aten._ctc_loss_backward.Tensor", "input_lengths", 2, {"log_probs": (9, 2, 5)}, (9, 0)),
        ("aten._ctc_loss_backward.Tensor", "target_lengths", 2, {"log_alpha": (2, 9, 7)}, (3, 0)),
        ("aten._ctc_loss.Tensor", "target_lengths", 2, {"targets": (2, 3)}, (3, 0)),
        ("aten._ctc_loss.Tensor", "target_lengths", 2, {"targets": (6,)}, (3, 0)),
        ("aten.segment_reduce.default", "lengths", 6, {"data": ()}, None),
        ("aten._nested_view_from_buffer.default", "offsets", 3, {"self": (12,)}, None),
    ],
)
def test_parts_are_equally_long(op: str, name: str, count: int, shapes: Shapes, parts: tuple[int, int] | None) -> None:
    assert parts_of(op, name, count, shapes) == parts
