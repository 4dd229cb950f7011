"""The conformance check passes for sound workloads and says what is wrong with a bad one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from statsnet.errors import WorkloadError  # noqa: E402
from statsnet.workloads import register, registry  # noqa: E402
from statsnet.workloads.conformance import check_workload  # noqa: E402


@pytest.mark.parametrize("name", ["graph/gcn", "micro/deepbench_gemm"])
def test_reference_workloads_conform(name: str) -> None:
    """test_reference_workloads.py looks at every one in more detail."""
    check_workload(name)


def frozen(batch: int = 2) -> tuple[torch.nn.Module, torch.Tensor]:
    return torch.nn.Linear(3, 1), torch.full((batch, 3), float("nan"))


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"parameters": 5}, "it has 4 parameters, its row says 5"),
        ({"presets": {"tiny": {"depth": 3}}}, "does not take depth of preset tiny"),
        ({}, "an output is not finite"),
    ],
)
def test_a_bad_workload_is_told_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, object], cause: str
) -> None:
    monkeypatch.setattr(registry, "_workloads", dict(registry._workloads))
    row = {"name": "bad", "domain": "lab", "title": "", "source": "", "presets": {"tiny": {"batch": 1}}}
    register(frozen, **{**row, **fields})
    with pytest.raises(WorkloadError) as caught:
        check_workload("lab/bad")
    assert cause in caught.value.cause
