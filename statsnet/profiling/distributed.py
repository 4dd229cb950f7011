"""Several processes that run one step together, as torchrun starts them."""

from __future__ import annotations

import torch.distributed as dist


def alone() -> bool:
    """Whether no other process runs the step with this one."""
    return not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)


def agreed(go_on: bool) -> bool:
    """What the first process says, in all of them: else those that ran one step more would wait for the others for
    ever. The argument itself where this process is alone."""
    if alone():
        return go_on
    answer = [go_on]
    dist.broadcast_object_list(answer, src=0)
    return answer[0]
