"""What do profiles, proxies and their fidelity look like on a GPU? All that needs one, measured in one go.

    python benchmarks/gpu_campaign.py [--device cuda] [--limit 20min] [-o build/campaign]

The machine needs torch and StatsNet's few other requirements. The campaign profiles workloads in their `standard`
sizes, makes a proxy of them, and measures its fit and its fidelity across the device's settings. It times the proxy
that ships for an H100. That takes some five minutes on an H100. Then come one workload under settings that run a step
in one piece, training, a proxy of six domains, hardware counters, a record of the device, and bfloat16. Last, it prints
a table.

Each step is a StatsNet command in its own process, whose files appear whole or not at all: started again, the campaign
goes on with the steps that are missing. A step that fails is named, and the others go on. No step begins after the
limit. The files are small.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.console import duration, markdown_table, parser, report, start
from statsnet.progress import Progress

WORKLOADS = (
    "cv/resnet50", "recsys/dlrm", "nlp/bert_base", "speech/deepspeech2", "detection/ssd_resnet34", "generation/wgan",
    "cv/mobilenet_v2", "recsys/ncf",
)  # fmt: skip
"""Of six domains; the mixes below are made of them."""

PIECES = ("graphs=cuda", "compile=inductor")
"""Settings under which the first of WORKLOADS is profiled once more."""

DTYPES = ("float32", "bfloat16")
MODES = ("inference", "training")
MIXES = {
    "recsys-cv": "recsys:0.5,cv:0.5",
    "all": "recsys:1,cv:1,nlp:1,speech:1,detection:1,generation:1",
}
SHIPPED = "generated/serving-llm-h100"
"""Made from published tables: the device's own time tells how far they carry."""

COUNTED = ("cv/mobilenet_v2", "nlp/bert_base")
"""Profiled with hardware counters too, which takes minutes."""

SETTINGS = "precision=high,dtype=bfloat16,graphs=cuda"
COMPILED = "compile=inductor"
"""A setting that takes minutes, and so comes after the others."""

OPERATORS = 1200
PROFILES = "profiles"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The `arguments` of one `statsnet` command. It is done once the file `makes` exists."""

    name: str
    arguments: tuple[str, ...]
    makes: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`status`: done, there (from a run before), failed, or left out."""

    step: Step
    status: str
    took_s: float = 0.0
    said: str = ""


def plan(folder: Path, device: str) -> list[Step]:
    """The most important steps first: a proxy of two domains with what it needs, then the rest."""
    inference, training = ([_profile(folder, device, w, mode, "float32") for w in WORKLOADS] for mode in MODES)
    first = [step for step, workload in zip(inference, WORKLOADS, strict=True) if workload.startswith(("recsys", "cv"))]
    lower = [_profile(folder, device, w, mode, "bfloat16") for mode in MODES for w in WORKLOADS]
    counted = [_profile(folder, device, w, "inference", "float32", counters="auto") for w in COUNTED]
    shipped = Step(
        name=f"time {SHIPPED}",
        arguments=("run", SHIPPED, "--device", device, "--json", str(folder / "shipped.json")),
        makes=folder / "shipped.json",
    )
    record = Step(
        name="record the device",
        arguments=("device", "record", "--device", device, "--operators", str(OPERATORS),
                   "--counters", "off", "--profiles", str(folder / PROFILES), "-o", str(folder / "device.json")),
        makes=folder / "device.json",
    )  # fmt: skip
    two_domains, six_domains = (_proxy(folder, device, name, mix) for name, mix in MIXES.items())
    compiled = [_fidelity(folder, device, name, COMPILED, f"{name}, compiled") for name in MIXES]
    pieces = [_piece(folder, device, setting) for setting in PIECES]
    others = [step for step in inference if step not in first]
    early = [*first, *two_domains, shipped, *pieces, *others, *training]
    return [*early, *six_domains, *counted, record, *lower, *compiled]


def _piece(folder: Path, device: str, setting: str) -> Step:
    step = _profile(folder, device, WORKLOADS[0], "inference", "float32")
    makes = folder / "pieces" / f"{setting.partition('=')[0]}.json"
    arguments = (*step.arguments[:-2], "--setting", setting, "-o", str(makes))
    return Step(name=f"{step.name}, {setting}", arguments=arguments, makes=makes)


def _profile(folder: Path, device: str, workload: str, mode: str, dtype: str, *, counters: str = "off") -> Step:
    """Proxies are made from the float32 profiles without counters; others are kept in folders of their own."""
    kind = dtype if counters == "off" else "counted"
    base = folder / (PROFILES if kind == "float32" else f"{PROFILES}-{kind}")
    makes = base / "here" / f"{workload}.{mode}.json"
    arguments = ("profile", workload, "--mode", mode, "--preset", "standard", "--dtype", dtype, "--device", device,
                 "--counters", counters, "-o", str(makes))  # fmt: skip
    return Step(name=f"profile {workload}, {mode}, {kind}", arguments=arguments, makes=makes)


