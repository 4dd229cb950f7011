"""What a file tells, field by field, and what in it is not allowed at its level."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from statsnet.errors import StatsNetError
from statsnet.profiling.costs import cost_of
from statsnet.signatures.coarse import FEWEST_IN_A_MOTIF, MEMORY_STEP, UNTOLD
from statsnet.signatures.coarse_times import rounded_times
from statsnet.signatures.collectives import kind_of
from statsnet.signatures.data_counts import has_exact_count
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Cluster, Signature, Skew, round_autocast_share
from statsnet.signatures.order import canonical_order
from statsnet.signatures.privacy import assert_clean
from statsnet.signatures.rounding import binned_argument, half_octave, in_steps, is_binned_count, rounded, without_order

Arguments = Callable[[str, Sequence[Any]], list[Any]]
"""The arguments of an operator with its values made coarse (profiling.coarse_scalars)."""

_REVEALS: tuple[tuple[str, str], ...] = (
    (r"(kind|schema_version|level|aggregated|counts\.flops_per_multiply_add)$", "what kind of file it is"),
    (r"(id|.*\.signature|spec|subject\.id|network_sha256)$", "which file it is, as a hash of its content"),
    (r"(.*\.)?(environment|reference_environment)(\.|$)", "device, software and settings"),
    (r"workload\.|(.*\.)?members?(\[\])?$|.*members\[\]$|(mix|members)\[\]\.(name|preset)$|title$|notes$", "names"),
    (r"counts\.clusters\[\]\.(args|outputs)", "sizes, types and layouts of tensors; arguments of operators"),
    (r"counts\.clusters\[\]\.skew", "how unevenly embeddings are read"),
    (r"counts\.clusters\[\]\.autocast_share", "which operators work in lower precision under autocast"),
    (r"counts\.clusters\[\]\.(op|phase|category)", "which operators run"),
    (r"counts\.clusters\[\]\.|counts\.shape_variants", "how often, and how much work"),
    (r"counts\.motifs", "which operators follow each other"),
    (r"counts\.(memory|processes)|batch$|mix\[\]\.(batch|peak_bytes)", "sizes of the model, its inputs and its memory"),
    (r"measurements\[\]\.(kernels|kernel_class|gpu\.kernels)", "which kernels run, and for how long"),
    (r"measurements\[\]\.gpu\.(counters|power)", "what a GPU's counters and meters saw"),
    (r"measurements\[\]\.collectives", "how processes wait for each other"),
    (r"measurements|.*latency_s|budget_s|processes|proxy\.|characteristics|summary|rounds|validation|distributed",
     "times and rates"),
    (r"tried|front|chosen|usual", "designs that were tried: their sizes, times and errors"),
    (r"(mode|dtype|optimizer|mix\[\]\.optimizer|subject\.)", "how the model is run"),
    (r"mix\[\]\.weight|members\[\]\.weight", "weights of the mix"),
    (r"simulation\.(layers\[\]\.(unscaled|of_operator|macs_share)|left_out|suite_macs|predictions\[\]\..*_unscaled)",
     "layers of the mix: operators, sizes and shares of the work"),
    (r"towers|collectives|(.*\.)?simulation(\.|$)", "the network, which is derived from the mix"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """A field, wherever it stands in a file: what it reveals, how many values it has and how many bytes these take, and
    the first of them."""

    reveals: str
    field: str
    values: int
    bytes: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedFile:
    """One file: its kind and level, its fields by what they reveal, and what is not allowed in it. One that could not
    be audited has no rows, and its problems say why."""

    name: str
    kind: str
    level: str | None
    rows: tuple[AuditRow, ...]
    problems: tuple[str, ...]


def audited(name: str, data: Mapping[str, Any], problems: Sequence[str] = ()) -> AuditedFile:
    """Every field of a file of StatsNet."""
    level = data.get("level")
    return AuditedFile(
        name=name,
        kind=str(data.get("kind", "unknown")),
        level=level if isinstance(level, str) else None,
        rows=tuple(_rows(data)),
        problems=tuple(dict.fromkeys(problems)),
    )


def audited_key(name: str) -> AuditedFile:
    """The key of a private signature, which has no place in what is shared."""
    problem = "with it, this signature's ids in proxies can be computed: keep it to yourself"
    return AuditedFile(name=name, kind="the key of a signature", level=None, rows=(), problems=(problem,))


def problems_of_signature(signature: Signature, coarse: Arguments | None = None) -> list[str]:
    """What a signature tells that its level does not allow. `coarse` is how operators' arguments ought to look."""
    try:
        assert_clean(signature.to_dict())
        found = []
    except StatsNetError as error:
        found = [error.cause]
    clusters = signature.clusters
    for i, cluster in enumerate(clusters if coarse else ()):
        assert coarse is not None
        ought = coarse(cluster.op, cluster.args)
        if list(cluster.args) != (list(map(binned_argument, ought)) if signature.level == "coarse" else ought):
            found.append(f"counts.clusters[{i}].args: a value is exact that may only be told roughly ({cluster.op})")
    digits = 1 if signature.level == "coarse" else 2
    for i, cluster in enumerate(clusters):
        if cluster.skew is not None and not _is_rounded(cluster.skew, digits):
            found.append(f"counts.clusters[{i}].skew: it has more than {digits} digits")
        if cluster.autocast_share != round_autocast_share(cluster.autocast_share, signature.level):
            found.append(f"counts.clusters[{i}].autocast_share: it is more exact than its level allows")
    if signature.level == "full":
        return found
    if canonical_order(clusters) != list(range(len(clusters))):
        found.append("counts.clusters: they stand in an order that may be that of layers")
    for i, cluster in enumerate(clusters):
        if any(without_order(arg) != arg for arg in (*cluster.args, *cluster.outputs)):
            found.append(f"counts.clusters[{i}]: a list of tensors stands in an order that may be that of layers")
        if has_exact_count(cluster):
            found.append(f"counts.clusters[{i}]: a count that data decided is exact ({cluster.op})")
    kinds = [(kind_of(c.op), c.phase) for c in clusters]
    for i, known in enumerate(m.collectives for m in signature.measurements):
        if known is not None and known != known.without_order(kinds):
            found.append(f"measurements[{i}].collectives: places in the step tell the order of layers")
    return [*found, *(_not_coarse(signature) if signature.level == "coarse" else ())]


