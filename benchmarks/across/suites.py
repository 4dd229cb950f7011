"""The suites whose factors are compared: operators at full size with their counts, from published tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.across.model_tables import LAUNCHES_NOTHING, ModelKey, ModelOperator, PublishedTables
from statsnet.devices.operator_mapping import Mapped, mapped
from statsnet.devices.tables.provenance import SMALL_CARDS
from statsnet.devices.tables.row import Direction, TableRow
from statsnet.devices.tables.words import ATTENTIONS, named
from statsnet.signatures.model import Cluster
from statsnet.signatures.storage import load_signature

COUNTS = Path(__file__).parents[2] / "profiles_db" / "meta" / "llm"
LANGUAGE_MODELS = ("llama3_8b_prefill", "llama2_70b_prefill", "gptj", "llama3_8b_decode", "mixtral")
EXPERTS, EXPERTS_PER_TOKEN = 8, 2
"""Of Mixtral (Jiang et al. 2024). Its counts hold a product for each pair of a token and an expert."""

BATCH = 64
"""Of the convolutional networks: the largest at which no convolution takes longer than tens of milliseconds."""

DIRECTIONS: tuple[Direction, ...] = ("forward", "backward_data", "backward_weight")

LEAST_SHARE = 0.9
"""A device is of a suite if its table has this share of the suite's rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """`calls` of one operator in a member's step."""

    row: TableRow
    calls: float

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} {size}" for name, size in self.row.dims)
        return f"{self.row.operator}, {self.row.direction}, {self.row.dtype} ({sizes})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One step of a workload. `step_s` is the whole step as it was measured, by device, where that is known."""

    name: str
    operators: tuple[Operator, ...]
    step_s: Mapping[str, float]
    clean: frozenset[str] | None = None
    """The devices whose times of it can be trusted; None: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Members of equal weight: on the device where a proxy is made, each takes the same share of the time."""

    number: int
    name: str
    members: tuple[Member, ...]
    devices: tuple[str, ...]


def llm_serving(tables: PublishedTables) -> list[Suite]:
    """Prefill and decode, dense and with experts, bf16: the matrix products, attention and experts of the `standard`
    presets. Norms, rotations, activations and embeddings have no table."""
    members = tuple(Member(name=name, operators=_language_operators(name), step_s={}) for name in LANGUAGE_MODELS)
    rows = [r for r in tables.rows if r.source == "aiconfigurator" and r.dtype == "bfloat16"]
    kinds = ("gemm", "attention_prefill", "attention_decode", "moe")
    of_device = Counter((d, k) for r in rows if (k := r.operator) in kinds for d in r.time_s)
    most = {k: max((n for (_, kind), n in of_device.items() if kind == k), default=0) for k in kinds}
    names = sorted({d for d, _ in of_device})
    devices = tuple(d for d in names if all(of_device[d, k] >= most[k] / 10 for k in kinds))
    return [Suite(number=1, name="LLM serving, bf16", members=members, devices=devices)] if devices else []


def _language_operators(name: str) -> tuple[Operator, ...]:
    signature = load_signature(str(COUNTS / f"{name}.inference.json"))
    counts: dict[Mapped, float] = defaultdict(float)
    for cluster in signature.clusters:
        if (described := _described(cluster)) is not None:
            counts[described] += cluster.calls
    ordered = sorted(counts.items(), key=lambda counted: (counted[0].operator, counted[0].dims))
    return tuple(Operator(row=part.row("aiconfigurator"), calls=calls) for part, calls in ordered)


