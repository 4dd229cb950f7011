"""Any signature is the same after it was written and read."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from statsnet.signatures.canonical import canonical_json
from statsnet.signatures.gpu import COUNTERS, WHY_MISSING, Counters, GpuActivity, GpuKernel, Power
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Cluster, Memory, Motif, Signature, Skew, WorkloadName
from statsnet.signatures.storage import validate
from statsnet.signatures.tensor_lists import flatten_arguments

sizes = st.integers(0, 2**62)
seconds = st.floats(1e-9, 1e9)
quantities = st.integers(0, 2**62) | st.floats(0, 1e30)
shares = st.floats(0, 1)
words = st.sampled_from(["a", "small", "float32", "x-1.0_b"])
texts = st.sampled_from(["mean", "sum", "-inf"])
tensors = st.lists(sizes, max_size=4).flatmap(
    lambda shape: st.fixed_dictionaries(
        {"shape": st.just(shape), "dtype": st.sampled_from(["float32", "bfloat16", "int64"])},
        optional={"strides": st.lists(sizes, min_size=len(shape), max_size=len(shape)), "high": sizes},
    )
)
groups = st.fixed_dictionaries(
    {"tensors": st.lists(st.none() | tensors, min_size=1, max_size=3), "times": st.integers(1, 4)}
)
lists_of_tensors = st.fixed_dictionaries({"tensors": st.lists(st.none() | tensors | groups, max_size=6)})
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e300, 1e300) | texts
arguments = st.recursive(scalars | tensors | lists_of_tensors, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
flat = st.lists(arguments, max_size=3).map(lambda args: tuple(flatten_arguments(args)))
outputs = flat.map(lambda args: tuple(a for a in args if a is None or isinstance(a, dict)))
clusters = st.builds(
    Cluster, op=st.just("aten.mm.default"), phase=st.just("forward"), category=words, calls=st.floats(1e-9, 1e12),
    args=flat, outputs=outputs, flops=st.none() | quantities, bytes_read=st.none() | quantities,
    skew=st.none() | st.builds(Skew, distinct_share=shares, top1pct_share=shares, zipf=st.floats(0, 100)),
)  # fmt: skip
environments = st.fixed_dictionaries(
    {"device": st.just("cuda"), "device_name": st.text(max_size=120)},
    optional={"threads": st.none() | sizes, "isa": st.lists(words, max_size=2), "settings": st.just({"A": "b"}),
              "gpu": st.none() | st.just({"cudnn": None})},
)  # fmt: skip


def tuples(values: st.SearchStrategy[Any], count: int | None = None) -> st.SearchStrategy[Any]:
    return st.lists(values, min_size=count or 0, max_size=4 if count is None else count).map(tuple)


def activities(count: int) -> st.SearchStrategy[GpuActivity]:
    dims = st.none() | st.tuples(sizes, sizes, sizes)
    kernels = st.builds(
        GpuKernel, cluster=st.none() | st.integers(0, count - 1) if count else st.none(), family=words, grid=dims,
        block=dims, launches=st.integers(1, 9), time_s=seconds,
    )  # fmt: skip
    missing = st.dictionaries(st.sampled_from(COUNTERS), st.sampled_from(WHY_MISSING), max_size=2)
    histograms = tuples(st.tuples(st.integers(-100, 100), quantities))
    counters = st.builds(
        Counters, tool=st.none() | words, missing=missing,
        clusters=st.dictionaries(st.sampled_from(COUNTERS), tuples(st.none() | quantities, count), max_size=2),
    )  # fmt: skip
    power = st.builds(Power, power_w=st.none() | quantities, throttled=st.sampled_from([None, (), ("power_cap",)]),
                      missing=missing)  # fmt: skip
    return st.builds(
        GpuActivity, busy_time_s=seconds, streams=st.integers(0, 9), kernels=tuples(kernels), power=power,
        duration_log2_us=histograms, gap_log2_us=histograms, counters=counters,
    )  # fmt: skip


@st.composite
def signatures(draw: st.DrawFn) -> Signature:
    operators = draw(tuples(clusters))
    count = len(operators)
    measurements = st.builds(
        Measurement, environment=environments, step_latency_s=tuples(seconds), warmup_latency_s=tuples(seconds),
        profiled_latency_s=tuples(seconds), cluster_time_s=tuples(st.none() | seconds, count),
        kernels=tuples(st.none() | words, count), kernel_class=tuples(st.none() | words, count), launches=quantities,
        framework_time_s=st.none() | quantities, idle_time_s=st.none() | quantities,
        unexplained_share=st.none() | st.floats(-1, 1), coefficient_of_variation=st.none() | quantities,
        source=st.sampled_from(["profile", "replay"]), gpu=st.none() | activities(count),
    )  # fmt: skip
    indices = st.integers(0, max(0, count - 1))
    motifs = st.builds(Motif, clusters=tuples(indices, 2), count=st.floats(1e-3, 1e12))
    made = st.builds(
        Signature, mode=st.sampled_from(["inference", "training"]), dtype=words, clusters=st.just(operators),
        memory=st.builds(Memory, parameter_count=sizes, parameter_bytes=sizes, buffer_bytes=sizes, input_bytes=sizes,
                         optimizer_bytes=st.none() | sizes, peak_bytes=st.none() | sizes),
        batch=st.none() | st.integers(1, 10**9), optimizer=st.none() | words,
        workload=st.none() | st.builds(WorkloadName, domain=words, name=words, preset=st.sampled_from([None, "", "a"])),
        motifs=tuples(motifs) if count else st.just(()), measurements=tuples(measurements),
    )  # fmt: skip
    return draw(made)


@given(signatures())
@settings(max_examples=60, phases=[Phase.reuse, Phase.generate])  # shrinking takes minutes
def test_a_signature_is_the_same_after_writing_and_reading(signature: Signature) -> None:
    data = signature.to_dict()
    assert Signature.from_dict(data) == Signature.from_dict(json.loads(json.dumps(data))) == signature
    text = canonical_json(data)
    read = validate(json.loads(text), "statsnet.signature")
    assert canonical_json(read.to_dict()) == text
    assert read.id == signature.id
