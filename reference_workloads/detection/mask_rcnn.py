"""Mask R-CNN (arXiv 1703.06870), ResNet-101 with a feature pyramid, as in maskrcnn-benchmark; 63.3 M weights.

Fixed numbers stand for what depends on the image: each of the five levels gives a fifth of the proposals,
RoI align samples them by grid_sample on the map that an anchor of that level belongs to by the paper's rule,
NMS is one dense step. In training there are at most 512 RoIs, and masks for a quarter of them; in inference
1000, and masks for a tenth. Normalisation is fixed and the first stage frozen, as where one fine-tunes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from reference_workloads.detection.backbones import FeaturePyramid, FrozenNorm, ResNet
from reference_workloads.detection.boxes import (
    anchor_grid,
    anchor_shapes,
    as_anchors,
    best_apart,
    clip,
    decode,
    near_zero,
    pick,
    roi_align,
)
from reference_workloads.detection.proposals import ProposalNetwork, propose
from reference_workloads.initial import he_normal

CLASSES = 81
STRIDES = (4, 8, 16, 32, 64)
TRAINED_ROIS = 512
VARIANCES = (0.1, 0.2)


class BoxHead(nn.Sequential):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(
            nn.Flatten(),
            nn.Linear(49 * width, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
        )


class MaskHead(nn.Sequential):
    """Four convolutions at 14x14, then a mask of 28x28 for every class."""

    def __init__(self, width: int) -> None:
        layers: list[nn.Module] = []
        for _ in range(4):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU(inplace=True)]
        layers += [nn.ConvTranspose2d(width, width, 2, stride=2), nn.ReLU(inplace=True)]
        super().__init__(*layers, nn.Conv2d(width, CLASSES, 1))


class MaskRCNN(nn.Module):
    """`proposals` is the number of RoIs in inference."""

    anchors: Tensor

    def __init__(self, image: tuple[int, int], proposals: int, shrink: int = 1) -> None:
        super().__init__()
        self.image = image
        self.proposals = proposals
        width, hidden = 256 // shrink, 1024 // shrink
        self.backbone = ResNet(101, shrink, FrozenNorm, caffe=True)
        self.pyramid = FeaturePyramid(self.backbone.widths, width)
        self.rpn = ProposalNetwork(width, width, 3)
        self.box_head = BoxHead(width, hidden)
        self.classes = nn.Linear(hidden, CLASSES)
        self.deltas = nn.Linear(hidden, 4 * CLASSES)
        self.mask_head = MaskHead(width)
        he_normal(self)
        near_zero(self.rpn.logits, self.rpn.deltas, self.classes, self.deltas)
        self.backbone.stem.requires_grad_(False)
        self.backbone.stages[0].requires_grad_(False)
        height, wide = image
        anchors = [
            anchor_grid((-(-height // stride), -(-wide // stride)), stride, anchor_shapes([8.0 * stride]))
            for stride in STRIDES
        ]
        self.counts = [len(level) for level in anchors]
        self.register_buffer("anchors", torch.cat(anchors), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Training: logits and offsets of anchors, then of RoIs, and mask logits.

        Inference: scores, labels, boxes and masks.
        """
        maps = self.pyramid(self.backbone(x))
        coarsest = nn.functional.max_pool2d(maps[-1], 1, stride=2)
        predicted = [self.rpn(level) for level in (*maps, coarsest)]
        share = (min(self.proposals, TRAINED_ROIS) if self.training else self.proposals) // len(STRIDES)
        rois = [
            propose(logits, deltas, anchors, self.image, share)
            for (logits, deltas), anchors in zip(predicted, self.anchors.split(self.counts), strict=True)
        ]
        vectors = self.box_head(self.pool(maps, rois, 7).flatten(0, 1))
        classes = self.classes(vectors).unflatten(0, (x.shape[0], -1))
        deltas = self.deltas(vectors).unflatten(0, (x.shape[0], -1))
        if self.training:
            logits, offsets = (torch.cat(parts, dim=1) for parts in zip(*predicted, strict=True))
            positive = [boxes[:, : max(1, share // 4)] for boxes in rois]
            return logits, offsets, classes, deltas, self.masks(maps, positive)
        return self.detect(maps, classes, deltas, rois)

    def pool(self, maps: Sequence[Tensor], rois: Sequence[Tensor], size: int) -> Tensor:
        """RoIs of all levels, (batch, n, channels, size, size).

        The paper's rule sends an RoI of root area 224 to the third map, so anchors of the first two levels
        belong to the first map, and those of any other to the map before their own.
        """
        sources = [maps[max(level - 1, 0)] for level in range(len(STRIDES))]
        pairs = zip(sources, rois, strict=True)
        return torch.cat([roi_align(source, boxes, self.image, size) for source, boxes in pairs], dim=1)

    def masks(self, maps: Sequence[Tensor], rois: Sequence[Tensor]) -> Tensor:
        """(batch, n, 81, 28, 28)."""
        pooled = self.pool(maps, rois, 14)
        return self.mask_head(pooled.flatten(0, 1)).unflatten(0, pooled.shape[:2])

    def detect(
        self, maps: Sequence[Tensor], classes: Tensor, deltas: Tensor, rois: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        counts = [boxes.shape[1] for boxes in rois]
        levels = zip(classes.split(counts, dim=1), deltas.split(counts, dim=1), rois, strict=True)
        scores, labels, boxes = zip(*(self.refine(*level) for level in levels), strict=True)
        label = torch.cat(labels, dim=1)
        masks = self.masks(maps, boxes)
        own = (label + 1)[:, :, None, None, None].expand(-1, -1, 1, *masks.shape[-2:])
        mask = torch.sigmoid(masks.gather(2, own).squeeze(2))
        return torch.cat(scores, dim=1), label, torch.cat(boxes, dim=1), mask

    def refine(self, classes: Tensor, deltas: Tensor, rois: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The best tenth of one level's RoIs with their best class, after NMS within a class."""
        score, label = torch.softmax(classes, dim=-1)[..., 1:].max(dim=-1)
        own = (label + 1)[:, :, None, None].expand(-1, -1, 1, 4)
        delta = deltas.unflatten(-1, (CLASSES, 4)).gather(2, own).squeeze(2)
        boxes = clip(decode(delta, as_anchors(rois), VARIANCES), self.image)
        count = rois.shape[1]
        best, index = best_apart(score, boxes, count, max(1, count // 10), 0.5, label)
        return best, label.gather(1, index), pick(boxes, index)


def build(batch: int = 1, image: int = 320, proposals: int = 250, shrink: int = 1) -> tuple[nn.Module, Tensor]:
    """`image` is the shorter side, a multiple of 32; the longer one has 5/3 of it, rounded up to such."""
    size = (image, (image * 5 // 3 + 31) // 32 * 32)
    return MaskRCNN(size, proposals, shrink), torch.randn(batch, 3, *size)
