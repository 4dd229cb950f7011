"""What a step's time in oneDNN goes into."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import conv2d

from benchmarks.diagnostics.onednn_primitives import primitives_s, step_times_s

LOG = """onednn_verbose,v1,info,oneDNN v3.7.1 (commit 1)
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::a,,,16x64x3x3,0.25
onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx2,forward_inference,src:f32::a,,alg:direct,mb1,2.0
said by the model, not by the library
onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx2,forward_inference,src:f32::a,,alg:direct,mb1,1.5
onednn_verbose,v1,primitive,exec,cpu,reorder,simple:any,undef,src:f32::a,,,16x64x3x3,0.75
"""


def test_times_add_up_by_primitive_and_implementation() -> None:
    times = primitives_s(LOG)
    assert times.keys() == {"reorder", "convolution jit:avx2"}
    assert times["reorder"] == (2, pytest.approx(1e-3))
    assert times["convolution jit:avx2"] == (2, pytest.approx(3.5e-3))


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")
def test_a_convolution_is_found_in_the_log() -> None:
    x, weight = torch.randn(4, 16, 32, 32), torch.randn(32, 16, 3, 3)
    times = step_times_s(lambda: conv2d(x, weight), 3)
    (name,) = (n for n in times if n.startswith("convolution "))
    calls, seconds = times[name]
    assert calls == 1.0
    assert seconds > 0.0