def _proxy(folder: Path, device: str, name: str, mix: str) -> list[Step]:
    proxy = folder / "proxies" / name
    made = Step(
        name=f"synthesize {mix}",
        arguments=("synthesize", "--mix", mix, "--device", device, "--profiles", str(folder / PROFILES),
                   "--counters", "off", "-o", str(proxy)),
        makes=proxy / "fit.json",
    )  # fmt: skip
    return [made, _fidelity(folder, device, name, SETTINGS, name)]


def _fidelity(folder: Path, device: str, proxy: str, settings: str, name: str) -> Step:
    makes = folder / f"{name.replace(', ', '-')}.fidelity.json"
    arguments = ("validate", str(folder / "proxies" / proxy), "--settings", settings, "--rounds", "1",
                 "--min-time", "1s", "--max-time", "4s", "--device", device, "--profiles", str(folder / PROFILES),
                 "--resume", str(makes.with_suffix(".times.jsonl")), "--json", str(makes))  # fmt: skip
    return Step(name=f"fidelity of {name}", arguments=arguments, makes=makes)


def run(
    steps: Sequence[Step],
    *,
    limit_s: float,
    call: Callable[[Sequence[str]], tuple[int, str]],
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> list[Outcome]:
    """Run every step in turn. `call` runs a command and returns its exit code and the last line that it printed."""
    begin = clock()
    outcomes = []
    for number, step in enumerate(steps, 1):
        if step.makes.exists():
            outcomes.append(Outcome(step=step, status="there"))
            continue
        before = clock()
        if before - begin > limit_s:
            outcomes.append(Outcome(step=step, status="left out", said="the time was over"))
            continue
        say(f"{number} of {len(steps)}: {step.name}")
        step.makes.parent.mkdir(parents=True, exist_ok=True)
        code, said = call(step.arguments)
        status = "done" if code == 0 and step.makes.exists() else "failed"
        took_s = clock() - before
        outcomes.append(Outcome(step=step, status=status, took_s=took_s, said=said if status == "failed" else ""))
    return outcomes


def statsnet(arguments: Sequence[str]) -> tuple[int, str]:
    """Run one command. Its messages go to this program's stderr too."""
    done = subprocess.run([sys.executable, "-m", "statsnet", *arguments], capture_output=True, text=True, check=False)
    sys.stderr.write(done.stderr)
    lines = done.stderr.strip().splitlines()
    return done.returncode, lines[-1] if lines else ""


def table(outcomes: Sequence[Outcome]) -> str:
    """What was done, how long it took, and the figures in the files."""
    lines = []
    for outcome in outcomes:
        there = outcome.status in ("done", "there")
        said = _result(outcome.step.makes) if there else outcome.said
        lines.append([outcome.step.name, outcome.status, f"{outcome.took_s:.0f}", said])
    return markdown_table(["step", "", "seconds", ""], lines)


def _result(path: Path) -> str:
    """The figures of a file, in one line."""
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if data["kind"] == "statsnet.fit":
        fit = data["summary"]
        off, rate = 100 * fit["category_total_variation"], 100 * fit["flops_per_s_error"]
        text = f"categories {off:.1f} points, FLOP/s {rate:+.1f} %, compression {fit['compression']:.0f}"
        return ", ".join([text, *_of_the_device(data["characteristics"])])
    fidelity = (data.get("validation") or {}).get("fidelity")
    if fidelity:
        return ", ".join(f"{row['name']} {100 * row['error']['value']:+.1f} %" for row in fidelity["settings"])
    if data["kind"] == "statsnet.result":
        return f"{1e3 * median(median(process['latency_s']) for process in data['processes']):.3g} ms"
    if data["kind"] == "statsnet.signature" and data["measurements"]:
        (measurement,) = data["measurements"]
        text = f"{1e3 * median(measurement['step_latency_s']):.3g} ms, {len(data['counts']['clusters'])} clusters"
        gpu = measurement.get("gpu")
        return f"{text}, {len(gpu['counters']['clusters'])} counters" if gpu else text
    return ""


def _of_the_device(rows: Sequence[dict[str, Any]]) -> list[str]:
    """How far energy and the worst counter are off."""
    known = [r for r in rows if r["target"] is not None and r["achieved"] is not None]
    said = [f"power {100 * (r['achieved'] / r['target'] - 1):+.1f} %" for r in known if r["name"] == "power"]
    shares = [r for r in known if r["group"] == "counter" and r["unit"] == "share"]
    if shares:
        worst = max(shares, key=lambda r: abs(r["achieved"] - r["target"]))
        said.append(f"{worst['name']} {100 * (worst['achieved'] - worst['target']):+.1f} points")
    return said


def main() -> int:
    known = parser(__doc__)
    known.add_argument("--device", default="cuda")
    known.add_argument("--limit", type=duration, default=1200.0, metavar="TIME", help="default: 20min")
    known.add_argument("-o", "--output", type=Path, default=Path("build/campaign"))
    options = known.parse_args()
    outcomes = run(
        plan(options.output, options.device),
        limit_s=options.limit,
        call=statsnet,
        say=lambda text: report(Progress(stage=text)),
    )
    print(table(outcomes))
    return int(any(outcome.status == "failed" for outcome in outcomes))


if __name__ == "__main__":
    start(main)
