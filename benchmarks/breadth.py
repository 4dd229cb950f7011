"""Does StatsNet profile whatever a library holds? And are the counts right?

    python benchmarks/breadth.py FILE [--families transformers,diffusers,graphs,monai,modules,operators]
                                      [--only PATTERN] [--sample N --seed S | --limit N] [--again OUTCOME]
                                      [--signatures FOLDER]
    python benchmarks/breadth.py --kept FILE

Takes each base model class of transformers, and each model class of diffusers, torch-geometric and monai at a small
size (as `drawn/` makes them), torch's own modules and functional operators (OpInfo's list), and profiles it in
inference and in training, in a process each.
With --signatures, each case's signature is kept in that folder, to be made a proxy of.
FILE, a CSV table, gets a line for each that ends in time: `right` (FLOPs and calls agree with torch's own counters),
`refused` (with the reason), `wrong` (counts differ, or profiling failed in another way), or `no case` (the model does
not run by itself, or has nothing to train). What FILE holds is not run again, so that an interrupted run continues.
--again runs what it holds with this outcome again, if the other options choose it. A line is kept until there is a new
one.
--kept prints a summary.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks import breadth_models, csv_tables
from benchmarks.console import parser, start
from benchmarks.drawn import diffusers_models, graph_models, monai_models, transformers_models
from benchmarks.drawn.by_name import DOES_NOT_RUN, reason_of
from statsnet.blocks import Config, asked, readings
from statsnet.blocks.operator import OperatorKind
from statsnet.errors import MeasurementError, ProcessError, StatsNetError, WorkloadError
from statsnet.measure.control import Control
from statsnet.measure.process import run
from statsnet.measure.task import Context, Task
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.check import Check, CheckWorkload
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.signatures.coverage import COVERAGE_BAR, SHOWN
from statsnet.signatures.model import Cluster, Signature
from statsnet.signatures.storage import save_signature
from statsnet.signatures.target import TargetCluster, target_of
from statsnet.workloads.losses import tensors_in

TIMEOUT_S = 300.0
"""Of the wall clock, for one case in one mode. Few take over ten seconds of a CPU: slow steps that vary do, and
neighbours may."""

NOTHING_TO_TRAIN = "the model cannot be trained"
"""The message of an error for models without parameters, and operators without a derivative."""

NO_DERIVATIVE = re.compile(r"derivative for .* not implemented")
"""What torch says where it cannot train."""

TOO_SLOW = "did not end within"
"""In the message of an error for what took longer than TIMEOUT_S. A busy machine does that: it is run again."""

TINY = {"seed": "breadth", "batch": 2, "tiny": True}
"""What the factories of libraries' classes take beside a name."""

FAMILIES: dict[str, tuple[str, Mapping[str, object], Callable[[], list[str]]]] = {
    "transformers": ("drawn.transformers_models:build", TINY, partial(transformers_models.names, heads=False)),
    "diffusers": ("drawn.diffusers_models:build", TINY, diffusers_models.names),
    "graphs": ("drawn.graph_models:build", TINY, graph_models.names),
    "monai": ("drawn.monai_models:build", TINY, monai_models.names),
    "modules": ("breadth_models:torch_module", {}, breadth_models.module_names),
    "operators": ("breadth_models:torch_operator", {}, breadth_models.operator_names),
}
"""The factory in this folder, what it takes beside a name, and the names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """A profile, and its check."""

    profile: Profile
    check: Check


@dataclass(frozen=True, kw_only=True)
class ProfileAndCheck(Task[Both]):
    """Both in one process: importing a library takes longer than either."""

    model: Model

    def run(self, context: Context) -> Both:
        try:
            check = CheckWorkload(model=self.model).run(context)
        except WorkloadError:
            self._require_running()
            raise
        profile = ProfileWorkload(model=self.model, min_time_s=0.1, repeats=2).run(context)
        return Both(profile=profile, check=check)

    def _require_running(self) -> None:
        """Raise WorkloadError if the model fails without the profiler, too: some ask for labels in training, others
        have no backward pass."""
        built = self.model.build("cpu")
        arguments, named = built.inputs[0]
        is_training = self.model.mode == "training"
        try:
            outputs = built.model.train(is_training)(*arguments, **named)
            losses = [output.abs().sum() for output in tensors_in(outputs) if output.requires_grad]
            if is_training and losses:
                sum(losses[1:], losses[0]).backward()
        except Exception as error:
            raise WorkloadError(f"the model {DOES_NOT_RUN} in {self.model.mode}", cause=reason_of(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case in one mode. `flops_ratio` is ours over FlopCounterMode's, `covered` the share of operator time that
    has a cost formula; `stood_for` that in kernel classes for which a proxy has blocks, and `missing` names the
    operators of the others."""

    family: str
    name: str
    mode: str
    outcome: str
    flops_ratio: float | None = None
    covered: float | None = None
    stood_for: float | None = None
    uncounted: str | None = None
    missing: str | None = None
    reason: str | None = None
    time_s: float = 0.0


