"""An audit as tables: for a terminal, as Markdown, and as a page for a reviewer's browser."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from statsnet.analysis.audit import AuditedFile, AuditRow
from statsnet.reporting.html import markup
from statsnet.reporting.html.page import page
from statsnet.reporting.tables import Report, line, notes, table

COLUMNS = ("what it reveals", "field", "example", "values", "bytes")


def audit_report(files: Sequence[AuditedFile]) -> Report:
    """A table for each file with what is not allowed in it, and the verdict last, where a terminal stops."""
    report: Report = []
    for file in files:
        report += [_table(file), *notes("not allowed:", file.problems)]
    return [*report, line(verdict(files))]


def audit_markdown(files: Sequence[AuditedFile]) -> str:
    """The same as Markdown."""
    return f"# Audit\n\n{markup.markdown(_from_the_top(files))}"


def audit_html(files: Sequence[AuditedFile]) -> str:
    """The same as one page that needs no other file."""
    return page("Audit", markup.html(_from_the_top(files)))


def _from_the_top(files: Sequence[AuditedFile]) -> Report:
    """The verdict, all that is not allowed, then the tables: in the order in which a page is read."""
    report: Report = [line(verdict(files))]
    for file in files:
        report += notes(f"not allowed in {file.name}:", file.problems)
    return [*report, *map(_table, files)]


def verdict(files: Sequence[AuditedFile]) -> str:
    """One sentence."""
    bad = [file.name for file in files if file.problems]
    if bad:
        return f"{len(bad)} of {len(files)} files hold what their level does not allow: {', '.join(bad)}"
    return "Every file holds only what its level allows." if len(files) > 1 else "It holds only what its level allows."


def _table(file: AuditedFile) -> Table:
    level = f", level {file.level}" if file.level else ""
    return table(f"{file.name}: {file.kind}{level}", COLUMNS, map(_cells, file.rows), left=3)


def _cells(row: AuditRow) -> tuple[str, ...]:
    return row.reveals, row.field, row.example, f"{row.values:,}", f"{row.bytes:,}"
