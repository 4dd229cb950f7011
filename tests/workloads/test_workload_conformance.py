"""The conformance check passes for every reference workload and says what is wrong with a bad one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from statsnet.errors import WorkloadError  # noqa: E402
from statsnet.workloads import names, register, registry  # noqa: E402
from statsnet.workloads.conformance import check_workload  # noqa: E402


@pytest.mark.parametrize("domain", registry.domains())
def test_reference_workloads_conform(domain: str) -> None:
    """One of each domain; test_reference_workloads.py looks at every one in more detail."""
    check_workload(names(f"{domain}/*")[0])


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
