"""Multiply-adds of one sample of detection, generation and graph workloads, by hand from published sizes.

Forms count what torch's counter counts where the models run on meta tensors: convolutions and matrix
products. RoI align, grid sampling and sums along edges are none. A transposed convolution counts once for every
position of its input.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from multiply_adds import chain


def conv(inputs: int, outputs: int, size: int, cells: int, *, groups: int = 1, dims: int = 2) -> int:
    """A kernel of `size` in each dimension; `cells` are the positions it is laid on."""
    taps: int = size**dims
    return inputs * outputs * taps * cells // groups


def bottlenecks(
    inputs: int, width: int, outputs: int, blocks: int, cells: int, *, entering: int = 0, groups: int = 1
) -> int:
    """Residual blocks of 1x1, 3x3 and 1x1 convolutions, with a projection in the first one's shortcut.

    `entering` are the positions of the very first convolution, where the stride comes after it.
    """
    inner = conv(width, width, 3, cells, groups=groups) + conv(width, outputs, 1, cells)
    first = conv(inputs, width, 1, entering or cells) + conv(inputs, outputs, 1, cells)
    return first + blocks * inner + (blocks - 1) * conv(outputs, width, 1, cells)


def resnet(blocks: Sequence[int], cells: Sequence[int], *, early: bool = False, groups: int = 1) -> int:
    """The 7x7 convolution, then stages of 256, 512, ... channels at all but the first of `cells`.

    `early` strides in the first convolution of a stage, as first published; otherwise in the 3x3 one. With
    groups it is ResNeXt, whose blocks are twice as wide inside.
    """
    total = conv(3, 64, 7, cells[0])
    inputs, entering = 64, cells[1]
    for index, (count, here) in enumerate(zip(blocks, cells[1:], strict=True)):
        width = (128 if groups > 1 else 64) << index
        outputs = 256 << index
        before = here if early else entering
        total += bottlenecks(inputs, width, outputs, count, here, entering=before, groups=groups)
        inputs, entering = outputs, here
    return total


def vgg16(sides: Sequence[int]) -> int:
    """The 13 convolutions of configuration D, with the side of the map in each of the five stages."""
    total, inputs = 0, 3
    for width, depth, side in zip((64, 128, 256, 512, 512), (2, 2, 3, 3, 3), sides, strict=True):
        total += conv(inputs, width, 3, side**2) + (depth - 1) * conv(width, width, 3, side**2)
        inputs = width
    return total


def pyramid(inputs: Sequence[int], cells: Sequence[int]) -> int:
    """Feature pyramid of 256 channels: a 1x1 and a 3x3 convolution for each map."""
    return sum(conv(a, 256, 1, n) + conv(256, 256, 3, n) for a, n in zip(inputs, cells, strict=True))


def cpn() -> int:
    """ResNet-50 at 384x288; 256 channels in GlobalNet, bottlenecks of 128 in RefineNet, 17 keypoints."""
    cells = [(192 >> index) * (144 >> index) for index in range(5)]
    maps = cells[1:]
    heat = conv(256, 17, 3, 1)
    lateral = sum(conv(256 << index, 256, 1, n) for index, n in enumerate(maps))
    merged = sum(conv(256, 256, 1, n) for n in maps[:-1])
    block = chain(256, 128) + conv(128, 128, 3, 1) + chain(128, 256)
    deepened = sum(index * n * block for index, n in enumerate(maps))
    joined = bottlenecks(4 * 256, 128, 256, 1, maps[0]) + maps[0] * heat
    return resnet((3, 4, 6, 3), cells) + lateral + merged + deepened + joined


def crnn() -> int:
    """The paper's table 1 at 32x100, with 26 columns at its end, read by two layers of LSTMs of 256, both ways."""
    widths = (1, 64, 128, 256, 256, 512, 512)
    cells = (32 * 100, 16 * 50, 8 * 25, 8 * 25, 4 * 26, 4 * 26)
    convolutions = sum(conv(a, b, 3, n) for (a, b), n in zip(pairwise(widths), cells, strict=True))
    lstms = 2 * 4 * 256 * ((512 + 256) + (256 + 256))
    return convolutions + conv(512, 512, 2, 26) + 26 * (lstms + 512 * 256 + 512 * 37)


