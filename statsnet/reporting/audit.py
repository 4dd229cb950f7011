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
        report += [*_table(file), *_problems(file)]
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
        report += _problems(file, f" in {file.name}")
    return [*report, *(made for file in files for made in _table(file))]


def verdict(files: Sequence[AuditedFile]) -> str:
    """One sentence."""
    bad = [file.name for file in files if file.problems and file.rows]
    unknown = [file.name for file in files if not file.rows]
    found = []
    if bad:
        found.append(f"{len(bad)} of {len(files)} files hold what their level does not allow: {', '.join(bad)}")
    if unknown:
        found.append(f"{len(unknown)} of {len(files)} files could not be audited: {', '.join(unknown)}")
    if found:
        return "; ".join(found)
    return "Every file holds only what its level allows." if len(files) > 1 else "It holds only what its level allows."


def _problems(file: AuditedFile, where: str = "") -> Report:
    return notes(f"not allowed{where}:" if file.rows else f"not audited: {file.name}", file.problems)


def _table(file: AuditedFile) -> list[Table]:
    """None for a file that could not be audited."""
    level = f", level {file.level}" if file.level else ""
    made = table(f"{file.name}: {file.kind}{level}", COLUMNS, map(_cells, file.rows), left=3)
    return [made] if file.rows else []


def _cells(row: AuditRow) -> tuple[str, ...]:
    return row.reveals, row.field, row.example, f"{row.values:,}", f"{row.bytes:,}"