def _is_rounded(skew: Skew, digits: int) -> bool:
    shares = (skew.distinct_share, skew.top1pct_share)
    return all(share == rounded(share, digits) for share in shares) and skew.zipf == round(skew.zipf, 1)


def _not_coarse(signature: Signature) -> Iterator[str]:
    """Where a coarse signature has more digits than its level allows. An aggregate's counts and times are weighted sums
    of its members', which have no more."""
    is_sum = signature.aggregated is not None
    for i, cluster in enumerate(signature.clusters):
        place = f"counts.clusters[{i}]"
        if any(binned_argument(arg) != arg for arg in (*cluster.args, *cluster.outputs)):
            yield f"{place}: a size is exact"
        listed = (e["times"] for arg in (*cluster.args, *cluster.outputs) for e in _entries(arg) if "times" in e)
        if not all(map(is_binned_count, listed)):
            yield f"{place}: how many tensors a list holds is exact"
        if not (is_sum or is_binned_count(cluster.calls)):
            yield f"{place}.calls: a count is exact"
        if not _follows_from_sizes(cluster):
            yield f"{place}: its work is told more exactly than its sizes are"
    sizes = [getattr(signature.memory, name) for name in signature.memory.__slots__]
    if any(size is not None and size != in_steps(size, MEMORY_STEP) for size in sizes):
        yield "counts.memory: a size is exact"
    if any(getattr(signature.memory, name) is not None for name in UNTOLD):
        yield "counts.memory: a size is told that this level leaves out"
    whole = (signature.batch, signature.shape_variants, signature.processes)
    if any(n is not None and n != in_steps(n, 2) for n in whole):
        yield "batch, counts.shape_variants or counts.processes: a size is exact"
    for i, motif in enumerate(() if is_sum else signature.motifs):
        if not is_binned_count(motif.count) or (motif.count < FEWEST_IN_A_MOTIF and len(motif.clusters) > 1):
            yield f"counts.motifs[{i}]: it is rare, or counted exactly"
    if signature.inputs is not None:
        yield "counts.inputs: how many different inputs there were is told"
    for i, measurement in enumerate(signature.measurements):
        for name in _exact_fields(measurement, is_sum=is_sum):
            yield f"measurements[{i}].{name}: it tells more than a coarse signature does"