def dssd() -> int:
    """ResNet-101 at 321 pixels with a dilated last stage; maps of 40, 20, 10, 5, 3 and 1 cells a side.

    Steps down have bottlenecks of 256 and 1024 with larger kernels, ways up 512 channels, and 8 boxes of a
    cell one of 21 classes each, after a bottleneck of 256 and 1024.
    """
    total = resnet((3, 4, 23, 3), (161**2, 80**2, 40**2, 20**2, 20**2), early=True)
    for inputs, size, side in ((2048, 2, 10), (1024, 2, 5), (1024, 3, 3), (1024, 3, 1)):
        total += conv(inputs, 256 + 1024, size, side**2) + conv(256, 256, 3, side**2)
        total += conv(256, 1024, 1, side**2)
    ways = ((1024, 1, 3, 3, 1024), (512, 3, 3, 5, 1024), (512, 5, 2, 10, 1024), (512, 10, 2, 20, 2048))
    for coarse, below, size, side, fine in (*ways, (512, 20, 2, 40, 512)):
        total += conv(coarse, 512, size, below**2) + conv(fine + 2 * 512, 512, 3, side**2)
    maps = ((512, 5, 40), (512, 5, 20), (512, 3, 10), (512, 3, 5), (512, 3, 3), (1024, 3, 1))
    for inputs, size, side in maps:
        total += bottlenecks(inputs, 256, 1024, 1, side**2) + conv(1024, 8 * (21 + 4), size, side**2)
    return total


def faster_rcnn() -> int:
    """ResNet-50 at 600x800 up to stride 16, 9 anchors a cell; 300 RoIs of 7x7 go through the last stage."""
    cells = (300 * 400, 150 * 200, 75 * 100, 38 * 50)
    proposals = conv(1024, 512, 3, cells[-1]) + conv(512, 9 * (1 + 4), 1, cells[-1])
    head = bottlenecks(1024, 512, 2048, 3, 4 * 4) + 2048 * 21 * (1 + 4)
    return resnet((3, 4, 6), cells, early=True) + proposals + 300 * head


def mask_rcnn() -> int:
    """ResNet-101 at 800x1344, 3 anchors a cell of five maps; 1000 RoIs through layers of 1024, 100 masks."""
    cells = (400 * 672, 200 * 336, 100 * 168, 50 * 84, 25 * 42)
    maps = cells[1:]
    backbone = resnet((3, 4, 23, 3), cells, early=True) + pyramid((256, 512, 1024, 2048), maps)
    proposals = (sum(maps) + 13 * 21) * (conv(256, 256, 3, 1) + chain(256, 3 * (1 + 4)))
    boxes = chain(7 * 7 * 256, 1024, 1024, 81 * (1 + 4))
    masks = 4 * conv(256, 256, 3, 14**2) + conv(256, 256, 2, 14**2) + conv(256, 81, 1, 28**2)
    return backbone + proposals + 1000 * boxes + 100 * masks


def retinanet() -> int:
    """ResNeXt-50 32x4d at 800x800, maps of 100 to 7 cells a side; two towers, 9 anchors of 264 classes."""
    sides = (100, 50, 25, 13, 7)
    cells = [side**2 for side in sides]
    backbone = resnet((3, 4, 6, 3), (400**2, 200**2, *cells[:3]), groups=32)
    coarser = sum(conv(256, 256, 3, n) for n in cells[3:])
    towers = 2 * 4 * conv(256, 256, 3, 1) + conv(256, 9 * (264 + 4), 3, 1)
    return backbone + pyramid((512, 1024, 2048), cells[:3]) + coarser + sum(cells) * towers


