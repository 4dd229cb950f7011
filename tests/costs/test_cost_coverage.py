"""Every operator that real models meet has a formula: tiny models with random weights, on no data at all."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from statsnet.profiling.costs import cost_of
from statsnet.signatures.categories import categorize, is_metadata

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore")

IDS = torch.arange(16).reshape(2, 8)
PIXELS = torch.linspace(-1, 1, 2 * 3 * 32 * 32).reshape(2, 3, 32, 32)
TEXT = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 100,
}
IMAGE = {"pixel_values": PIXELS, "labels": torch.tensor([0, 1])}
TOKENS = {"input_ids": IDS, "labels": IDS}


def build(model, config, **options):
    kind = getattr(transformers, model)
    return kind(getattr(transformers, config)(**options))


MODELS = {
    "bert": (lambda: build("BertForMaskedLM", "BertConfig", **TEXT), TOKENS),
    "gpt2": (
        lambda: build("GPT2LMHeadModel", "GPT2Config", n_embd=32, n_layer=1, n_head=2, vocab_size=100,
                      n_positions=32, bos_token_id=1, eos_token_id=2),
        TOKENS,
    ),
    "resnet": (
        lambda: build("ResNetForImageClassification", "ResNetConfig", embedding_size=8, hidden_sizes=[8, 16],
                      depths=[1, 1], layer_type="bottleneck"),
        IMAGE,
    ),
    "mobilenet": (
        lambda: build("MobileNetV2ForImageClassification", "MobileNetV2Config", depth_multiplier=0.25,
                      image_size=32),
        IMAGE,
    ),
    "vit": (
        lambda: build("ViTForImageClassification", "ViTConfig", image_size=32, patch_size=8,
                      **{k: v for k, v in TEXT.items() if k != "vocab_size"}),
        IMAGE,
    ),
    "swin": (
        lambda: build("SwinForImageClassification", "SwinConfig", image_size=32, patch_size=2, embed_dim=8,
                      depths=[1, 2], num_heads=[1, 2], window_size=4),
        IMAGE,
    ),
    "whisper": (
        lambda: build("WhisperForConditionalGeneration", "WhisperConfig", d_model=32, encoder_layers=1,
                      decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
                      encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=100, num_mel_bins=8,
                      max_source_positions=16, max_target_positions=16, pad_token_id=0, bos_token_id=1,
                      eos_token_id=2, decoder_start_token_id=1),
        {"input_features": torch.linspace(-1, 1, 2 * 8 * 32).reshape(2, 8, 32), "labels": IDS},
    ),
    "mamba": (
        lambda: build("MambaForCausalLM", "MambaConfig", vocab_size=100, hidden_size=32, state_size=4,
                      num_hidden_layers=1),
        TOKENS,
    ),
    "mixtral": (
        lambda: build("MixtralForCausalLM", "MixtralConfig", num_key_value_heads=1, num_local_experts=4,
                      **TEXT),
        TOKENS,
    ),
    "t5": (
        lambda: build("T5ForConditionalGeneration", "T5Config", vocab_size=100, d_model=32, d_kv=16, d_ff=64,
                      num_layers=1, num_heads=2, decoder_start_token_id=0),
        TOKENS,
    ),
}  # fmt: skip

UNCOVERED: frozenset[str] = frozenset()
"""Operators that these models meet and that deliberately have no formula: none."""


def check(calls):
    assert calls
    for op, args, outputs in calls:
        if is_metadata(op):
            continue
        cost = cost_of(op, args, outputs)
        assert cost is not None or op in UNCOVERED, f"{op} has no formula for {args} -> {outputs}"
        assert min(cost.flops, cost.bytes_read, cost.bytes_written) >= 0, op
        assert categorize(op, "forward") != "other", op


@pytest.mark.parametrize("name", MODELS)
def test_models(calls_of, name):
    make, inputs = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make()

    def inference():
        with torch.no_grad():
            model.eval()(**inputs)

    def whole_inference():
        with torch.inference_mode():
            model.eval()(**inputs)

    def training():
        model.train()(**inputs).loss.backward()

    for step in (inference, whole_inference, training):
        check(calls_of(step))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_recurrent_layers(calls_of, kind, dtype):
    layer = kind(8, 16, num_layers=2, bidirectional=True, batch_first=True).to(dtype)
    x = torch.randn(3, 5, 8, dtype=dtype, requires_grad=True)

    def inference():
        with torch.no_grad():
            layer(x)

    check(calls_of(inference))
    check(calls_of(lambda: layer(x)[0].sum().backward()))


OPTIMIZERS = [
    (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (torch.optim.Adam, {"amsgrad": True}),
    (torch.optim.AdamW, {}),
    (torch.optim.Adagrad, {}),
    (torch.optim.RMSprop, {"momentum": 0.9}),
    (torch.optim.Adadelta, {}),
    (torch.optim.NAdam, {}),
]


@pytest.mark.parametrize("variant", ["loop", "foreach", "fused"])
@pytest.mark.parametrize(("kind", "options"), OPTIMIZERS, ids=[k.__name__ for k, _ in OPTIMIZERS])
def test_optimizers(calls_of, kind, options, variant):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    how = {"fused": True} if variant == "fused" else {"foreach": variant == "foreach"}
    if variant == "fused" and kind not in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW,
                                           torch.optim.Adagrad):  # fmt: skip
        pytest.skip("torch has no fused form")
    optimizer = kind(model.parameters(), lr=0.01, **options, **how)

    def step():
        optimizer.zero_grad()
        model(torch.randn(3, 4)).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    check(calls_of(step) + calls_of(step))


@pytest.mark.parametrize(
    ("kind", "options"),
    [(torch.optim.SGD, {}), (torch.optim.SGD, {"momentum": 0.9}), (torch.optim.SparseAdam, {}),
     (torch.optim.Adagrad, {})],
)  # fmt: skip
def test_sparse_embedding_bags(calls_of, kind, options):
    bag = nn.EmbeddingBag(1000, 16, mode="sum", sparse=True)
    optimizer = kind(bag.parameters(), lr=0.1, **options)

    def step():
        optimizer.zero_grad()
        bag(torch.randint(0, 1000, (32,)), torch.arange(0, 32, 4)).sum().backward()
        optimizer.step()

    check(calls_of(step) + calls_of(step))


def test_attention_losses_and_resampling(calls_of):
    attention = nn.MultiheadAttention(16, 2, batch_first=True)
    x = torch.randn(2, 5, 16, requires_grad=True)
    check(calls_of(lambda: attention(x, x, x)[0].sum().backward()))
    check(calls_of(lambda: attention(x, x, x, need_weights=False)[0].sum().backward()))
    scores = torch.randn(7, 2, 6, requires_grad=True)
    labels = torch.randint(1, 6, (2, 3))
    check(calls_of(lambda: F.ctc_loss(scores.log_softmax(-1), labels, (7, 7), (3, 3)).backward()))
    image = torch.randn(1, 2, 8, 8, requires_grad=True)
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        check(calls_of(lambda mode=mode: F.interpolate(image, (12, 12), mode=mode).sum().backward()))


def test_diffusion_block(calls_of):
    """Group norm, SiLU, convolution, upsampling, time embedding: what a denoising network is made of."""
    block = nn.Sequential(
        nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 8, 3, padding=1), nn.Upsample(scale_factor=2),
        nn.ConvTranspose2d(8, 8, 2, stride=2), nn.GELU(approximate="tanh"),
    )  # fmt: skip
    x = torch.randn(1, 8, 8, 8, requires_grad=True)
    steps = torch.arange(4.0)

    def step():
        time = torch.cat([steps.sin(), steps.cos()])
        F.mse_loss(block(x + time.view(1, 8, 1, 1)), torch.randn(1, 8, 32, 32)).backward()

    check(calls_of(step))