def _entries(arg: Any) -> list[dict[str, Any]]:
    """Of a list of tensors."""
    return [e for e in arg["tensors"] if e] if isinstance(arg, dict) and "tensors" in arg else []


def _follows_from_sizes(cluster: Cluster) -> bool:
    """Whether a cluster's FLOPs and bytes are those of its sizes, or a mean of several clusters in half octaves."""
    told = (cluster.flops, cluster.bytes_read, cluster.bytes_written)
    if all(value is None or value == half_octave(round(value)) for value in told):
        return True
    work = cost_of(cluster.op, cluster.args, cluster.outputs)
    ought = (work.flops, work.bytes_read, work.bytes_written) if work else (math.inf,) * 3
    return all(a is not None and math.isclose(a, b, rel_tol=1e-8) for a, b in zip(told, ought, strict=True))


OF_SUMS = frozenset(
    {"step_latency_s", "cluster_time_s", "launches", "framework_time_s", "idle_time_s", "unexplained_share",
     "coefficient_of_variation", "reference", "gpu"}
)  # fmt: skip
"""What an aggregate tells of a measurement with more digits than its members."""


def _exact_fields(measurement: Measurement, *, is_sum: bool) -> Iterator[str]:
    told, gpu = rounded_times(measurement, 1.0), measurement.gpu
    for name in (field.name for field in fields(measurement)):
        if getattr(measurement, name) != getattr(told, name) and not (is_sum and name in OF_SUMS):
            yield name
    if is_sum and gpu is not None and any(k.grid or k.block for k in gpu.kernels):
        yield "gpu.kernels"


PATH_OR_ADDRESS = re.compile(
    r"(^|[\s'\"(:,])(/|~/|\.\.?/|[A-Za-z]:\\)[\w.]|[\w.+-]{1,64}@[\w-]{1,64}\.\w|\w\.(json|py|yaml|yml|gz)\b"
)


def problems_of_texts(data: Mapping[str, Any]) -> list[str]:
    """Texts of a spec, a fit or a result that look like a path, a file's name or an address."""
    return [
        f"{field} says {value[:60]!r}, which looks like a path, a file or an address"
        for field, value in _leaves(data, "")
        if isinstance(value, str) and PATH_OR_ADDRESS.search(value)
    ]


def _rows(data: Mapping[str, Any]) -> list[AuditRow]:
    found: dict[str, list[Any]] = {}
    for field, value in _leaves(data, ""):
        found.setdefault(field, []).append(value)
    rows = [
        AuditRow(
            reveals=_reveals(field),
            field=field,
            values=len(values),
            bytes=sum(len(json.dumps(v)) for v in values),
            example=_example(values),
        )
        for field, values in found.items()
    ]
    order = [what for _, what in _REVEALS]
    return sorted(rows, key=lambda r: (order.index(r.reveals) if r.reveals in order else len(order), r.field))


def _leaves(value: Any, field: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{field}.{key}" if field else str(key))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _leaves(inner, f"{field}[]")
    else:
        yield field, value


def _reveals(field: str) -> str:
    return next((what for pattern, what in _REVEALS if re.match(pattern, field)), "other")


MOST_OF_EXAMPLE = 48


def _example(values: Sequence[Any]) -> str:
    """The first value that is known, cut so that a row of a table stays a line."""
    text = json.dumps(next((v for v in values if v is not None), None))
    return text if len(text) <= MOST_OF_EXAMPLE else f"{text[: MOST_OF_EXAMPLE - 1]}…"
