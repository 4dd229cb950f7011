"""Random edges as torch-geometric wants them: (2, edges), where each starts and where it ends."""

from __future__ import annotations

import torch
from torch import Tensor

from reference_workloads.synthetic import zipf_ids

SKEW = 0.7
"""The k-th largest degree is near k ** -0.7, so the share of nodes with degree d falls as d ** -2.4."""


def random_edges(sources: int, targets: int, edges: int) -> Tensor:
    """Starts are skewed, ends uniform."""
    return torch.stack([zipf_ids(sources, (edges,), SKEW), torch.randint(targets, (edges,))])


def sampled_edges(sources: int, targets: int, fanout: int) -> Tensor:
    """What sampling `fanout` neighbours of each target gives; starts are skewed."""
    edges = targets * fanout
    return torch.stack([zipf_ids(sources, (edges,), SKEW), torch.arange(edges) // fanout])
