"""One step of a workload, as it is timed, captured and counted."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from statsnet.errors import StatsNetError, UsageError, WorkloadError, one_of
from statsnet.signatures.database import MODES
from statsnet.workloads.building import BuiltWorkload, does_not_fit, set_mode
from statsnet.workloads.calling import Inputs
from statsnet.workloads.losses import ProjectionLoss, total_loss
from statsnet.workloads.model_errors import describe, next_step
from statsnet.workloads.optimizers import make_optimizer, name_of
from statsnet.workloads.renewal import Renewal
from statsnet.workloads.stepping import Stepper
from statsnet.workloads.tree_copies import copied, gone_through
from statsnet.workloads.trees import holds_iterator, parameters_of

if TYPE_CHECKING:
    import torch


class Step:
    """`step(i)` runs the i-th step: inference gives the outputs, training the loss.

    Steps go through the workload's inputs in turn. `on_phase`, if set, is called with "forward",
    "backward" and "optimizer" as each begins. The first training step is a warm-up: it also makes the
    optimizer's state.
    On a workload built for "meta" the step runs under its FakeTensorMode.
    With gradient accumulation a step goes through that many inputs: forward and backward for each, the optimizer once.
    Inference runs without gradients, unless the model takes gradients in its own forward: this shows when it first runs
    without them, and `differentiates` is then set. A model that gives a generator is asked for all that it yields.
    Raises WorkloadError if the model fails, DeviceError if the device has too little memory.
    Every step gets its inputs as they were built, and the model the state that it was built with, also where steps
    change them: `prepare(i)` copies what is needed, outside of the step's time. A step that was not prepared does so
    itself. With an optimizer that evaluates the loss itself, which it does less often near a minimum, each step also
    begins with the first parameters and no state of that optimizer.
    `optimizer` is None in inference; `optimizer_name` is safe to write into a file: one of ours, that of a
    library's class, "custom", or None.
    """

    def __init__(
        self,
        built: BuiltWorkload,
        mode: str,
        *,
        loss: Callable[[Any], torch.Tensor] | None = None,
        optimizer: Stepper | None = None,
        optimizer_name: str | None = None,
        renewal: Renewal | None = None,
    ) -> None:
        self.built = built
        self.mode = mode
        self.optimizer_name = optimizer_name
        self.on_phase: Callable[[str], None] | None = None
        self._phase = "forward"
        self._loss = loss
        self.optimizer = optimizer
        self.differentiates = False
        self.renewal = renewal or Renewal(built)
        self._ready: tuple[int, Inputs] | None = None
        self._yields: bool | None = None
        self._put_back = optimizer.kept() if optimizer is not None and optimizer.needs_closure else None

    def prepare(self, index: int = 0) -> None:
        """Make the inputs of the step of this number ready."""
        if self._put_back is not None:
            self._put_back()
        self._ready = (index, self.renewal.batches(index))

    def __call__(self, index: int = 0) -> Any:
        if self._ready is None or self._ready[0] != index:
            self.prepare(index)
        assert self._ready is not None
        (_, batches), self._ready = self._ready, None
        with _running(self.built, lambda: self._phase):
            return self._train(batches) if self.mode == "training" else self._infer(*batches[0])

    def _infer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        import torch

        if not self.differentiates:
            self._enter("forward")
            try:
                with torch.no_grad():
                    return self._whole(self.built.model(*args, **kwargs))
            except RuntimeError as error:
                if not _lacks_gradients(error):
                    raise
                self.differentiates = True
        self._enter("forward")
        with torch.enable_grad():
            return self._whole(self.built.model(*args, **kwargs))

    def _train(self, batches: Inputs) -> torch.Tensor:
        assert self.optimizer is not None
        if self.optimizer.needs_closure:
            self._enter("optimizer")
            return self.optimizer.step(lambda: self._evaluate(batches))
        loss = self._gradients(batches)
        self._enter("optimizer")
        self.optimizer.step(loss=loss, again=lambda: self._evaluate(batches))
        return loss.detach()

    def _evaluate(self, batches: Inputs) -> torch.Tensor:
        """What an optimizer runs when it evaluates the loss itself."""
        import torch

        with torch.enable_grad():
            loss = self._gradients(batches)
        self._enter("optimizer")
        return loss

    def _gradients(self, batches: Inputs) -> torch.Tensor:
        """Forward and backward of each batch; the last one's loss."""
        import torch

        assert self._loss is not None
        assert self.optimizer is not None
        self.optimizer.zero_grad()
        for number, (args, kwargs) in enumerate(batches, 1):
            with self._gradients_kept(number < len(batches)):
                self._enter("forward")
                outputs = self._whole(self.built.model(*args, **kwargs))
                self._phase = "loss"
                loss = self._loss(outputs)
                if len(batches) > 1:
                    loss = loss / len(batches)
                self._enter("backward")
                torch.autograd.backward(loss)
        return loss

    def _gradients_kept(self, kept: bool) -> contextlib.AbstractContextManager[None]:
        """Data parallel processes that accumulate gradients add them up with the last batch, as trainers have them."""
        from torch.nn.parallel import DistributedDataParallel

        model = self.built.model
        return model.no_sync() if kept and isinstance(model, DistributedDataParallel) else contextlib.nullcontext()

    def _whole(self, outputs: Any) -> Any:
        """The outputs, with all that is yielded; whether anything is, the first step tells."""
        if self._yields is None:
            self._yields = holds_iterator(outputs)
        return gone_through(outputs) if self._yields else outputs

    def _enter(self, phase: str) -> None:
        self._phase = phase
        if self.on_phase is not None:
            self.on_phase(phase)


