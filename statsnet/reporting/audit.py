"""An audit as tables: for a terminal, as Markdown, and as a page for a reviewer's browser."""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import groupby

from statsnet.analysis.audit import AuditedFile, AuditRow
from statsnet.errors import shown
from statsnet.reporting.tables import Report, line, notes, table

COLUMNS = ("what it reveals", "field", "example", "values", "bytes")


def audit_report(files: Sequence[AuditedFile]) -> Report:
    """A table and a verdict for each file."""
    report: Report = []
    for file in files:
        report.append(table(_title(file), COLUMNS, map(_cells, file.rows), left=3))
        report += notes("not allowed:", file.problems)
    return [*report, line(verdict(files))]


def verdict(files: Sequence[AuditedFile]) -> str:
    """One sentence."""
    bad = [file.name for file in files if file.problems]
    if bad:
        return f"{len(bad)} of {len(files)} files hold what their level does not allow: {', '.join(bad)}"
    return "Every file holds only what its level allows." if len(files) > 1 else "It holds only what its level allows."


def audit_markdown(files: Sequence[AuditedFile]) -> str:
    """The same as Markdown."""
    parts = ["# Audit", "", _escaped(verdict(files)), ""]
    for file in files:
        parts += [f"## {_escaped(_title(file))}", ""]
        parts += [f"- **Not allowed:** {_escaped(problem)}" for problem in file.problems]
        parts += ["", f"| {' | '.join(COLUMNS)} |", "|---|---|---|---:|---:|"]
        parts += [f"| {' | '.join(_escaped(cell) for cell in _cells(row))} |" for row in file.rows] + [""]
    return "\n".join(parts)


def audit_html(files: Sequence[AuditedFile]) -> str:
    """The same as one page that needs no other file."""
    body = [f"<h1>Audit</h1><p>{html.escape(verdict(files))}</p>"]
    for file in files:
        body.append(f"<h2>{html.escape(shown(_title(file)))}</h2>")
        body += [f"<p class=bad>Not allowed: {html.escape(shown(problem))}</p>" for problem in file.problems]
        head = "".join(f"<th>{column}</th>" for column in COLUMNS)
        body.append(f"<table><tr>{head}</tr>")
        for reveals, rows in groupby(file.rows, key=lambda row: row.reveals):
            same = list(rows)
            first = f"<td rowspan={len(same)}>{html.escape(reveals)}</td>"
            for number, row in enumerate(same):
                cells = "".join(f"<td>{html.escape(shown(cell))}</td>" for cell in _cells(row)[1:])
                body.append(f"<tr>{first if not number else ''}{cells}</tr>")
        body.append("</table>")
    return f"<!doctype html><meta charset=utf-8><title>Audit</title><style>{_STYLE}</style>{''.join(body)}\n"


_STYLE = (
    "body{font:15px sans-serif;max-width:70em;margin:2em auto;padding:0 1em}table{border-collapse:collapse}"
    "td,th{border:1px solid #ccc;padding:.2em .5em;text-align:left;vertical-align:top;overflow-wrap:anywhere}"
    ".bad{color:#b00020;font-weight:bold}"
)


def _title(file: AuditedFile) -> str:
    level = f", level {file.level}" if file.level else ""
    return f"{file.name}: {file.kind}{level}"


def _cells(row: AuditRow) -> tuple[str, ...]:
    return row.reveals, row.field, row.example, f"{row.values:,}", f"{row.bytes:,}"


def _escaped(text: str) -> str:
    """Text in a cell of Markdown."""
    return html.escape(shown(text).replace("\n", " ")).replace("|", "\\|").replace("`", "'")
