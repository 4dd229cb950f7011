"""ViT-B/16 (arXiv 2010.11929) from transformers: 196 patches and a class token; 86.6 M parameters."""

from __future__ import annotations

from torch import Tensor, nn
from transformers import ViTConfig, ViTForImageClassification
from transformers.initialization import no_init_weights

from reference_workloads.synthetic import images

PATCH, HEAD = 16, 64


def build(batch: int = 4, image: int = 224, layers: int = 12, hidden: int = 768) -> tuple[nn.Module, Tensor]:
    config = ViTConfig(
        image_size=image,
        patch_size=PATCH,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // HEAD,
        intermediate_size=4 * hidden,
        num_labels=1000,
        attn_implementation="sdpa",
    )
    with no_init_weights():  # the library's truncated normal looks at values, which fake tensors have not
        model = ViTForImageClassification(config)
    return initialised(model), images(batch, image)


def initialised(model: nn.Module) -> nn.Module:
    """As the library does it, but for the truncation."""
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
            elif isinstance(module, nn.LayerNorm) and name == "weight":
                nn.init.ones_(parameter)
            else:
                nn.init.zeros_(parameter)
    return model
