"""Small inputs that the readers take in, from what ships with StatsNet, and from torch's own recorders."""

from __future__ import annotations

import gzip
import json
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from statsnet.devices.tables.reading import FORMATS
from statsnet.exports.build_manifest import manifest_of_mix
from statsnet.exports.scaling import scaled
from statsnet.exports.simulator_proxy import SimulatorProxy, simulator_proxy
from statsnet.measure.ncu_csv import METRICS
from statsnet.profiling.costs import cost_of
from statsnet.signatures import packed
from statsnet.signatures.aggregation import Part, aggregate
from statsnet.signatures.canonical import canonical_json, content_id
from statsnet.signatures.collectives import Collectives, CollectiveTime
from statsnet.signatures.conversion import plain
from statsnet.signatures.database import CountsDB
from statsnet.signatures.levels import coarsen
from statsnet.signatures.measurement import Variation
from statsnet.signatures.merging import merge
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.model import Signature

ROOT = Path(__file__).parents[2]
MOST_BYTES = 60_000
"""Larger signatures are left out."""

FEW, FEWER = 6, 2
"""Of each list in a seed no more is kept: reading long files again and again takes long and shows nothing new. The
seeds of a spec have FEWER blocks each, and all blocks together."""

CELLS = {
    "op": ("gemm", "linear", "conv", "addu", "mlp_up_proj", "emb", "rope"), "operator": ("gemm", "relu"),
    "dims": ("1x64x64x64", "64x64x64_NT", "8x8"), "dtype": ("float16", "fp32"), "device": ("NVIDIA-H100", "acme one"),
    "direction": ("fwd", "forward", ""), "time_us": ("12.5",), "latency_us": ("12.5",), "gated": ("True", "False"),
}  # fmt: skip
"""Of tables: cells that mean something in these columns; in all others stand small numbers."""


def signatures() -> list[bytes]:
    """The smallest of each domain and mode, measured on a CPU, on a GPU and nowhere, with FEW clusters each."""
    found: dict[tuple[str, str, str], bytes] = {}
    for archive in sorted((ROOT / "profiles_db").glob("*/*.zip")):
        for file in packed.files(archive):
            content = packed.read(file, 1 << 22)
            key = archive.parent.name, archive.stem, file.name.split(".")[-2]
            if len(content) < len(found.get(key, b" " * MOST_BYTES)):
                found[key] = content
    few = [_few_clusters(json.loads(text)) for text in found.values()]
    return [canonical_json(signature.to_dict()).encode() for signature in (*few, *_told_less(few))]


def _told_less(signatures: Sequence[Signature]) -> list[Signature]:
    """An aggregate, a coarse one of steps that are not alike, and one of several processes."""
    one = next(s for s in signatures if s.measurements and s.measurements[0].gpu is None)
    varying = Variation(steps=9, distinct=3, work_deviation=0.1, work_error=0.01, time_deviation=0.1, time_error=0.01)
    (first, *_), calls = one.measurements, (CollectiveTime(cluster=0, time_s=1e-3, exposed_time_s=0, start_share=0.5),)
    waits = Collectives(processes=2, backend="gloo", exposed_time_s=1e-4, calls=calls, rank_step_latency_s=(0.1, 0.2),
                        rank_waiting_s=(0.1, 0.0))  # fmt: skip
    parts = [Part(name=name, weight=0.5, signature=replace(one, batch=n)) for name, n in (("a", 1), ("b", 2))]
    return [
        aggregate(parts, cost_of),
        coarsen(replace(one, measurements=(replace(first, variation=varying),)), "coarse", cost_of),
        replace(one, processes=2, measurements=(replace(first, collectives=waits),)),
    ]


