"""Processes that are not there: a factory sees itself as the first of many, and collectives move nothing.

torch's fake process group answers for the others. What else a factory does under torchrun works too, on fake tensors:
it may read torchrun's variables, initialize its process group, make device meshes, and wrap its model for data parallel
training. For processes of their own: all of torch's state in this one is changed meanwhile.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode

from statsnet.errors import WorkloadError
from statsnet.profiling.distributed import group_is_there
from statsnet.signatures.limits import MOST_PROCESSES
from statsnet.workloads.fakes import RULES


@contextmanager
def fake_processes(number: int) -> Iterator[None]:
    """This process as rank 0 of `number` that run a step together; alone if it is 1.

    Raises WorkloadError where torch was built without torch.distributed. What it needs has private names in torch: if
    another torch lacks one, a WorkloadError says so when the model uses that part.
    """
    if number == 1:
        yield
        return
    if not dist.is_available():
        raise WorkloadError(
            "several processes cannot be counted",
            cause="this torch was built without torch.distributed",
            hint="install torch from its official wheels",
        )
    try:
        from torch.testing._internal.distributed.fake_pg import FakeStore
    except ImportError as error:
        raise _cannot_count("several processes", error) from error

    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.pipelining import PipelineStage
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("fake", rank=0, world_size=number, store=FakeStore())
    try:
        with ExitStack() as changes:
            for change in (_torchrun(number), group_is_there(), _numbered_works()):
                changes.enter_context(change)
            _enter(changes, _meshes_of_real_numbers, "a device mesh", DeviceMesh)
            _enter(changes, _data_parallel, "data parallel training", DistributedDataParallel)
            _enter(changes, _pipelines, "a stage of a pipeline", PipelineStage)
            yield
    finally:
        dist.destroy_process_group()


def _enter(changes: ExitStack, change: Callable[[], AbstractContextManager[None]], what: str, used: type[Any]) -> None:
    """Change torch; if it lacks a name that is needed for it, refuse to make what is `used` then."""
    try:
        changes.enter_context(change())
    except (AttributeError, ImportError, KeyError) as error:
        refusal = _cannot_count(what, error)

        def refuse(*_: Any, **__: Any) -> None:
            raise refusal

        changes.enter_context(patch.object(used, "__init__", refuse))


def _cannot_count(what: str, error: Exception) -> WorkloadError:
    return WorkloadError(
        f"{what} cannot be counted",
        cause=f"torch {torch.__version__} lacks a part that other versions have: {error}",
        hint="profile it in real processes, without --device meta, or install another torch",
    )


@contextmanager
def _torchrun(number: int) -> Iterator[None]:
    """Its variables, as for one machine. TORCHELASTIC_RUN_ID is left out: no torchrun has started this process."""
    size = str(number)
    ranks = dict.fromkeys(("RANK", "LOCAL_RANK", "GROUP_RANK"), "0")
    sizes = dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), size)
    with patch.dict(os.environ, {**ranks, **sizes, "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}):
        yield


@contextmanager
def _numbered_works() -> Iterator[None]:
    """torch draws a number for each collective from Python's generator: each step would look as if it varied by
    chance, and many would be counted to see whether it does. If torch's function has another name, that happens."""
    name, works = "generate_unique_id", None
    with suppress(ImportError):  # older ones draw none
        works = importlib.import_module("torch.distributed._meta_registrations")
    with patch.object(works, name, count(1).__next__) if hasattr(works, name) else nullcontext():
        yield