def seglink() -> int:
    """SSD's VGG-16 at 512 pixels, six maps of 64 to 2 cells a side.

    A cell gives 2 scores, 6 offsets and 2 scores for each link: 8 of them, and 4 more but on the first map.
    """
    backbone = vgg16((512, 256, 128, 64, 32)) + conv(512, 1024, 3, 32**2) + conv(1024, 1024, 1, 32**2)
    steps = conv(1024, 256, 1, 32**2) + conv(256, 512, 3, 16**2)
    steps += conv(512, 128, 1, 16**2) + conv(128, 256, 3, 8**2)
    steps += conv(256, 128, 1, 8**2) + conv(128, 256, 3, 4**2) + conv(256, 256, 3, 2**2)
    maps = zip((1024, 512, 256, 256, 256), (32, 16, 8, 4, 2), strict=True)
    predictions = sum(conv(width, 2 + 6 + 2 * 12, 3, side**2) for width, side in maps)
    return backbone + steps + conv(512, 2 + 6 + 2 * 8, 3, 64**2) + predictions


def unet3d() -> int:
    """Cubes of 128 voxels, halved five times, 32 to 320 channels; two 3x3x3 convolutions at each level."""
    filters = (32, 64, 128, 256, 320, 320)
    total = conv(32, 3, 1, 128**3, dims=3)
    for level, (above, width) in enumerate(pairwise((1, *filters))):
        total += conv(above + width, width, 3, (128 >> level) ** 3, dims=3)
    for level, (width, below) in enumerate(pairwise(filters)):
        total += conv(below, width, 2, (128 >> level + 1) ** 3, dims=3)
        total += conv(3 * width, width, 3, (128 >> level) ** 3, dims=3)
    return total


def cyclegan() -> int:
    """One generator at 256x256: c7s1-64, d128, d256, nine R256, u128, u64, c7s1-3."""
    ends = conv(3, 64, 7, 256**2) + conv(64, 3, 7, 256**2)
    down = conv(64, 128, 3, 128**2) + conv(128, 256, 3, 64**2)
    up = conv(256, 128, 3, 64**2) + conv(128, 64, 3, 128**2)
    return ends + down + 9 * 2 * conv(256, 256, 3, 64**2) + up


INCEPTIONS = (
    (28, 192, 64, 96, 128, 16, 32, 32),
    (28, 256, 128, 128, 192, 32, 96, 64),
    (14, 480, 192, 96, 208, 16, 48, 64),
    (14, 512, 160, 112, 224, 24, 64, 64),
    (14, 512, 128, 128, 256, 24, 64, 64),
    (14, 512, 112, 144, 288, 32, 64, 64),
    (14, 528, 256, 160, 320, 32, 128, 128),
    (7, 832, 256, 160, 320, 32, 128, 128),
    (7, 832, 384, 192, 384, 48, 128, 128),
)
"""GoogLeNet's table 1: side, channels before, 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection."""


def image_captioning() -> int:
    """GoogLeNet without its classifier, an LSTM of 512 that sees image and words, 20 words out of 12000."""
    total = conv(3, 64, 7, 112**2) + conv(64, 64, 1, 56**2) + conv(64, 192, 3, 56**2)
    for side, inputs, one, reduce3, three, reduce5, five, pooled in INCEPTIONS:
        total += conv(inputs, one + reduce3 + reduce5 + pooled, 1, side**2)
        total += conv(reduce3, three, 3, side**2) + conv(reduce5, five, 5, side**2)
    return total + 1024 * 512 + (1 + 20) * 4 * 512 * (512 + 512) + 20 * 512 * 12000


def image_compression() -> int:
    """16 iterations at 32x32, 32 bits for each of 2x2 cells, convolutional LSTMs of 64 to 512 channels.

    The entropy coder has 64 channels and guesses 16 times; 15 times it passes on what was sent before. Its
    masked convolutions count in full, as they run.
    """
    encoder = conv(3, 64, 3, 16**2) + conv(512, 32, 1, 2**2)
    for inputs, hidden, side in ((64, 256, 8), (256, 512, 4), (512, 512, 2)):
        encoder += conv(inputs, 4 * hidden, 3, side**2) + conv(hidden, 4 * hidden, 1, side**2)
    decoder = conv(32, 512, 1, 2**2) + conv(32, 3, 1, 32**2)
    cells = ((512, 512, 1, 2), (128, 512, 1, 4), (128, 256, 3, 8), (64, 128, 3, 16))
    for inputs, hidden, size, side in cells:
        decoder += conv(inputs, 4 * hidden, 3, side**2) + conv(hidden, 4 * hidden, size, side**2)
    guess = conv(32, 64, 7, 1) + conv(32, 64, 3, 1) + 3 * (64 + 64 + 64) * 4 * 64 + chain(64, 64, 32)
    passed_on = conv(32, 64, 3, 1) + conv(64, 32, 3, 1) + (32 + 64) * 4 * 64 + chain(64, 64, 32)
    return 16 * (encoder + decoder) + 2**2 * (16 * guess + 15 * passed_on)