def cases(families: Sequence[str]) -> list[tuple[str, str]]:
    """(family, name) of each case."""
    return [(family, name) for family in families for name in FAMILIES[family][2]()]


def measured(family: str, name: str, mode: str, signatures: Path | None = None) -> Row:
    """Profile and check one case in a process of its own; and keep its signature in a folder."""
    begin = time.monotonic()
    factory, settings, _ = FAMILIES[family]
    model = Model(target=f"benchmarks.{factory}", mode=mode, overrides={"name": name, **settings})

    def row(outcome: str, **fields: object) -> Row:
        time_s = round(time.monotonic() - begin, 1)
        return Row(family=family, name=name, mode=mode, outcome=outcome, time_s=time_s, **fields)  # type: ignore[arg-type]

    try:
        both = run(ProfileAndCheck(model=model), Control(timeout_s=TIMEOUT_S))
    except StatsNetError as error:
        return row(_outcome_of(error), reason=" | ".join(str(error).splitlines())[:400])
    check, signature = both.check, both.profile.signature
    if signatures is not None:
        save_signature(signatures / f"{family}.{name.replace('/', '.')}.{mode}.json", signature)
    is_right = check.flops_agree and check.calls_agree
    stood_for, missing = _stood_for(signature)
    return row(
        "right" if is_right else "wrong",
        flops_ratio=check.flops / check.torch_flops if check.torch_flops else None,
        covered=signature.coverage(),
        stood_for=stood_for,
        uncounted="; ".join(f"{op} {calls}" for op, calls in check.uncounted[:6]) or None,
        missing=missing,
        reason=None if is_right else _difference(check),
    )


def measured_in(modes: Sequence[str], family: str, name: str, signatures: Path | None = None) -> Iterator[Row]:
    """A row for each mode. What does not run by itself in one of them is not tried in the others."""
    row: Row | None = None
    for mode in modes:
        fails = row is not None and DOES_NOT_RUN in (row.reason or "")
        row = replace(row, mode=mode, time_s=0.0) if row and fails else measured(family, name, mode, signatures)
        yield row


def _stood_for(signature: Signature) -> tuple[float | None, str | None]:
    """The share of operators' time in kernel classes that some block has; and the other operators, with theirs."""
    target = target_of(signature)
    shares = target.kernel_class_shares
    known = {c.kernel_class for c in target.clusters if c.phase == "optimizer" or _has_block([c], signature.dtype)}
    for motif in target.motifs:
        clusters = [target.clusters[i] for i in motif.clusters]
        known.update(c.kernel_class for c in clusters if _has_block(clusters, signature.dtype))
    missing: dict[str, float] = defaultdict(float)
    for cluster in target.clusters:
        if cluster.kernel_class not in known:
            missing[cluster.op] += cluster.time_share / target.operator_share
    named = sorted((op for op in missing if missing[op] >= SHOWN), key=lambda op: -missing[op])
    covered = sum(share for name, share in shares.items() if name in known)
    return (covered if shares else None), "; ".join(f"{op} {missing[op]:.1%}" for op in named[:4]) or None


def _has_block(motif: Sequence[TargetCluster], dtype: str) -> bool:
    def as_called(calls: list[Cluster]) -> Config | None:
        return OperatorKind().of_call(calls[0], dtype)

    return bool(readings(motif) or asked(as_called, motif))  # type: ignore[arg-type]


