"""Box arithmetic with fixed counts: no loop over boxes, and no shape that depends on what was found.

Anchors are (centre x, centre y, width, height), boxes are corners (x1, y1, x2, y2). Sequential NMS is
replaced by one dense step over a fixed number of candidates, the fast NMS of YOLACT (arXiv 1904.02689).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

Shape = tuple[float, float]
"""Width and height."""

LARGEST = math.log(1000 / 16)
"""Bound of the logarithm by which a box may grow, as in Detectron."""


def near_zero(*layers: nn.Conv2d | nn.Linear) -> None:
    """Small weights for layers that predict, so that the first boxes are the anchors."""
    for layer in layers:
        nn.init.normal_(layer.weight, std=0.01)


def by_anchor(x: Tensor, values: int) -> Tensor:
    """(batch, anchors * values, height, width) -> (batch, height * width * anchors, values)."""
    return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, values)


def anchor_shapes(sizes: Iterable[float], ratios: Sequence[float] = (0.5, 1.0, 2.0)) -> list[Shape]:
    """Width and height for each size (root of the area) and ratio (height by width)."""
    return [(size / ratio**0.5, size * ratio**0.5) for size in sizes for ratio in ratios]


def anchor_grid(cells: tuple[int, int], stride: float, shapes: Sequence[Shape]) -> Tensor:
    """Anchors of these shapes around the centres of (rows, columns) cells, (cells * shapes, 4)."""
    rows, columns = cells
    y = (torch.arange(rows) + 0.5) * stride
    x = (torch.arange(columns) + 0.5) * stride
    grid_y, grid_x = torch.meshgrid(y, x, indexing="ij")
    centres = torch.stack([grid_x, grid_y], dim=-1).reshape(-1, 1, 2)
    sizes = torch.tensor(shapes).reshape(1, -1, 2)
    number, kinds = rows * columns, len(shapes)
    anchors = torch.cat([centres.expand(number, kinds, 2), sizes.expand(number, kinds, 2)], dim=-1)
    return anchors.reshape(-1, 4)


def decode(deltas: Tensor, anchors: Tensor, variances: tuple[float, float] = (1.0, 1.0)) -> Tensor:
    """Boxes from offsets: of the centre in units of the anchor, and of the logarithm of the size."""
    sizes = anchors[..., 2:]
    centres = anchors[..., :2] + variances[0] * deltas[..., :2] * sizes
    half = 0.5 * sizes * torch.exp((variances[1] * deltas[..., 2:]).clamp(max=LARGEST))
    return torch.cat([centres - half, centres + half], dim=-1)


def as_anchors(boxes: Tensor) -> Tensor:
    """Corners -> centre and size."""
    sizes = boxes[..., 2:] - boxes[..., :2]
    return torch.cat([boxes[..., :2] + 0.5 * sizes, sizes], dim=-1)


def clip(boxes: Tensor, image: tuple[int, int]) -> Tensor:
    """Boxes cut off at the borders of an image of (height, width)."""
    height, width = image
    x, y = boxes[..., 0::2].clamp(0, width), boxes[..., 1::2].clamp(0, height)
    return torch.stack([x[..., 0], y[..., 0], x[..., 1], y[..., 1]], dim=-1)


def overlaps(boxes: Tensor) -> Tensor:
    """Intersection over union of every pair, (..., n, n)."""
    low = torch.maximum(boxes[..., :, None, :2], boxes[..., None, :, :2])
    high = torch.minimum(boxes[..., :, None, 2:], boxes[..., None, :, 2:])
    shared = (high - low).clamp(min=0).prod(dim=-1)
    area = (boxes[..., 2:] - boxes[..., :2]).prod(dim=-1)
    return shared / (area[..., :, None] + area[..., None, :] - shared).clamp(min=1e-6)


def pick(values: Tensor, index: Tensor) -> Tensor:
    """Rows (batch, index, :) of (batch, n, width)."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))


def best_apart(
    scores: Tensor, boxes: Tensor, candidates: int, keep: int, threshold: float, labels: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Scores and places of the `keep` best boxes after fast NMS among the best `candidates`.

    A candidate that overlaps a better one (of its label) by more than `threshold` gets the score zero, but
    stays in line, so that the numbers are fixed. scores: (batch, n); boxes: (batch, n, 4).
    """
    top, order = scores.topk(min(candidates, scores.shape[1]), dim=1)
    overlap = overlaps(pick(boxes, order))
    if labels is not None:
        label = labels.gather(1, order)
        overlap = overlap * (label[:, :, None] == label[:, None, :])
    with_better = torch.triu(overlap, diagonal=1).amax(dim=1)
    kept, place = (top * (with_better <= threshold)).topk(min(keep, top.shape[1]), dim=1)
    return kept, order.gather(1, place)


def detections(
    scores: Tensor, boxes: Tensor, candidates: int, keep: int, threshold: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The best `keep` pairs of box and class, NMS within a class: scores, labels and boxes.

    scores: (batch, n, classes) without background; boxes: (batch, n, 4), or (batch, n, classes, 4).
    """
    classes = scores.shape[-1]
    flat = scores.flatten(1)
    top, index = flat.topk(min(candidates, flat.shape[1]), dim=1)
    label = index % classes
    chosen = pick(boxes.flatten(1, -2), index if boxes.dim() == 4 else index // classes)
    best, place = best_apart(top, chosen, candidates, keep, threshold, label)
    return best, label.gather(1, place), pick(chosen, place)


def roi_align(features: Tensor, boxes: Tensor, image: tuple[int, int], size: int) -> Tensor:
    """RoI align (arXiv 1703.06870) by grid_sample: the mean of four bilinear samples in each bin.

    features: (batch, channels, rows, columns); boxes: (batch, n, 4) on an image of (height, width).
    Returns (batch, n, channels, size, size).
    """
    height, width = image
    samples = 2 * size
    steps = (torch.arange(samples, device=boxes.device, dtype=boxes.dtype) + 0.5) / samples
    x1, y1, x2, y2 = boxes.split(1, dim=-1)
    x = 2 * (x1 + (x2 - x1) * steps) / width - 1  # (batch, n, samples), -1 to 1 across the image
    y = 2 * (y1 + (y2 - y1) * steps) / height - 1
    grid_x = x[:, :, None, :].expand(-1, -1, samples, -1)
    grid_y = y[:, :, :, None].expand(-1, -1, -1, samples)
    grid = torch.stack([grid_x, grid_y], dim=-1).flatten(1, 2)  # (batch, n * samples, samples, 2)
    sampled = nn.functional.grid_sample(features, grid, padding_mode="border", align_corners=False)
    pooled = nn.functional.avg_pool2d(sampled, 2)  # (batch, channels, n * size, size)
    return pooled.unflatten(2, (boxes.shape[1], size)).transpose(1, 2)