def object_reconstruction() -> int:
    """64x64 pixels to 512 numbers to 32x32x32 voxels; 24 cameras of 3x4 are applied to every voxel."""
    encoder = conv(3, 64, 5, 32**2) + conv(64, 128, 5, 16**2) + conv(128, 256, 5, 8**2)
    dense = chain(256 * 8**2, 1024, 1024, 512, 512 * 3**3)
    decoder = conv(512, 256, 4, 3**3, dims=3) + conv(256, 96, 5, 6**3, dims=3) + conv(96, 1, 6, 15**3, dims=3)
    return encoder + dense + decoder + 24 * 32**3 * 3 * 4


def video_prediction() -> int:
    """9 steps at 64x64, seven 5x5 convolutional LSTMs of 32 to 128 channels, 10 kernels of 5x5, 11 masks."""
    widths = ((32, 32), (32, 32), (32, 64), (64, 64), (64, 128), (128, 64), (96, 32))
    lstms = zip(widths, (32, 32, 16, 16, 8, 16, 32), strict=True)
    total = sum(conv(inputs + hidden, 4 * hidden, 5, side**2) for (inputs, hidden), side in lstms)
    total += conv(3, 32, 5, 32**2) + conv(32, 32, 3, 16**2) + conv(64, 64, 3, 8**2)
    total += conv(64 + 5 + 5, 64, 1, 8**2)
    total += conv(128, 128, 3, 8**2) + conv(96, 96, 3, 16**2) + conv(64, 64, 3, 32**2)
    total += conv(64, 3 + 11, 1, 64**2) + conv(1, 10, 5, 3 * 64**2)
    return 9 * (total + 128 * 8**2 * 10 * 5**2 + (5 + 5) * 5)


def rgat() -> int:
    """Three layers of 512 on 1024 features, then 2983 classes for one paper.

    Each of the eleven relations multiplies the vectors at both of its ends: 160 papers, 80 authors, 4
    institutes, 32 fields, 2 journals and 1 conference (assumed, not published). Scores are no products.
    """
    both_ways = (160 + 80) + (80 + 4) + (160 + 32) + (160 + 2) + (160 + 1)
    return (160 + 2 * both_ways) * chain(1024, 512, 512, 512) + 512 * 2983


CLOSED_FORMS: dict[str, int] = {
    "detection/cpn": cpn(),
    "detection/crnn": crnn(),
    "detection/dssd": dssd(),
    "detection/faster_rcnn": faster_rcnn(),
    "detection/mask_rcnn": mask_rcnn(),
    "detection/retinanet": retinanet(),
    "detection/seglink": seglink(),
    "detection/unet3d": unet3d(),
    "generation/cyclegan": cyclegan(),
    "generation/image_captioning": image_captioning(),
    "generation/image_compression": image_compression(),
    "generation/object_reconstruction": object_reconstruction(),
    "generation/vae": chain(784, 2 * 200) + chain(200, 784),
    "generation/video_prediction": video_prediction(),
    "generation/wgan": chain(100, 512, 512, 512, 3 * 64 * 64),
    "graph/gcn": 2708 * chain(1433, 16, 7),
    "graph/graphsage": 17 * 2 * chain(602, 256) + 2 * chain(256, 41),
    "graph/rgat": rgat(),
}
"""Of the short ones: Fathom's 784 pixels and 200 latent numbers, of which the mean and the variance are made;
WGAN's generator with four layers and 64x64 pixels; Cora's 2708 papers of 1433 words; GraphSAGE's 602 features,
256 hidden and 41 classes, two matrices for each of 17 nodes (assumed: a node and 16 neighbours), then of 1.
"""
