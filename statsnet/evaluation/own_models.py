"""A user's own models for members of a suite that are not registered: which member each is for, and whether it does the
work that the member's signature counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from statsnet.errors import UsageError, one_of
from statsnet.profiling.costs import cost_of
from statsnet.signatures.comparison import SAME_WORK
from statsnet.signatures.database import find_signatures
from statsnet.signatures.documents import ProxySpec
from statsnet.signatures.levels import coarsen
from statsnet.signatures.model import Signature
from statsnet.signatures.rounding import rounded
from statsnet.workloads.loading import check_file

OTHER_CALLS = 0.05
"""A model whose calls differ from its signature's by more than this share of both is another model: another version of
torch may run a few calls otherwise."""

IN_STEPS = 0.5
"""The same for work and calls that are rounded to powers of two, or that differ from step to step."""

NAMED = 3
"""Most operators that an error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnModel:
    """`member` is a member's name, or the file of its signature; `target` a factory, `path/to/file.py:make`."""

    member: str
    target: str


def example(member: str = "MEMBER") -> str:
    """The option, for a hint."""
    return f"--model {member}=path/to/file.py:make"


def parse_model(text: str) -> OwnModel:
    """Raises UsageError for what is not MEMBER=FILE.py:factory, and for a file that is not there."""
    member, equals, target = text.partition("=")
    place, _, factory = target.rpartition(":")
    if not (equals and member and place and all(name.isidentifier() for name in factory.split("."))):
        raise UsageError(f"'{text}' is not MEMBER=FILE.py:factory", hint=f"for example {example()}")
    check_file(target)
    return OwnModel(member=member, target=target)


def targets_of(spec: ProxySpec, models: Sequence[OwnModel]) -> dict[str, str]:
    """By the name of a member, the factory of its model. Raises UsageError for a name that no member has, and for two
    models of one member."""
    targets: dict[str, str] = {}
    for model in models:
        name = _member(spec, model.member)
        if name in targets:
            raise UsageError(
                f"the member '{name}' has two models",
                cause=f"{targets[name]} and {model.target}",
                hint="leave out one of them",
            )
        targets[name] = model.target
    return targets


def signature_files(models: Sequence[OwnModel]) -> list[Path]:
    """Those that name members."""
    return [path for path in (Path(model.member).expanduser() for model in models) if path.is_file()]


def _member(spec: ProxySpec, word: str) -> str:
    names = [entry.name for entry in spec.mix]
    near = [name for name in names if word in (name, name.partition("@")[0])]
    if len(near) == 1:
        return near[0]
    if (path := Path(word).expanduser()).is_file():
        found = find_signatures({entry.signature for entry in spec.mix}, [path])
        named = [entry.name for entry in spec.mix if entry.signature in found]
        if len(named) == 1:
            return named[0]
        raise UsageError(f"'{word}' is no signature of a member", hint=f"a member's name: {one_of(word, names)}")
    raise UsageError(f"the proxy has no member '{word}'", hint=one_of(word, names))


def require_same_work(name: str, target: str, signature: Signature, fresh: Signature) -> None:
    """Raises UsageError unless the model's fresh signature counts what the member's does.

    FLOPs of a step (bytes if there are none) may differ by SAME_WORK. Calls by operator are compared only if the
    member's signature was profiled on this kind of device: elsewhere a model runs other operators, and a recording may
    lack some.
    """
    fresh = coarsen(fresh, signature.level, cost_of) if fresh.level != signature.level else fresh
    varies = any(m.variation for each in (signature, fresh) for m in each.measurements)
    is_rough = varies or signature.level == "coarse"
    found = _other_work(signature, fresh, IN_STEPS if is_rough else SAME_WORK)
    if not found and _profiled_alike(signature, fresh):
        found = _other_calls(signature, fresh, IN_STEPS if is_rough else OTHER_CALLS)
    if found:
        sizes = f" and its batch of {signature.batch}" if signature.batch else ""
        raise UsageError(
            f"'{target}' is not the model of '{name}'",
            cause=f"a step has {found}",
            hint=f"give the factory that was profiled, with its sizes{sizes} as defaults",
        )


def work_ratio(a: Signature, b: Signature) -> float:
    """The work of a step of `a` ÷ that of `b`, in two digits; 1 if one has none."""
    _, here, there = _work(a, b)
    return rounded(here / there, 2) if here > 0 and there > 0 else 1.0


def _work(a: Signature, b: Signature) -> tuple[str, float, float]:
    """FLOPs of both, or bytes if none has FLOPs."""
    if a.flops_per_step or b.flops_per_step:
        return "FLOPs", a.flops_per_step, b.flops_per_step
    return "bytes", a.bytes_per_step, b.bytes_per_step


def _other_work(signature: Signature, fresh: Signature, tolerance: float) -> str:
    unit, there, here = _work(signature, fresh)
    return "" if math.isclose(there, here, rel_tol=tolerance) else f"{here:.4g} {unit}, its signature {there:.4g}"


def _other_calls(signature: Signature, fresh: Signature, tolerance: float) -> str:
    there, here = _calls(signature), _calls(fresh)
    apart = {op: abs(here[op] - there[op]) for op in there.keys() | here.keys()}
    if math.fsum(apart.values()) <= tolerance * (there.total() + here.total()):
        return ""
    most = sorted((op for op in apart if apart[op]), key=lambda op: (-apart[op], op))[:NAMED]
    return "; ".join(f"{here[op]:.4g} calls of {op}, its signature {there[op]:.4g}" for op in most)


def _calls(signature: Signature) -> Counter[str]:
    calls: Counter[str] = Counter()
    for cluster in signature.clusters:
        calls[cluster.op] += cluster.calls  # type: ignore[assignment]  # of steps that vary, a mean
    return calls


def _profiled_alike(signature: Signature, fresh: Signature) -> bool:
    kinds = {m.environment["device"] for m in signature.measurements if m.source == "profile"}
    return any(m.environment["device"] in kinds for m in fresh.measurements)