def _few_clusters(data: dict[str, Any]) -> Signature:
    """One cluster of each category, and what belongs to them."""
    signature = Signature.from_dict(data)
    first = {cluster.category: i for i, cluster in reversed([*enumerate(signature.clusters)])}
    few = merge(signature, [[i] for i in sorted(first.values())[:FEW]])
    measurements = []
    for m in few.measurements:
        samples = {
            f"{kind}_latency_s": getattr(m, f"{kind}_latency_s")[:FEW] for kind in ("step", "warmup", "profiled")
        }
        gpu = None if m.gpu is None else replace(m.gpu, kernels=m.gpu.kernels[:FEW])
        measurements.append(replace(m, gpu=gpu, **samples))
    return replace(few, motifs=few.motifs[:FEW], measurements=tuple(measurements))


def specs() -> list[bytes]:
    """Of the shipped proxies, towers with a block of each kind."""
    made = []
    for path in sorted((ROOT / "generated").glob("*/spec.json")):
        spec = json.loads(path.read_bytes())
        kinds = {block["kind"]: block for tower in spec["towers"] for block in tower["blocks"]}
        blocks = [*kinds.values()]
        for begin in range(0, len(blocks), FEWER):
            towers = [{"blocks": [block]} for block in blocks[begin : begin + FEWER]]
            few = {**spec, "towers": towers, "mix": spec["mix"][:2]}
            made.append(canonical_json({**few, "id": content_id(few)}).encode())
    return [*made, canonical_json(plain(simulator_proxy_of_two().spec)).encode()]


def fits() -> list[bytes]:
    """Of the shipped proxies, with some characteristics of each group."""
    made = []
    for path in sorted((ROOT / "generated").glob("*/fit.json")):
        fit = json.loads(path.read_bytes())
        by_group: dict[str, list[Any]] = {}
        for row in fit["characteristics"]:
            by_group.setdefault(row["group"], []).append(row)
        few = [row for rows in by_group.values() for row in rows[:2]]
        made.append(canonical_json({**fit, "characteristics": few, "rounds": fit["rounds"][:2]}).encode())
    return [*made, canonical_json(plain(simulator_proxy_of_two().fit)).encode()]


@cache
def simulator_proxy_of_two() -> SimulatorProxy:
    """Of two layers of small products."""
    mix = resolve_mix("micro:1", "inference", CountsDB())
    whole = manifest_of_mix(mix)
    made = simulator_proxy(mix, whole, scaled(whole, macs=1_000_000, quantum=32))
    assert made.fit.simulation is not None
    few = replace(made.fit.simulation, left_out=made.fit.simulation.left_out[:FEW])
    return replace(made, fit=replace(made.fit, simulation=few))


def devices() -> list[bytes]:
    """Of the smallest records the smallest model, packed and not."""
    paths = sorted((ROOT / "profiles_db" / "devices").glob("*.json.gz"), key=lambda path: path.stat().st_size)[:3]
    made = []
    for path in paths:
        record = json.loads(gzip.decompress(path.read_bytes()))
        models = sorted(record["models"], key=lambda model: len(json.dumps(model)))[:1]
        for model in models:
            model["trees"] = _first_tree(model["trees"])
        made.append(json.dumps({**record, "models": models, "exact": record["exact"][:FEW]}).encode())
    return [*made, gzip.compress(made[0], mtime=0)]


def _first_tree(trees: dict[str, Any] | None) -> dict[str, Any] | None:
    """Nodes stand tree after tree, each tree in preorder."""
    if trees is None:
        return None
    end, missing = 0, 1
    while missing:
        missing += 1 if trees["feature"][end] >= 0 else -1
        end += 1
    return {**trees, "feature": trees["feature"][:end], "value": trees["value"][:end]}


def traces() -> list[bytes]:
    """Of a step on a CPU as torch records it, each operator with what it calls; some in marked steps; and some with
    kernels, as a GPU has them."""
    parts = _parts()
    marked = [event for number, part in enumerate(parts[:2]) for event in (_marked(number, part), *part)]
    on_gpu = {**_timeline([*parts[0], *_kernels(parts[0][0])]), "deviceProperties": [_GPU]}
    texts = [json.dumps(document).encode() for document in (*map(_timeline, parts), _timeline(marked), on_gpu)]
    return [*texts, gzip.compress(texts[-1])]


