"""Workloads of images and volumes against published figures."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from published import IMAGES, check_figures, of_domains

from statsnet.workloads import Workload


@pytest.mark.parametrize("entry", of_domains(IMAGES))
def test_parameters_and_forward_flops_are_as_published(entry: Workload) -> None:
    check_figures(entry)
