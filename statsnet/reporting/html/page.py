"""An HTML page that needs nothing but itself: no request leaves it, so it opens from a mail and from a disk.

Light and dark follow the reader's system. Below 600 pixels tables scroll inside their boxes; in print all is open and
light.
"""

from __future__ import annotations

from html import escape
from importlib import resources

from statsnet.errors import shown

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
"""Tells the browser to refuse every request: for a page from a disk, too."""


def beside(name: str) -> str:
    """The text of a style or a script that lies beside this file."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def as_html(text: str) -> str:
    """A text from a file, escaped."""
    return escape(shown(text))


def page(title: str, body: str, *, scripts: str = "") -> str:
    """A whole page. `body` and `scripts` are HTML; `title` is text."""
    copy = f"<script>\n{beside('copy.js')}</script>" if "<button" in body else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{as_html(title)}</title>
<style>
{beside("page.css")}</style>
</head>
<body>
<h1>{as_html(title)}</h1>
{body}
{scripts}
{copy}
</body>
</html>
"""


def fragment(body: str) -> str:
    """A part of another page, such as the output of a notebook's cell. Its style reaches nothing else there, and
    takes the colours of the page around it: a notebook's theme need not be that of the reader's system."""
    return f'<div class="statsnet"><style>\n{beside("fragment.css")}</style>\n{body}\n</div>'


def command(text: str) -> str:
    """The command that made something, with a button that copies it; not by `navigator.clipboard`, which is not there
    for a page from a disk."""
    return (
        f'<p class="command"><code>{as_html(text)}</code>'
        f'<button type="button" data-copy="{as_html(text)}">copy</button></p>'
    )
