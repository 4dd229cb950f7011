"""Models whose step several processes share: what the first of two exchanges in a step, counted without the other."""

from __future__ import annotations

import pytest

from benchmarks.together.subjects import SUBJECTS, SharedStep
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.signatures.collectives import is_collective, kind_of, message_bytes

BATCH, LENGTH, WIDTH, TABLES = 4, 8, 64, 26
SIZES: dict[str, dict[str, str | int | float | bool]] = {
    "resnet50_ddp": {"batch": 2, "image": 32, "shrink": 16},
    "bert_fsdp2": {"batch": 1, "sequence": LENGTH, "layers": 1, "hidden": WIDTH, "vocabulary": 50},
    "bert_fsdp2_bfloat16": {"batch": 1, "sequence": LENGTH, "layers": 1, "hidden": WIDTH, "vocabulary": 50},
    "tensor_parallel_stack": {"batch": BATCH, "length": LENGTH, "layers": 1, "width": WIDTH, "head": 16},
    "sequence_parallel_stack": {"batch": BATCH, "length": LENGTH, "layers": 1, "width": WIDTH, "head": 16},
    "moe_all_to_all": {"batch": BATCH, "length": LENGTH, "layers": 1, "width": WIDTH, "head": 16, "experts": 2},
    "dlrm_all_to_all": {"batch": BATCH, "max_rows": 10, "batches": 1},
}


def exchanged(subject: SharedStep) -> dict[str, float]:
    """Bytes of a step by operation."""
    model = Model(target=subject.target, mode="training", overrides=SIZES[subject.factory])
    signature = ProfileWorkload(model=model, device="meta", processes=2).run(Context()).signature
    found: dict[str, float] = {}
    for cluster in filter(lambda c: is_collective(c.op), signature.clusters):
        kind = kind_of(cluster.op)
        found[kind] = found.get(kind, 0.0) + cluster.calls * message_bytes(cluster)
    return found


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.factory)
def test_a_step_calls_the_collectives_of_its_parallelism(subject: SharedStep) -> None:
    found = exchanged(subject)
    if subject.factory == "tensor_parallel_stack":  # two outputs and two inputs' gradients of a layer
        assert found == {"all_reduce": 4 * 4 * BATCH * LENGTH * WIDTH}
    elif subject.factory == "sequence_parallel_stack":  # two inputs and two outputs' gradients, each of all parts
        assert found["all_gather"] == found["reduce_scatter"] == 4 * 4 * BATCH * LENGTH * WIDTH
        assert found["all_reduce"] == 4 * 4 * WIDTH  # gradients of norms, of which each process has a part
    elif subject.factory == "moe_all_to_all":  # at least all tokens of the first process, there and back
        assert found["all_to_all"] >= 4 * 4 * BATCH * LENGTH * WIDTH
        assert found["all_reduce"] == 4 * (12 * WIDTH**2 + 13 * WIDTH)
    elif subject.factory == "dlrm_all_to_all":  # half of the tables' rows for the samples of both, there and back
        assert found["all_to_all"] == 2 * 4 * TABLES * BATCH * 16
        assert found["all_reduce"] > 0
    elif subject.factory == "bert_fsdp2":
        assert found["all_gather"] > found["reduce_scatter"] > 0
    elif subject.factory == "bert_fsdp2_bfloat16":  # gathered twice in half as many bytes
        assert found["reduce_scatter"] / 2 < found["all_gather"] < found["reduce_scatter"]
    else:
        assert set(found) == {"all_reduce", "broadcast"}  # of gradients, and of batch norm's running statistics
