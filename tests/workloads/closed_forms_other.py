"""Multiply-adds of one forward sample from the published sizes: recommendation, games, operators, some CNNs.

Only convolutions and matrix products, as torch's counter sees them. It does not see a product with a sparse matrix, or
the grid of a spatial transformer: those are left out, and said to be.
"""

from __future__ import annotations

import csv
from itertools import product
from math import prod
from pathlib import Path

from multiply_adds import SHORTER, chain

TABLES = Path(__file__).parents[2] / "reference_workloads" / "micro" / "tables"

INFERENCE = ("server", "device")
"""DeepBench's sets for inference."""

GATES = {"vanilla": 1, "gru": 3, "lstm": 4}
"""Products with the input, and with the state, of a time step."""


def conv(inputs: int, outputs: int, kernel: int, image: int) -> int:
    """A square convolution whose result is `image` high and wide."""
    return inputs * outputs * kernel**2 * image**2


def positions(image: int, kernel: int, stride: int, pad: int = 0) -> int:
    """How often a kernel fits along one side of an image."""
    return (image + 2 * pad - kernel) // stride + 1


def dien(history: int, width: int = 36) -> int:
    """Items of 18 + 18; two GRUs, the query's layer, scores of DIN's 80, 40 and 1, then 200, 80 and 2.

    Into the last go the user's 18 and three vectors. The next item's loss (100, 50, 2) is only in training.
    """
    a_step = 2 * 3 * 2 * width**2 + chain(4 * width, 80, 40, 1)
    return history * a_step + width**2 + chain(18 + 3 * width, 200, 80, 2)


def dlrm_dcnv2(features: int = 27 * 128, rank: int = 512) -> int:
    """MLPerf: 26 tables and the dense layers' result, each 128 wide; three cross layers of rank 512."""
    return chain(13, 512, 256, 128) + 3 * 2 * features * rank + chain(features, 1024, 1024, 512, 256, 1)


def caser(last: int = 5, width: int = 50, items: int = 14_000) -> int:
    """The student: 2 filters along time, 16 of every height from 1 to 5, a layer, and scores of all items."""
    vertical = 2 * last * width
    horizontal = sum((last - height + 1) * height * width * 16 for height in range(1, last + 1))
    return vertical + horizontal + (2 * width + last * 16) * width + 2 * width * items


def sasrec(time: int = 200, width: int = 50, blocks: int = 2) -> int:
    """A block: query, key, value and two layers, all 50 x 50; scores and sums over all pairs of positions.

    The scores of the next and of the random film are no matrix products there.
    """
    return blocks * (5 * time * width**2 + 2 * time**2 * width)


def dqn() -> int:
    """Nature 2015: 8x8/4, 4x4/2 and 3x3 on 84 x 84, so maps of 20, 9 and 7; 512 dense; 4 actions."""
    seen = conv(4, 32, 8, 20) + conv(32, 64, 4, 9) + conv(64, 64, 3, 7)
    return seen + chain(64 * 7**2, 512, 4)


def a3c(steps: int = 5) -> int:
    """16 8x8/4, 32 4x4/2, 256 dense, an LSTM of 256, 4 actions and a value."""
    lstm = GATES["lstm"] * 2 * 256**2
    return steps * (conv(4, 16, 8, 20) + conv(16, 32, 4, 9) + chain(32 * 9**2, 256, 4 + 1) + lstm)


def minigo(board: int = 19, planes: int = 13, blocks: int = 6, width: int = 64) -> int:
    """3x3 convolutions; 1x1 ones to 2 planes for 362 moves, and to 1 for a value by way of 64."""
    trunk = conv(planes, width, 3, board) + blocks * 2 * conv(width, width, 3, board)
    heads = conv(width, 2 + 1, 1, board)
    return trunk + heads + chain(2 * board**2, board**2 + 1) + chain(board**2, 64, 1)