def _outcome_of(error: StatsNetError) -> str:
    if DOES_NOT_RUN in error.message or error.message == NOTHING_TO_TRAIN or NO_DERIVATIVE.search(error.cause):
        return "no case"
    if isinstance(error, ProcessError):
        return "wrong"
    return "refused" if isinstance(error, MeasurementError | WorkloadError) else "wrong"


def _difference(check: Check) -> str:
    differing = [
        f"{o.op}: {o.flops:.4g} here, {o.torch_flops:.4g} by torch"
        for o in check.operators
        if not o.agrees and not o.exception
    ]
    seen = check.unseen
    missing = [f"{seen.unmatched} of {seen.timed} calls not seen by the profiler"] if seen.unmatched else []
    unseen = [f"{name} {share:.1%} of the step not captured" for name, share in seen.shares[:3]]
    return "; ".join(differing[:4] + missing + unseen)[:400]


def print_summary(rows: Sequence[Row]) -> None:
    """Outcomes by family and mode, and every case that is not right."""
    counted = Counter((r.family, r.mode, r.outcome) for r in rows)
    for family, mode in sorted({(r.family, r.mode) for r in rows}):
        outcomes = ", ".join(f"{n} {o}" for (f, m, o), n in sorted(counted.items()) if (f, m) == (family, mode))
        print(f"{family:14} {mode:10} {outcomes}")
    for name, share in _bars(rows):
        print(f"{share:6.1%} {name}")
    for row in rows:
        if row.outcome in ("refused", "wrong"):
            print(f"{row.outcome}: {row.family} {row.name} {row.mode}: {row.reason}")


def _bars(rows: Sequence[Row]) -> list[tuple[str, float]]:
    """What is to be high, of all cases that there are and of those that are profiled."""
    possible = [row for row in rows if row.outcome != "no case"]
    profiled = [row for row in possible if row.outcome == "right"]
    figures = [
        ("of the cases are profiled", [row.outcome == "right" for row in possible]),
        ("of these have formulas for 95 % of the time", _enough(row.covered for row in profiled)),
        ("of these have blocks for 95 % of the time", _enough(row.stood_for for row in profiled)),
    ]
    return [(name, sum(reached) / len(reached)) for name, reached in figures if reached]


def _enough(shares: Iterable[float | None]) -> list[bool]:
    """Whether each is enough, those left out that are not known: no operator took time."""
    return [share >= COVERAGE_BAR for share in shares if share is not None]


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("file", type=Path, metavar="FILE")
    arguments.add_argument("--families", default=",".join(FAMILIES), help="comma-separated (default: all)")
    arguments.add_argument("--modes", default="inference,training")
    arguments.add_argument("--only", default=".*", metavar="PATTERN", help="names that this pattern matches in full")
    arguments.add_argument("--signatures", type=Path, metavar="FOLDER", help="keep each case's signature there")
    arguments.add_argument("--sample", type=int, metavar="N", help="N cases drawn at random")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--limit", type=int, metavar="N", help="the first N cases")
    arguments.add_argument("--again", metavar="OUTCOME", help="run what FILE holds with this outcome again")
    arguments.add_argument("--kept", action="store_true", help="print what FILE holds")
    options = arguments.parse_args()
    rows = {(row.family, row.name, row.mode): row for row in csv_tables.read_kept(options.file, Row)}
    if not options.kept:
        chosen = [(f, n) for f, n in cases(options.families.split(",")) if re.fullmatch(options.only, n)]
        if options.sample is not None:
            chosen = random.Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
        done = {case for case, row in rows.items() if row.outcome != options.again}
        for family, name in chosen[: options.limit]:
            modes = [mode for mode in options.modes.split(",") if (family, name, mode) not in done]
            for row in measured_in(modes, family, name, options.signatures):
                print(f"{family:14} {name:40} {row.mode:10} {row.outcome:8} {row.reason or ''}"[:200], flush=True)
                if TOO_SLOW not in (row.reason or ""):
                    rows[family, name, row.mode] = row
                    csv_tables.write(options.file, Row, [*rows.values()], one_machine=False)
    print_summary([*rows.values()])
    return 1 if any(row.outcome == "wrong" for row in rows.values()) else 0


if __name__ == "__main__":
    from benchmarks.breadth import main  # processes load tasks by the name of their module

    start(main)
