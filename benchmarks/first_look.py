"""A first look at fidelity: does a proxy's time change by the suite's factor when settings change?

    python benchmarks/first_look.py [--modes inference,training] [--rounds 2] [--proxies DIR] [-o FILE]

For each mix a proxy is synthesized here, or taken from DIR where it lies there from a run before. Then every workload
and every proxy runs in fresh processes, in turn, at the baseline and in each setting; a workload's run serves all
mixes that it belongs to. Prints fit, suite factor, proxy factor and error per mix and setting. Run nothing else
meanwhile.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from statsnet.cli.synthesize import mix_slug
from statsnet.running.child import measuring_environment, run_job
from statsnet.running.settings import BASELINE, Setting, parse_settings
from statsnet.signatures.canonical import write_json_atomically
from statsnet.signatures.storage import load_document
from statsnet.synthesis.spec import write_proxy
from statsnet.synthesis.synthesize import synthesize

MIXES = ("recsys:0.5,cv:0.5", "cv:1", "nlp:0.7,recsys:0.3", "cv:1,nlp:1,recsys:1,speech:1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--modes", default="inference,training")
    parser.add_argument("--mixes", nargs="*", default=list(MIXES))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--settings", default="threads=1,onednn=sse41,mkl=compatible")
    parser.add_argument("--proxies", type=Path, default=Path("build/first_look"))
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/first_look.json"))
    options = parser.parse_args()
    settings = [BASELINE, *parse_settings(options.settings)]
    results: dict[str, Any] = {
        "environment": measuring_environment(),
        "settings": options.settings,
        "modes": {},
    }
    for mode in options.modes.split(","):
        results["modes"][mode] = look(mode, options.mixes, settings, options.rounds, options.proxies)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomically(options.output, results)


def look(
    mode: str, mixes: list[str], settings: list[Setting], rounds: int, proxies: Path
) -> list[dict[str, Any]]:
    folders = {mix: _proxy(mix, mode, proxies) for mix in mixes}
    specs = {mix: load_document(folder / "spec.json", "statsnet.proxy") for mix, folder in folders.items()}
    subjects: dict[str, dict[str, Any]] = {}
    for mix, folder in folders.items():
        subjects[mix] = {"kind": "time_proxy", "folder": str(folder)}
        for member in specs[mix]["mix"]:
            subjects[member["name"]] = {
                "kind": "time_workload", "target": member["name"], "preset": member["preset"], "mode": mode,
            }  # fmt: skip
    times = _times(subjects, settings, rounds)
    rows = []
    for mix, folder in folders.items():
        fit = load_document(folder / "fit.json", "statsnet.fit")["summary"]
        print(
            f"{mode:10} {mix:30} categories {100 * fit['category_total_variation']:.1f}  "
            f"kernel classes {100 * fit['kernel_class_total_variation']:.1f} points  "
            f"FLOP/s {fit['flops_per_s_error']:+.1%}  bytes/s {fit['bytes_per_s_error']:+.1%}  "
            f"intensity {fit['intensity_earth_movers_distance_log2']:.2f} log2  "
            f"step {fit['step_latency_error']:+.1%}  compression {fit['compression']:.1f}  "
            f"launches/s x {fit['launches_per_s_ratio']:.2f}"
        )
        rows += [_row(mix, mode, specs[mix], fit, times, setting) for setting in settings[1:]]
    return rows


def _proxy(mix: str, mode: str, proxies: Path) -> Path:
    """The folder of a mix's proxy, made now where it is not there yet."""
    folder = proxies / f"{mix_slug(mix)}.{mode}"
    if not folder.exists():
        proxies.mkdir(parents=True, exist_ok=True)
        write_proxy(synthesize(mix, mode=mode), folder, mix_text=mix)
    return folder


def _times(
    subjects: dict[str, dict[str, Any]], settings: list[Setting], rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Median step times of single processes: subject -> setting -> one per round."""
    times: dict[str, dict[str, list[float]]] = {s: {e.name: [] for e in settings} for s in subjects}
    for _ in range(rounds):
        for name, job in subjects.items():
            for setting in settings:
                limits = {"min_time_s": 0.5, "max_time_s": 8.0}
                result = run_job({**job, **limits, "device": "cpu", "setting": setting.to_dict()})
                times[name][setting.name].append(median(result["latency_s"]))
    return times


def _row(
    mix: str,
    mode: str,
    spec: dict[str, Any],
    fit: dict[str, Any],
    times: dict[str, dict[str, list[float]]],
    setting: Setting,
) -> dict[str, Any]:
    def factor(name: str) -> float:
        return geometric_mean(times[name][setting.name]) / geometric_mean(times[name][BASELINE.name])

    def suite(round_: int) -> float:
        return sum(
            m["weight"] * times[m["name"]][setting.name][round_] / times[m["name"]][BASELINE.name][round_]
            for m in spec["mix"]
        )

    suite_factor = sum(m["weight"] * factor(m["name"]) for m in spec["mix"])
    by_round = [suite(i) for i in range(len(times[mix][setting.name]))]
    row = {
        "mix": mix,
        "mode": mode,
        "setting": setting.name,
        "suite_factor": suite_factor,
        "proxy_factor": factor(mix),
        "error": factor(mix) / suite_factor - 1.0,
        "suite_noise": max(by_round) / min(by_round) - 1.0,
        "fit": fit,
        "times_s": {n: times[n] for n in (mix, *(m["name"] for m in spec["mix"]))},
    }
    print(
        f"{mode:10} {mix:30} {setting.name:16} suite {suite_factor:5.2f}  proxy {row['proxy_factor']:5.2f}  "
        f"error {row['error']:+6.1%}  suite's noise {row['suite_noise']:5.1%}",
        flush=True,
    )
    return row


if __name__ == "__main__":
    main()
