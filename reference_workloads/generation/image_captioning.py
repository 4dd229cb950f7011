"""Neural image caption, Show and tell (arXiv 1411.4555), with the sizes of im2txt in tensorflow/models.

A convolutional network reads the image, an LSTM of 512 whose first input it is predicts the caption word by
word. The encoder is GoogLeNet, the paper's without batch normalisation; im2txt has its successor, Inception
v3. Captions are scored in one go, as in training, rather than generated.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.cv.googlenet import GoogLeNet
from reference_workloads.initial import he_normal
from reference_workloads.synthetic import images, tokens

FEATURES = 1024
"""Channels of GoogLeNet's last layer."""


class Captioner(nn.Module):
    """`shrink` divides the encoder's channel counts, `width` is that of the LSTM and the words."""

    def __init__(self, vocabulary: int, width: int, shrink: int) -> None:
        super().__init__()
        encoder = GoogLeNet(shrink)
        he_normal(encoder)
        self.encoder = nn.Sequential(encoder.features, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.image = nn.Linear(FEATURES // shrink, width)
        self.word = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.dropout = nn.Dropout(0.3)
        self.logits = nn.Linear(width, vocabulary)

    def forward(self, image: Tensor, caption: Tensor) -> Tensor:
        """Images and (batch, words) -> logits of the next words, (batch, words, vocabulary)."""
        first = self.image(self.encoder(image)).unsqueeze(1)
        steps = torch.cat([first, self.word(caption)], dim=1)
        hidden, _ = self.lstm(self.dropout(steps))
        # The image itself predicts nothing: captions begin with a start word.
        return self.logits(self.dropout(hidden[:, 1:]))


def build(
    batch: int = 8,
    words: int = 20,
    image: int = 224,
    vocabulary: int = 12000,
    width: int = 512,
    shrink: int = 1,
) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    model = Captioner(vocabulary, width, shrink)
    return model, (images(batch, image), tokens(vocabulary, batch, words))
