"""Workloads of all other domains against published figures."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from published import IMAGES, LANGUAGES, check_figures, of_domains

from statsnet.workloads import Workload, all_workloads


@pytest.mark.parametrize("entry", of_domains({e.domain for e in all_workloads()} - LANGUAGES - IMAGES))
def test_parameters_and_forward_flops_are_as_published(entry: Workload) -> None:
    check_figures(entry)