@contextmanager
def _meshes_of_real_numbers() -> Iterator[None]:
    """Device meshes can be made under a fake mode: they read the ranks out of tensors. Like all that is counted, they
    are of CPUs, whatever device they are asked for; but with one of GPUs, sharded tensors are dealt out anew as there,
    where a CPU gathers them whole."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import placement_types

    make, ranks = DeviceMesh.__init__, vars(DeviceMesh)["mesh"].fget
    deal_out: Callable[..., Any] = vars(placement_types)["shard_dim_alltoall"]
    asked_for = set[str]()

    def init(self: Any, device_type: str, mesh: Any = None, *, _rank_map: Any = None, **given: Any) -> None:
        asked_for.add(device_type)
        with unset_fake_temporarily():
            make(self, "cpu", _real(mesh), _rank_map=_real(_rank_map), **given)

    def real_ranks(self: Any) -> Any:
        with unset_fake_temporarily():
            return ranks(self)

    def dealt_out(tensor: torch.Tensor, gather_dim: int, shard_dim: int, mesh: Any, mesh_dim: int) -> Any:
        if asked_for <= {"cpu"}:
            return deal_out(tensor, gather_dim, shard_dim, mesh, mesh_dim)
        group = mesh.get_group(mesh_dim).group_name
        return torch.ops._dtensor.shard_dim_alltoall(tensor, gather_dim, shard_dim, group)

    with (
        patch.object(placement_types, "shard_dim_alltoall", dealt_out),
        patch.object(DeviceMesh, "__init__", init),
        patch.object(DeviceMesh, "mesh", property(real_ranks)),
        patch.object(fake_tensor, "CONSTANT_NUMEL_LIMIT", MOST_PROCESSES),
    ):
        yield


def _real(ranks: Any) -> Any:
    """A mesh's tensor with its values. A fake one keeps those that were written out. Any other is a view of 0, 1, 2 and
    so on, as meshes are made."""
    if not isinstance(ranks, FakeTensor):
        return ranks
    if ranks.constant is not None:
        return ranks.constant
    first = int(ranks.storage_offset())
    last = first + sum((n - 1) * s for n, s in zip(ranks.shape, ranks.stride(), strict=True))
    return torch.arange(last + 1, dtype=torch.int).as_strided(ranks.shape, ranks.stride(), first)


@contextmanager
def _pipelines() -> Iterator[None]:
    """Stages of torch's pipelines send each other a vote before the first step, and read it: whether all know the sizes
    of what they exchange. A stage that is counted has to."""
    from torch.distributed.pipelining import PipelineStage

    if not hasattr(PipelineStage, "_warmup_backward_result"):  # older ones do not vote
        yield
        return
    from torch.distributed.pipelining._utils import InferenceMode

    needs_dynamic = InferenceMode.needs_dynamic
    all_know = SimpleNamespace(item=lambda: 1)

    def vote(stage: Any, has_backward: bool, **_: Any) -> None:
        if needs_dynamic(stage._user_meta, has_backward):
            raise WorkloadError(
                "a stage of a pipeline cannot be counted",
                cause="stages would tell each other the sizes of what they exchange, and the others are not there",
                hint="give PipelineStage input_args, output_args and output_grads",
            )

    with (
        patch.object(PipelineStage, "_warmup_forward_vote", vote),
        patch.object(PipelineStage, "_warmup_backward_result", lambda *_, **__: all_know),
    ):
        yield


@contextmanager
def _data_parallel() -> Iterator[None]:
    """DistributedDataParallel on fake tensors: nothing is compared with the others' parameters, an all-reduce has its
    tensors as its result. What a step shows of the order of gradients, and of parameters that it does not use, stands
    in real indices."""
    from torch._C import _distributed_c10d as c10d

    reducer: Any = dist.Reducer  # type: ignore[attr-defined]
    work_of = c10d._create_work_from_future  # type: ignore[attr-defined]

    def all_reduced(tensors: list[torch.Tensor], *_: Any, **__: Any) -> tuple[list[torch.Tensor], Any]:
        """torch's own rule gives a future without a result, which its reducer refuses."""
        future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
        future.set_result(list(tensors))
        return list(tensors), work_of(future).boxed()

    with (
        patch.object(dist, "_verify_params_across_processes", lambda *_: None),
        patch.object(reducer, "_rebuild_buckets", _with_real_indices(reducer._rebuild_buckets)),
        patch.object(reducer, "_set_static_graph", _with_real_indices(reducer._set_static_graph)),
        patch.object(dist, "Reducer", _with_real_indices(reducer)),
        patch.dict(RULES, {torch.ops.c10d.allreduce_.default: all_reduced}),
        patch.dict(RULES, {operator: partial(_of_real_indices, operator) for operator in _OF_INDICES}),
    ):
        yield


def _with_real_indices(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with unset_fake_temporarily() as fake, nullcontext() if fake is None else _RealIndices(fake):
            return function(*args, **kwargs)

    return run


_OF_INDICES = [
    torch.ops.aten.select.int,
    torch.ops.aten.fill_.Scalar,
    torch.ops.aten.fill_.Tensor,
    torch.ops.aten.zero_.default,
    torch.ops.aten.copy_.default,
    torch.ops.aten._local_scalar_dense.default,
]
"""What a reducer does with its list of used parameters."""


def _of_real_indices(operator: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """What an operator really does to a reducer's list; None for any other tensor."""
    if tensor.dtype is not torch.int32 or any(isinstance(each, FakeTensor) for each in (tensor, *args)):
        return None
    return operator(tensor, *args, **kwargs)


class _RealIndices(TorchDispatchMode):
    """Tensors of integers are real, and what is made of them; all others are of a fake mode."""

    def __init__(self, fake: Any) -> None:
        super().__init__()
        self._fake: FakeTensorMode = fake

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        dtype = kwargs.get("dtype")
        if dtype is None or not dtype.is_floating_point:
            return func(*args, **kwargs)
        with self._fake:
            return func(*args, **kwargs)