_GPU = {"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0, "numSms": 132}


def _parts() -> list[list[dict[str, Any]]]:
    """The events of each operator that no other one calls, and FEW within it; none of one that only changes views."""
    parts: list[list[dict[str, Any]]] = []
    for event in json.loads(_recorded()[0])["traceEvents"]:
        if event.get("cat") not in ("cpu_op", "user_annotation"):
            continue
        if not parts or event["ts"] >= parts[-1][0]["ts"] + parts[-1][0]["dur"]:
            parts.append([])
        parts[-1].append(event)
    return [part[:FEW] for part in parts if any(event["name"] in _WORKING for event in part[:FEW])]


_WORKING = ("aten::fill_", "aten::tanh", "aten::mm", "aten::sum", "aten::add_")
"""Operators of the step that are no views."""


def _marked(number: int, part: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mark of a step, as torch's schedule of the profiler writes it."""
    begin, end = part[0]["ts"], max(event["ts"] + event["dur"] for event in part)
    return {**part[0], "cat": "user_annotation", "name": f"ProfilerStep#{number}", "args": {}, "ts": begin - 0.5,
            "dur": end - begin + 1}  # fmt: skip


def _timeline(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"schemaVersion": 1, "traceEvents": events}


def _kernels(launched_by: Mapping[str, Any]) -> list[dict[str, Any]]:
    at = float(launched_by["ts"])
    where = {"pid": launched_by["pid"], "tid": launched_by["tid"]}
    args = {"device": 0, "stream": 7, "correlation": 1, "grid": [8, 1, 1], "block": [128, 1, 1]}
    return [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", **where, "ts": at + 0.1, "dur": 0.5,
         "args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "ampere_sgemm_128x64_nn", "pid": 0, "tid": 7, "ts": at + 1, "dur": 4,
         "args": args},
    ]  # fmt: skip


def trace_without_shapes() -> bytes:
    """The step's first operators, as torch records them where nobody asked for shapes."""
    recorded = json.loads(traces()[0])
    for event in recorded["traceEvents"]:
        event["args"] = {k: v for k, v in event.get("args", {}).items() if not k.startswith(("Input", "Concrete"))}
    return json.dumps(recorded).encode()


def execution_traces() -> list[bytes]:
    recorded = json.loads(_recorded()[1])
    return [json.dumps({**recorded, "nodes": recorded["nodes"][: 2 * FEW]}).encode()]


def joined_traces() -> list[bytes]:
    """Execution traces that fit to `trace_without_shapes`: by the ids of records, and by the order alone."""
    recorded = json.loads(_recorded()[1])
    by_id = {**recorded, "nodes": recorded["nodes"][:FEW]}
    by_order = json.loads(json.dumps(by_id))
    for node in by_order["nodes"]:
        node["attrs"] = [each for each in node["attrs"] if each["name"] != "rf_id"]
    return [json.dumps(document).encode() for document in (by_id, by_order)]


@cache
def _recorded() -> tuple[bytes, bytes]:
    """A training step of a small model, in both formats of torch's profiler. Torch works out the results of its first
    operators fast."""
    import torch
    from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

    model = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(8, 4, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        timeline, nodes = Path(name, "trace.json"), Path(name, "et.json")
        observer = ExecutionTraceObserver().register_callback(str(nodes))
        with profile(
            activities=[ProfilerActivity.CPU], record_shapes=True, execution_trace_observer=observer
        ) as recorder:
            model(torch.ones(3, 8)).sum().backward()
            optimizer.step()
        recorder.export_chrome_trace(str(timeline))
        return timeline.read_bytes(), nodes.read_bytes()


def counters() -> list[bytes]:
    """Nsight Compute's raw page, with a line of units, and its details page."""
    metrics = sorted({name for _, names in METRICS.values() for name in names})
    places = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
              "Grid Size", "Device", "CC")  # fmt: skip
    kernel = ("0", "1", "python", "host", "ampere_sgemm_128x64_nn", "1", "7", "(128, 1, 1)", "(8, 1, 1)", "0", "9.0")
    raw = [(*places, *metrics), ("",) * 11 + ("%",) * len(metrics), (*kernel, *("1,205.5",) * len(metrics))]
    columns = (*places, "Section Name", "Metric Name", "Metric Unit", "Metric Value")
    details = [columns, *((*kernel, "Speed Of Light", name, "Kbyte", "12.5") for name in metrics[:6])]
    return [_csv(raw), b"==PROF== Connected\n" + _csv(details), gzip.compress(_csv(raw))]


def _csv(rows: list[tuple[str, ...]]) -> bytes:
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows).encode()


