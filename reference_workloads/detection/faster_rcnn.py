"""Faster R-CNN (arXiv 1506.01497) with ResNet-50 on VOC 2007, as in jwyang/faster-rcnn.pytorch.

No pyramid: proposals come from the map of the third stage, and the fourth stage is the head that runs over
every RoI. Their number is fixed, RoI align samples them by grid_sample, NMS is one dense step. There are 300
RoIs an image in inference and at most 128 in training. Normalisation is fixed and the first stage frozen, as
where one fine-tunes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.detection.backbones import FrozenNorm, ResNet, stage
from reference_workloads.detection.boxes import (
    anchor_grid,
    anchor_shapes,
    as_anchors,
    clip,
    decode,
    detections,
    near_zero,
    roi_align,
)
from reference_workloads.detection.proposals import ProposalNetwork, propose
from reference_workloads.initial import he_normal

CLASSES = 21
STRIDE = 16
SHAPES = anchor_shapes((128.0, 256.0, 512.0))
POOLED = 7
TRAINED_ROIS = 128


class FasterRCNN(nn.Module):
    """`proposals` is the number of RoIs in inference."""

    anchors: Tensor

    def __init__(self, image: tuple[int, int], proposals: int, shrink: int = 1) -> None:
        super().__init__()
        self.image = image
        self.proposals = proposals
        self.backbone = ResNet(50, shrink, FrozenNorm, strides=(1, 2, 2), caffe=True)
        width = self.backbone.widths[-1]
        self.rpn = ProposalNetwork(width, 512 // shrink, len(SHAPES))
        self.head = stage(50, 3, width, FrozenNorm, shrink, stride=2, caffe=True)
        self.classes = nn.Linear(2 * width, CLASSES)
        self.deltas = nn.Linear(2 * width, 4 * CLASSES)
        he_normal(self)
        near_zero(self.rpn.logits, self.rpn.deltas, self.classes, self.deltas)
        self.backbone.stem.requires_grad_(False)
        self.backbone.stages[0].requires_grad_(False)
        cells = (-(-image[0] // STRIDE), -(-image[1] // STRIDE))
        self.register_buffer("anchors", anchor_grid(cells, STRIDE, SHAPES), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Training: logits and offsets of anchors and of RoIs. Inference: scores, labels and boxes."""
        features = self.backbone(x)[-1]
        logits, offsets = self.rpn(features)
        count = min(self.proposals, TRAINED_ROIS) if self.training else self.proposals
        rois = propose(logits, offsets, self.anchors, self.image, count)
        pooled = roi_align(features, rois, self.image, POOLED)
        vectors = self.head(pooled.flatten(0, 1)).mean(dim=(2, 3)).unflatten(0, rois.shape[:2])
        classes, deltas = self.classes(vectors), self.deltas(vectors)
        if self.training:
            return logits, offsets, classes, deltas
        anchors = as_anchors(rois)[:, :, None, :]
        boxes = clip(decode(deltas.unflatten(-1, (CLASSES, 4))[:, :, 1:], anchors, (0.1, 0.2)), self.image)
        return detections(torch.softmax(classes, dim=-1)[..., 1:], boxes, 1000, 100, 0.3)


def build(batch: int = 1, image: int = 300, proposals: int = 100, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`image` is the height, a multiple of 12; the width has 4/3 of it, as most photographs of VOC."""
    size = (image, image * 4 // 3)
    return FasterRCNN(size, proposals, shrink), torch.randn(batch, 3, *size)
