"""Layers that stand for calls of several shapes: they show one of them, and have the mean work of all."""

from __future__ import annotations

import math

from statsnet.exports.manifest import Layer
from statsnet.profiling.costs import cost_of


def mean_work(layer: Layer) -> float:
    """The work of a mean call as a share of that of the shape that the layer shows: FLOPs of products, bytes of all
    others. 1 for a layer of one shape, and where either is not known."""
    shown = cost_of(layer.operator, layer.args, layer.outputs)
    if shown is None:
        return 1.0
    if layer.products:
        mean, of_shown = layer.flops, shown.flops
    else:
        known = layer.bytes_read is not None and layer.bytes_written is not None
        mean = (layer.bytes_read or 0.0) + (layer.bytes_written or 0.0) if known else None
        of_shown = shown.bytes_read + shown.bytes_written
    if mean is None or not of_shown or math.isclose(mean, of_shown, rel_tol=1e-8):
        return 1.0
    return mean / of_shown