_BY_ITSELF = {
    "forward": "model(*args, **kwargs) by itself",
    "loss": "loss(model(*args, **kwargs)) by itself",
    "backward": "loss(model(*args, **kwargs)).backward() by itself",
    "optimizer": "the optimizer's step() a hundred times, as profiling does, each after backward() of the loss,",
}


class Successive:
    """A step on one input after another: `prepare()` makes the next input ready, and calling runs the step on it."""

    def __init__(self, step: Callable[[int], Any], indices: Iterable[int], prepare: Callable[[int], object]) -> None:
        self._step = step
        self._prepare = prepare
        self._indices = iter(indices)
        self.index = 0

    def prepare(self) -> None:
        self.index = next(self._indices)
        self._prepare(self.index)

    def __call__(self) -> Any:
        return self._step(self.index)

    def both(self) -> Any:
        """Prepare and run."""
        self.prepare()
        return self()


def make_step(built: BuiltWorkload, mode: str | None = None, *, optimizer: Any = None) -> Step:
    """A step in a mode (default: the one it was built for), optionally with another optimizer.

    Whatever a step needs but should not time is made here. To be trained, the model first runs: on each distinct set of
    input shapes for the default loss, else once.
    Raises UsageError for an unknown optimizer and WorkloadError where the model fails or cannot be trained.
    """
    mode = mode or built.mode
    if mode not in MODES:
        raise UsageError(f"'{mode}' is not a mode", hint=one_of(mode, MODES))
    import torch

    set_mode(built.model, mode)
    if mode == "inference":
        return Step(built, mode)
    torch.set_grad_enabled(True)  # a file that is otherwise used for inference may have switched them off
    renewal = Renewal(built)  # before the model first runs
    loss = _first_run(built)
    parameters = [parameter for parameter in parameters_of(built.whole) if parameter.requires_grad]
    if not parameters:
        has_some = bool(parameters_of(built.model))
        raise WorkloadError(
            "the model cannot be trained",
            cause="none of its parameters needs a gradient" if has_some else "it has no parameters",
            hint="use --mode inference" + (", or leave requires_grad on" if has_some else ""),
        )
    wanted = optimizer or built.optimizer
    with renewal.being_built(), built.fake_mode or contextlib.nullcontext():  # some make their state here
        chosen = _stepper(built, wanted, parameters)
    name = wanted if isinstance(wanted, str) else name_of(chosen.only_optimizer)
    own_loss = _added_up(built.loss) if built.loss else None
    return Step(built, mode, loss=own_loss or loss, optimizer=chosen, optimizer_name=name, renewal=renewal)


def _stepper(built: BuiltWorkload, wanted: Any, parameters: list[Any]) -> Stepper:
    """The model's own optimizer also where one of its name is wanted: it may step some of the parameters only."""

    def made(optimizer: Any) -> Stepper:
        return Stepper(make_optimizer(optimizer, parameters, sparse=built.sparse_gradients), parameters)

    if isinstance(wanted, str) and not isinstance(built.optimizer, str):
        with contextlib.suppress(WorkloadError):  # another one may be wanted because it fails
            own = made(built.optimizer)
            if name_of(own.only_optimizer) == wanted:
                return own
    return made(wanted)


def _added_up(loss: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The user's loss as one scalar, also where it gives several."""
    return lambda outputs: total_loss(loss(outputs))


def _first_run(built: BuiltWorkload) -> ProjectionLoss:
    """Run the model on each shape of its inputs, or with a loss of the user's on one: some make layers when they first
    run. Gives the default loss, prepared for the outputs."""
    import torch

    loss = ProjectionLoss()
    for args, kwargs in built.inputs[:1] if built.loss else built.distinct_inputs():
        with _running(built):
            try:
                with torch.no_grad():
                    outputs = _outputs(built, args, kwargs)
            except Exception:  # of a model that differentiates, or hooks gradients, in its forward
                outputs = _outputs(built, args, kwargs)
            if built.loss is None:
                loss.prepare(outputs)
    set_mode(built.model, "training")  # the layers that were made, too
    return loss


def _outputs(built: BuiltWorkload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The model's outputs for a copy of these inputs, which it may change."""
    args, kwargs = copied((args, kwargs))
    outputs = built.model(*args, **kwargs)
    return gone_through(outputs) if holds_iterator(outputs) else outputs


def _lacks_gradients(error: RuntimeError) -> bool:
    """Whether a model failed because it differentiates in its forward, as one that turns an energy into forces does."""
    return re.search(r"requires?[ _]grad", str(error)) is not None


@contextlib.contextmanager
def _running(built: BuiltWorkload, phase: Callable[[], str] = lambda: "forward") -> Iterator[None]:
    """Run under the workload's fake mode, if any. Errors of its model become errors that name the workload."""
    import torch

    try:
        with built.fake_mode or contextlib.nullcontext():
            yield
    except StatsNetError:
        raise
    except torch.OutOfMemoryError as error:
        raise does_not_fit(built.label, built.device, error) from error
    except (Exception, SystemExit) as error:
        raise WorkloadError(
            f"a step of '{built.label}' failed",
            cause=describe(error, built.origin),
            hint=next_step(error, _way_out(built, phase())),
        ) from error


def _way_out(built: BuiltWorkload, phase: str) -> str:
    """What to try where a step failed: first without what StatsNet was asked to change of the model."""
    if built.is_cast:
        return f"leave out --dtype, without which the model may run: it {built.cast}"
    if built.fake_mode is not None:
        return "use a real device instead of meta: what fails may only fail on tensors without data"
    first = "model.train() and then " if getattr(built.model, "training", False) else ""
    return f"run {first}{_BY_ITSELF[phase]} in Python to see the whole trace"
