"""Several processes that run one step together, as torchrun starts them."""

from __future__ import annotations

import torch.distributed as dist


def alone() -> bool:
    """True if this process runs the step alone."""
    return not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)


def agreed(go_on: bool) -> bool:
    """The first process's value, in every process: if they disagreed, one that runs an extra step would wait for the
    others forever. A process that is alone gets its own value back."""
    if alone():
        return go_on
    answer = [go_on]
    dist.broadcast_object_list(answer, src=0)
    return answer[0]