def onnx_models() -> list[bytes]:
    """A small model with a symbolic batch. Empty where the package onnx is not installed."""
    try:
        from onnx import TensorProto, helper
    except ImportError:
        return []
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3]), helper.make_node("Relu", ["y"], ["z"]),
             helper.make_node("Flatten", ["z"], ["f"]), helper.make_node("Gemm", ["f", "v"], ["out"])]  # fmt: skip
    weights = [helper.make_tensor("w", TensorProto.FLOAT, [2, 1, 3, 3], [0.5] * 18),
               helper.make_tensor("v", TensorProto.FLOAT, [72, 2], [0.5] * 144)]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["batch", 1, 8, 8])],
                              [value("out", TensorProto.FLOAT, None)], weights)  # fmt: skip
    return [helper.make_model(graph).SerializeToString()]


def cache_entries() -> list[bytes]:
    """A measurement by replay, as the cache keeps it."""
    measurement = next(json.loads(text)["measurements"][0] for text in signatures() if json.loads(text)["measurements"])
    value = {"measurement": measurement, "failures": [["aten.relu.default", "NotImplementedError"]], "launches": None,
             "reference_latency_s": 0.01}  # fmt: skip
    return [json.dumps({"value": value, "put_ns": 1}).encode()]


def risks() -> list[bytes]:
    """Two entries of a table of the risks of cut sizes."""
    entry = {"operator": "gemm", "axis": "m", "decade": 9, "octaves": 1, "risk": 0.1, "pairs": 3}
    entries = [entry, {**entry, "octaves": 2, "risk": 0.2}]
    return [json.dumps({"kind": "statsnet.cut_risk", "schema_version": 2, "entries": entries}).encode()]


def tables() -> list[bytes]:
    """A table of each format: its columns, and rows of cells that mean something in some of them."""
    made = []
    for form in FORMATS:
        columns = sorted(form.columns)
        extra = ["m", "n", "k", "time_us", "variant"] if form.name == "plain" else ["NVIDIA-H100"]
        columns += [name for name in extra if name not in columns]
        rows = [[_cell(column, number) for column in columns] for number in range(8)]
        made.append("".join(",".join(row) + "\n" for row in (columns, *rows)).encode())
    return [*made, gzip.compress(made[0], mtime=0)]


def _cell(column: str, number: int) -> str:
    known = CELLS.get(column)
    return known[number % len(known)] if known else str(2 ** (number + 3))


def archives() -> list[bytes]:
    return [packed.archive_bytes({"a.json": b"{}" * 40, "b.json": b"[1]"})]


def mix_files() -> list[bytes]:
    members = (
        "members:\n  - {workload: cv/resnet50, weight: 1, preset: small, batch: 4}\n  - domain: nlp\n    weight: 0.5\n"
    )
    own = f"name: Mine\nmode: training\nbudget: 10ms\nnotes: |\n  text\n{members}".encode()
    return [own, *(path.read_bytes() for path in sorted((ROOT / "examples").glob("*.yaml")))]


def mix_texts() -> list[bytes]:
    return [b"recsys:0.5,cv/resnet50:0.25,a/b.json:1e-3"]


def settings() -> list[bytes]:
    return [b"threads=1,onednn=sse41+mkl=compatible,dtype=bfloat16+channels_last,compile=inductor,precision=medium",
            b"aten=default,mkldnn=off,runtime=onnxruntime,graphs=cuda"]  # fmt: skip