def _described(cluster: Cluster) -> Mapped | None:
    """What the tables call a cluster; None for what they do not have."""
    parts = mapped(cluster.op, cluster.args, cluster.outputs)
    if parts is None or len(parts) > 1:
        return None
    (part,) = parts
    if part.operator in ATTENTIONS:
        return _in_bf16(part.operator, tuple(size for _, size in part.dims), "kv bfloat16")
    if part.operator != "gemm":
        return None
    b, m, n, k = (size for _, size in part.dims)
    if b == 1:
        return _in_bf16("gemm", (b, m, n, k), "NT")
    if n == 1:  # an expert's matrix and a token: the layer is counted with the first of two products
        sizes = (b // EXPERTS_PER_TOKEN, k, m // 2, EXPERTS_PER_TOKEN, EXPERTS, 1, 1)
        return _in_bf16("moe", sizes, "balanced") if m > k else None
    return _in_bf16("attention_prefill", (1, m, n, b, b, k, 0), "kv bfloat16") if m == n else None


def _in_bf16(operator: str, sizes: tuple[int, ...], variant: str) -> Mapped:
    return Mapped(operator=operator, dtype="bfloat16", dims=named(operator, sizes), variant=variant)


def transformers(tables: PublishedTables) -> list[Suite]:
    """NeuSight's five transformers in inference, each batch a member, with their measured steps. The clocks of small
    cards fall within a whole step, so their single operators say little of it."""
    steps = {(s.step, s.device): s for s in tables.steps if s.variant == "" and s.layers}
    members = []
    for key in sorted(tables.models, key=lambda k: (k.model, k.batch)):
        if key.mode != "inference" or key.model.startswith("switch"):
            continue
        layers = {s.layers for (step, _), s in steps.items() if step == key}
        if len(layers) == 1 and (count := layers.pop()):
            step_s = {device: s.time_s for (step, device), s in steps.items() if step == key}
            members.append(_transformer(key, tables.models[key], count, step_s))
    devices = tuple(sorted({d for m in members for d in (m.clean or ())}))
    return [Suite(number=2, name="transformers, fp32", members=tuple(members), devices=devices)] if members else []


OFF = (0.89, 1.12)
"""A device's operators of a model are clean if their sum ÷ the measured step lies between these."""


def _transformer(key: ModelKey, found: Sequence[ModelOperator], layers: int, step_s: Mapping[str, float]) -> Member:
    operators = [o for o in found if o.row.operator not in LAUNCHES_NOTHING]
    devices = {d for o in operators for d in o.row.time_s}
    sums = {d: sum(o.calls_with(layers) * o.row.time_s.get(d, 0.0) for o in operators) for d in devices}
    clean = frozenset(d for d in devices - SMALL_CARDS if d in step_s and OFF[0] <= sums[d] / step_s[d] <= OFF[1])
    return Member(
        name=f"{key.model}, batch {key.batch}",
        operators=tuple(Operator(row=o.row, calls=o.calls_with(layers)) for o in operators),
        step_s=step_s,
        clean=clean,
    )


def deepbench(tables: PublishedTables) -> list[Suite]:
    """One call of each product and convolution in fp32; and the same with recurrent layers."""
    rows = [r for r in tables.rows if r.source == "deepbench" and r.dtype == "float32" and r.variant != "inference"]
    plain = [r for r in rows if r.operator in ("gemm", "convolution")]
    layers = [r for r in rows if r.operator in ("rnn", "lstm", "gru")]
    suites = _once(3, "DeepBench, fp32", plain)
    return suites + (_once(3, "DeepBench with recurrent layers, fp32", plain, layers) if layers else [])


def _once(number: int, name: str, *parts: Sequence[TableRow]) -> list[Suite]:
    """One call of each row that all devices have. A device is left out if it lacks much of one part."""
    devices = set.intersection(*(_devices_with_most(part) for part in parts))
    operators = [Operator(row=r, calls=1.0) for part in parts for r in part if devices <= r.time_s.keys()]
    member = Member(name=name, operators=tuple(operators), step_s={})
    return [Suite(number=number, name=name, members=(member,), devices=tuple(sorted(devices)))] if operators else []


def _devices_with_most(rows: Sequence[TableRow]) -> set[str]:
    counts = Counter(device for row in rows for device in row.time_s)
    return {d for d, n in counts.items() if n >= LEAST_SHARE * max(counts.values())}


def convolutional_networks(tables: PublishedTables) -> list[Suite]:
    """Convolutions of ResNet-50 and VGG-16 forward and backward, FP32, one batch."""
    known = {r.key: r for r in tables.rows if r.source == "miopen" and r.dtype == "float32"}
    members = []
    for name, layers in (("ResNet-50", resnet50()), ("VGG-16", vgg16())):
        operators = []
        for sizes, calls in layers.items():
            for direction in DIRECTIONS:
                part = Mapped(operator="convolution", dtype="float32", dims=named("convolution", sizes), variant="NCHW",
                              direction=direction)  # fmt: skip
                if (row := known.get(part.row("miopen").key)) is not None:
                    operators.append(Operator(row=row, calls=calls))
        members.append(Member(name=name, operators=tuple(operators), step_s={}))
    rows = [o.row for m in members for o in m.operators]
    devices = tuple(sorted(_devices_with_most(rows)))
    return (
        [Suite(number=4, name="ResNet-50 and VGG-16, FP32", members=tuple(members), devices=devices)] if devices else []
    )


def resnet50() -> dict[tuple[int, ...], int]:
    """Convolutions (dims in the order of `words.CONVOLUTION`) and their counts (He et al. 2015, stride in the 3×3)."""
    found: Counter[tuple[int, ...]] = Counter({_conv(3, 224, 64, 7, 2): 1})
    channels, size = 64, 56
    for middle, blocks, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            found[_conv(channels, size, middle, 1, 1)] += 1
            found[_conv(middle, size, middle, 3, stride)] += 1
            found[_conv(middle, size // stride, 4 * middle, 1, 1)] += 1
            if block == 0:
                found[_conv(channels, size, 4 * middle, 1, stride)] += 1
            channels, size = 4 * middle, size // stride
    return dict(found)


def vgg16() -> dict[tuple[int, ...], int]:
    """Convolutions and their counts (Simonyan and Zisserman 2014, configuration D)."""
    found: Counter[tuple[int, ...]] = Counter()
    channels, size = 3, 224
    for out, layers in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(layers):
            found[_conv(channels, size, out, 3, 1)] += 1
            channels = out
        size //= 2
    return dict(found)


def _conv(channels: int, size: int, out: int, kernel: int, stride: int) -> tuple[int, ...]:
    pad = kernel // 2
    return (BATCH, channels, size, size, out, kernel, kernel, pad, pad, stride, stride, 1, 1, 1)


SUITES: dict[int, Callable[[PublishedTables], list[Suite]]] = {
    1: llm_serving, 2: transformers, 3: deepbench, 4: convolutional_networks,
}  # fmt: skip
