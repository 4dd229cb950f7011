"""Does an imported recording say the same of a step as its profile?

    python benchmarks/diagnostics/imported_recordings.py [--workloads cv/resnet50,recsys/dlrm] [--preset small]

Each workload's step is profiled; then torch.profiler records the same steps in the same process, and each step of the
recording is imported. Shares of operator time by category (as a profile does, from the faster half of the steps) and
FLOPs stand side by side. Exits with 1 if a category's share differs by more than 3 points or the FLOPs by more than
2 %. Steps of milliseconds are too noisy for that: use a preset whose steps are longer.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch.profiler import ProfilerActivity, profile, schedule

from benchmarks.console import parser, report, start
from statsnet.measure.process import run
from statsnet.measure.task import Context, Task
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.recordings.chrome_trace import read_chrome_trace
from statsnet.recordings.kineto import import_recording
from statsnet.signatures.database import MODES
from statsnet.signatures.model import Signature
from statsnet.workloads import make_step

WORKLOADS = "cv/resnet50,nlp/bert_base,recsys/dlrm"
MOST_POINTS = 3.0
MOST_FLOPS_SHARE = 0.02
WARM_UP_S = 3.0
WARMUPS, STEPS = 3, 15


@dataclass(frozen=True, slots=True, kw_only=True)
class BothWays:
    """A step's signature from a profile, and those of the steps of a recording, the faster half."""

    profiled: Signature
    imported: tuple[Signature, ...]


@dataclass(frozen=True, kw_only=True)
class ProfileAndRecord(Task[BothWays]):
    """Profiles a workload's step, and imports a recording of it."""

    model: Model

    def run(self, context: Context) -> BothWays:
        profiled = ProfileWorkload(model=self.model).run(context).signature
        step = make_step(self.model.build("cpu"), optimizer=self.model.optimizer)
        begin = time.perf_counter()
        for index in itertools.count():  # as warm as after a profile's many steps
            step(index)
            if time.perf_counter() - begin > WARM_UP_S:
                break
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "trace.json.gz")
            marked = schedule(wait=1, warmup=WARMUPS, active=STEPS, repeat=1)
            with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=marked) as session:
                for index in range(1 + WARMUPS + STEPS):
                    step(index)
                    session.step()
            session.export_chrome_trace(str(path))
            recording = read_chrome_trace(path)
        ranked = sorted(recording.steps, key=lambda numbered: numbered[1].end_ns - numbered[1].start_ns)
        faster = [number for number, _ in ranked[: (len(ranked) + 1) // 2]]
        imported = tuple(import_recording(recording, "the recording", step=n).signature for n in faster)
        return BothWays(profiled=profiled, imported=imported)


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--workloads", default=WORKLOADS)
    options.add_argument("--preset", default="small")
    options.add_argument("--modes", default=",".join(MODES))
    chosen = options.parse_args()
    misses = 0
    for name in chosen.workloads.split(","):
        for mode in chosen.modes.split(","):
            found = run(ProfileAndRecord(model=Model(target=name, mode=mode, preset=chosen.preset)), report=report)
            print(f"\n{name} {mode}, {chosen.preset}")
            misses += _compare(found.profiled, found.imported)
    print(f"\n{misses} beyond {MOST_POINTS:g} points or {MOST_FLOPS_SHARE:.0%}")
    return 1 if misses else 0


def _compare(profiled: Signature, imported: Sequence[Signature]) -> int:
    """Print both, and return how many figures miss their bar."""
    misses = 0
    ours, theirs = _shares([profiled]), _shares(imported)
    print(f"  {'category':20} {'profiled':>9} {'imported':>9}")
    for category in sorted(ours.keys() | theirs.keys(), key=lambda c: -ours.get(c, 0.0)):
        one, other = 100 * ours.get(category, 0.0), 100 * theirs.get(category, 0.0)
        misses += abs(one - other) > MOST_POINTS
        print(f"  {category:20} {one:8.1f}% {other:8.1f}% {'  beyond' if abs(one - other) > MOST_POINTS else ''}")
    flops, calls = imported[0].flops_per_step, imported[0].calls_per_step
    ratio = flops / profiled.flops_per_step
    misses += abs(ratio - 1) > MOST_FLOPS_SHARE
    print(f"  {'FLOPs':20} {profiled.flops_per_step:9.4g} {flops:9.4g}  {ratio:.4f}")
    print(f"  {'operators':20} {profiled.calls_per_step:9g} {calls:9g}")
    return misses


def _shares(steps: Sequence[Signature]) -> Mapping[str, float]:
    """Each category's share of operator time."""
    times: Counter[str] = Counter()
    for signature in steps:
        for cluster, time_s in zip(signature.clusters, signature.measurements[0].cluster_time_s, strict=True):
            times[cluster.category] += time_s or 0.0  # type: ignore[assignment]
    return {category: time_s / times.total() for category, time_s in times.items()}


if __name__ == "__main__":
    from benchmarks.diagnostics.imported_recordings import main  # processes load tasks by the name of their module

    start(main)
