"""The coverage table of the published suites, against the registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference_workloads.coverage import TASKS, document
from statsnet.workloads import all_workloads, get
from statsnet.workloads.registry import SUITES

ROOT = Path(__file__).parents[2]


def test_the_document_is_what_the_registry_says() -> None:
    assert (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8") == document()


@pytest.mark.parametrize("suite", SUITES)
def test_a_suites_tasks_are_those_that_are_tagged_with_it(suite: str) -> None:
    tagged = {entry.full_name for entry in all_workloads() if entry.builtin and suite in entry.tags}
    assert {name for _, name in TASKS[suite]} == tagged
    for _, name in TASKS[suite]:
        assert (ROOT / get(name).address.partition(":")[0].replace(".", "/")).with_suffix(".py").is_file()
