"""Operators that stand for a whole layer, taken apart for other runtimes: the same numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from statsnet.measure.lacking_operators import rewritten
from statsnet.measure.runtimes import saved_onnx
from statsnet.measure.whole_layers import LAYERS

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # torch's exporter warns of torch's own code
    pytest.mark.usefixtures("one_reading_of_operators"),
]

SEQUENCES, POSITIONS, WIDTH, HEADS = 3, 5, 16, 4

MASKS: dict[str, tuple[Any, int | None]] = {
    "no mask": (None, None),
    "keys": (torch.arange(POSITIONS).repeat(SEQUENCES, 1) > 2, 1),
    "scores": (torch.ones(POSITIONS, POSITIONS, dtype=torch.bool).triu(1), 0),
    "scores of each head": ((torch.arange(300.0) % 5 > 2).float().view(SEQUENCES, HEADS, POSITIONS, POSITIONS), 2),
}


class Attention(nn.Module):
    def __init__(self, mask: Tensor | None, mask_type: int | None, need_weights: bool = False) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(WIDTH, HEADS)
        self.rest = mask, need_weights, False, mask_type

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Any:
        own = self.layer
        weights = own.in_proj_weight, own.in_proj_bias, own.out_proj.weight, own.out_proj.bias
        y, seen = torch._native_multi_head_attention(query, key, value, WIDTH, HEADS, *weights, *self.rest)
        return (y, seen) if self.rest[1] else y


class Layer(nn.Module):
    def __init__(self, gelu: bool, norm_first: bool, mask: Tensor | None = None, mask_type: int | None = None) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32)
        self.how, self.mask = (gelu, norm_first, 1e-5), (mask, mask_type)

    def forward(self, x: Tensor) -> Any:
        attention, *others = self.layer.self_attn, self.layer.norm1, self.layer.norm2
        wide, narrow = self.layer.linear1, self.layer.linear2
        return torch._transformer_encoder_layer_fwd(
            x, WIDTH, HEADS, attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight,
            attention.out_proj.bias, *self.how, *(t for m in (*others, wide, narrow) for t in (m.weight, m.bias)),
            *self.mask,
        )  # fmt: skip


CASES: dict[str, nn.Module] = {
    **{f"attention, {name}": Attention(*mask) for name, mask in MASKS.items() if name != "scores of each head"},
    "attention, scores of each head": Attention(*MASKS["scores of each head"]),
    "attention and its weights": Attention(*MASKS["scores"], need_weights=True),
    **{f"layer, {name}": Layer(False, False, *MASKS[name]) for name in ("no mask", "keys", "scores")},
    "layer, norms first": Layer(True, True),
}


@pytest.mark.parametrize("case", CASES)
def test_its_parts_compute_the_same(case: str) -> None:
    torch.manual_seed(0)
    model = CASES[case].eval()
    inputs = tuple(torch.randn(SEQUENCES, POSITIONS, WIDTH) for _ in range(3 if isinstance(model, Attention) else 1))
    with torch.no_grad():
        expected = model(*inputs)
    program = rewritten(torch.export.export(model, inputs), LAYERS)
    assert not {node.target for node in program.graph.nodes} & LAYERS.keys()
    torch.testing.assert_close(program.module()(*inputs), expected)


def test_other_operators_stay_whole() -> None:
    class Model(Attention):
        def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Any:
            return nn.functional.gelu(super().forward(query, key, value)).unflatten(-1, (4, 4))

    x = torch.randn(SEQUENCES, POSITIONS, WIDTH)
    held = {str(n.target) for n in rewritten(torch.export.export(Model(None, None), (x, x, x)), LAYERS).graph.nodes}
    assert {"aten.gelu.default", "aten.linear.default", "aten.scaled_dot_product_attention.default"} <= held
    plain = torch.export.export(nn.Linear(4, 4), (torch.randn(2, 4),))
    assert rewritten(plain, LAYERS) is plain


def test_onnxruntime_runs_what_was_taken_apart(tmp_path: Any) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model, x = Layer(True, False).eval(), torch.randn(SEQUENCES, POSITIONS, WIDTH)
    path = saved_onnx(rewritten(torch.export.export(model, (x,)), LAYERS), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(path)
    (made,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(made), model(x), atol=1e-5, rtol=1e-5)


def test_a_sequence_without_keys_is_what_the_module_s_own_graph_makes_of_it() -> None:
    """The operator itself gives NaN."""
    mask = torch.zeros(SEQUENCES, POSITIONS, dtype=torch.bool)
    mask[1] = True
    model, x = Layer(False, False, mask, 1).eval(), torch.randn(SEQUENCES, POSITIONS, WIDTH)
    with torch.no_grad():
        assert model(x)[1].isnan().all()
    made = rewritten(torch.export.export(model, (x,)), LAYERS).module()(x)
    in_module = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True)
    in_module.load_state_dict(model.layer.state_dict())
    torch.testing.assert_close(made, in_module.eval()(x, src_key_padding_mask=mask))
