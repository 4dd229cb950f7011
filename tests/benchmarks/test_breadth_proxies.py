"""Proxies of what a library holds: what becomes of a signature, and the summary."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import breadth_proxies
from benchmarks.breadth_proxies import ProxyRow
from statsnet.errors import MeasurementError
from statsnet.signatures.documents import FitSummary


def test_each_signature_becomes_a_proxy_or_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def synthesize(request: Any, options: Any) -> Any:
        if "odd" in request.mix_text:
            raise MeasurementError("no block can be measured", cause="there is no memory")
        assert (request.mix_text, options.mode) == ("kept/operators.tan.training.json:1", "training")
        return SimpleNamespace(fit=lambda: SimpleNamespace(summary=FitSummary(proxy_coverage=0.9)))

    monkeypatch.setattr(breadth_proxies, "synthesize", synthesize)
    made, failed = (breadth_proxies.made(Path(f"kept/operators.{name}.training.json")) for name in ("tan", "odd"))
    assert (made.case, made.proxy_coverage, made.reason) == ("operators.tan.training", 0.9, None)
    assert failed.reason is not None and "there is no memory" in failed.reason


def test_the_summary_has_the_medians_of_proxies_and_names_the_rest() -> None:
    rows = [ProxyRow(case=f"a.{share}", proxy_coverage=share) for share in (0.5, 1.0, 0.75)]
    assert breadth_proxies.summary([*rows, ProxyRow(case="b", reason="no")]) == [
        "3 of 4 signatures became proxies",
        "proxy_coverage: median 0.75, from 0.5 to 1",
        "b: no",
    ]
