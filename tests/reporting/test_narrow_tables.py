"""On a narrow terminal a table's rows stand one below the other, and no figure breaks."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from statsnet.reporting.narrow import fitted
from statsnet.reporting.tables import pairs, table

NAME = "convolution|mkl:sgemm|float32|contiguous"
WIDE = table("Factors", ("class", "suite's factor", "95 % interval"), [(NAME, "2.541×", "+98.9% to +111.8%")])


def drawn(width: int) -> str:
    console = Console(file=io.StringIO(), width=width, record=True, markup=False, highlight=False)
    console.print(fitted(WIDE, width))
    return console.export_text()


def test_where_it_fits_it_is_a_table() -> None:
    assert fitted(WIDE, 100) is WIDE
    assert fitted(pairs("x", [("a" * 90, "b")]), 20) is not None
    assert fitted(text := Text("x" * 100), 20) is text


def test_a_name_breaks_before_the_table_does() -> None:
    assert fitted(WIDE, 45) is WIDE
    assert "2.541×" in drawn(45)


@pytest.mark.parametrize("width", [20, 30, 35])
def test_rows_stand_one_below_the_other(width: int) -> None:
    lines = drawn(width).splitlines()
    assert lines[0].strip() == "Factors"
    assert any("suite's factor:" in line for line in lines)
    assert any("2.541×" in line for line in lines)
    assert max(map(len, lines)) <= width


def test_a_table_without_rows_or_columns() -> None:
    assert isinstance(fitted(table("empty", ("a very long head", "another"), []), 5), Text)
    assert fitted(table("", (), []), 5)