def cifar_resnet() -> int:
    """ResNet-18 on 32 x 32: 64 to 512 wide in four stages of four 3x3, of which three halve the map."""
    total = conv(3, 64, 3, 32) + 4 * conv(64, 64, 3, 32) + 512 * 10
    for width, image in ((128, 16), (256, 8), (512, 4)):
        first = conv(width // 2, width, 3, image) + conv(width // 2, width, 1, image)
        total += first + 3 * conv(width, width, 3, image)
    return total


def resnet50(channels: int, classes: int) -> int:
    """Blocks of 1x1, 3x3 (with the stride) and 1x1 to four times the width; 3, 4, 6 and 3 of them."""
    total = conv(channels, 64, 7, 112) + 2048 * classes
    inputs, before = 64, 56
    for width, blocks, image in ((64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7)):
        reduce = conv(inputs, width, 1, before) + (blocks - 1) * conv(4 * width, width, 1, image)
        rest = conv(width, width, 3, image) + conv(width, 4 * width, 1, image)
        total += reduce + blocks * rest + conv(inputs, 4 * width, 1, image)
        inputs, before = 4 * width, image
    return total


def facenet() -> int:
    """Inception-ResNet v1 on one 160 x 160 face: 5, 10 and 6 blocks on maps of 17, 8 and 3, then 512 numbers.

    The stem's maps are 79, 77, 77, pooled 38, 36 and 17.
    """
    stem = conv(3, 32, 3, 79) + conv(32, 32, 3, 77) + conv(32, 64, 3, 77)
    stem += conv(64, 80, 1, 38) + conv(80, 192, 3, 36) + conv(192, 256, 3, 17)
    a = conv(256, 3 * 32, 1, 17) + 3 * conv(32, 32, 3, 17) + conv(3 * 32, 256, 1, 17)
    to_b = conv(256, 384, 3, 8) + conv(256, 192, 1, 17) + conv(192, 192, 3, 17) + conv(192, 256, 3, 8)
    b = (896 * 2 * 128 + 2 * 7 * 128**2 + 2 * 128 * 896) * 8**2
    to_c = 3 * conv(896, 256, 1, 8) + conv(256, 256, 3, 8) + conv(256, 384 + 256 + 256, 3, 3)
    c = (1792 * 2 * 192 + 2 * 3 * 192**2 + 2 * 192 * 1792) * 3**2
    return stem + 5 * a + to_b + 10 * b + to_c + 6 * c + 1792 * 512


def spatial_transformer() -> int:
    """PyTorch's tutorial: 7x7 and 5x5 for the six numbers of the map, 5x5 twice for the digit.

    Left out: the map's product with the 28 x 28 points of the grid, 28 * 28 * 3 * 2.
    """
    localisation = conv(1, 8, 7, 22) + conv(8, 10, 5, 7) + chain(10 * 3**2, 32, 6)
    return localisation + conv(1, 10, 5, 24) + conv(10, 20, 5, 8) + chain(20 * 4**2, 50, 10)


def rows(name: str, sets: tuple[str, ...] = ()) -> list[dict[str, str]]:
    with (TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if not sets or row["set"] in sets]


def product_of(row: dict[str, str], *columns: str) -> int:
    """An empty cell counts as 1."""
    return prod(int(row[column] or 1) for column in columns)


def deepbench_gemm() -> int:
    return sum(product_of(row, "m", "n", "k") for row in rows("deepbench_gemm", INFERENCE))


def deepbench_conv() -> int:
    total = 0
    for row in rows("deepbench_conv", INFERENCE):
        product = product_of(row, "batch", "in_channels", "out_channels", "kernel_h", "kernel_w")
        for side, axis in (("height", "h"), ("width", "w")):
            kernel, stride, pad = (int(row[f"{size}_{axis}"]) for size in ("kernel", "stride", "pad"))
            product *= positions(int(row[side]), kernel, stride, pad)
        total += product
    return total


def deepbench_rnn(every: int) -> int:
    """Each `every`-th row; inputs as wide as the state."""
    return sum(
        GATES[row["cell"]] * 2 * int(row["hidden_units"]) ** 2 * product_of(row, "batch", "timesteps")
        for row in rows("deepbench_rnn", INFERENCE)[::every]
    )


def ai_matrix_gemm() -> int:
    """m = n: four cubes, then each of six sizes with each of five k."""
    cubes = (512, 1024, 5120, 10240)
    k = (1024, 5120, 9216, 13312, 17408)
    return sum(size**3 for size in cubes) + sum(k) * sum(size**2 for size in (*k, 21504))


def ai_matrix_rnn(every: int) -> int:
    """64 inputs; 256 to 2560 wide, batches of 16 and 32, 32 and 64 steps; each `every`-th of them."""
    layers = list(product(("lstm", "gru", "vanilla"), (16, 32), (32, 64), range(256, 2561, 256)))
    return sum(GATES[cell] * batch * steps * width * (64 + width) for cell, batch, steps, width in layers[::every])


def layers(name: str, convolution: str, linear: str) -> int:
    """A table's convolutions and fully connected layers, by what it calls them."""
    total = 0
    for row in rows(name):
        weights = product_of(row, "batch", "channels", "out_channels")
        if row["operator"] == convolution:
            kernel, stride, pad = int(row["kernel"]), int(row["stride"]), int(row.get("pad") or 0)
            height, width = (positions(int(row[side]), kernel, stride, pad) for side in ("height", "width"))
            total += weights * kernel**2 * height * width
        elif row["operator"] == linear:
            total += weights * product_of(row, "height", "width")
    return total


CLOSED_FORMS: dict[str, int] = {
    "cv/cifar_resnet": cifar_resnet(),
    "cv/facenet": 3 * facenet(),  # a triplet
    "cv/rgbd_resnet50": resnet50(channels=4, classes=253),
    "cv/spatial_transformer": spatial_transformer(),
    "micro/ai_matrix_gemm": ai_matrix_gemm(),
    "micro/ai_matrix_layers": layers("ai_matrix_layers", "conv2d", "linear"),
    "micro/ai_matrix_rnn": ai_matrix_rnn(**SHORTER["micro/ai_matrix_rnn"]),
    "micro/deepbench_all_reduce": 0,  # sums only
    "micro/deepbench_conv": deepbench_conv(),
    "micro/deepbench_gemm": deepbench_gemm(),
    "micro/deepbench_rnn": deepbench_rnn(**SHORTER["micro/deepbench_rnn"]),
    "micro/deepbench_sparse": 0,  # left out: m * n * k * (1 - sparsity), none of which the counter sees
    "micro/dnnmark": layers("dnnmark", "convolution", "fully_connected"),
    "recsys/dien": dien(**SHORTER["recsys/dien"]),
    "recsys/dlrm_dcnv2": dlrm_dcnv2(),
    "recsys/ranking_distillation": caser(),
    "recsys/sasrec": sasrec(),
    "recsys/two_tower": chain(3 * 64, 1024, 512, 128) + chain(64, 1024, 512, 128) + 128,
    "recsys/wide_deep": chain(5 + (16 + 7 + 6 + 9) + 8, 100, 75, 50, 25, 1),
    "rl/a3c": a3c(),
    "rl/dqn": dqn(),
    "rl/minigo": minigo(),
}
