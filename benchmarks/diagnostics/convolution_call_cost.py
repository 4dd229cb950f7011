"""How long does a call of a convolution take that has hardly any work?

    python benchmarks/diagnostics/convolution_call_cost.py [--threads 2] [--calls 60]

Each convolution has one small image. Caches are swept before each call, as a large operator would sweep them. Times are
medians in microseconds, forward and backward (the gradients of input and weights), in float32 and bfloat16.
"""

from __future__ import annotations

import time
from statistics import median

import torch
import torch.nn.functional as F

from benchmarks.console import parser, start

SHAPES = ((16, 16, 1, 4), (128, 128, 1, 4), (512, 256, 1, 2), (256, 512, 1, 2), (128, 128, 3, 4))
"""Channels, filters, window, height and width of the one image."""

SWEPT = 12_000_000
"""Numbers that are written before each call: 48 MB, more than the last-level cache of the machines measured here."""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--calls", type=int, default=60)
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    print(f"{'channels, filters, window':26} {'weights':>8} {'dtype':>9} {'forward':>8} {'backward':>9}")
    for channels, filters, window, size in SHAPES:
        for dtype in (torch.float32, torch.bfloat16):
            forward_s, backward_s = _times_s(channels, filters, window, size, dtype, chosen.calls)
            name = f"{channels}, {filters}, {window} x {window}"
            weights = channels * filters * window**2
            dtype_name = str(dtype).removeprefix("torch.")
            print(f"{name:26} {weights:8} {dtype_name:>9} {1e6 * forward_s:5.0f} us {1e6 * backward_s:6.0f} us")


def _times_s(
    channels: int, filters: int, window: int, size: int, dtype: torch.dtype, calls: int
) -> tuple[float, float]:
    """Medians of forward and backward."""
    swept = torch.zeros(SWEPT)
    x = torch.randn(1, channels, size, size).to(dtype).requires_grad_()
    weight = torch.randn(filters, channels, window, window).to(dtype).requires_grad_()
    gradient = torch.randn_like(F.conv2d(x, weight, padding=window // 2))
    forward_s, backward_s = [], []
    for _ in range(calls):
        swept.add_(1.0)
        begin = time.perf_counter()
        y = F.conv2d(x, weight, padding=window // 2)
        forward_s.append(time.perf_counter() - begin)
        swept.add_(1.0)
        begin = time.perf_counter()
        torch.autograd.grad(y, (x, weight), gradient)
        backward_s.append(time.perf_counter() - begin)
    return median(forward_s), median(backward_s)


if __name__ == "__main__":
    start(main)
