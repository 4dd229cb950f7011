"""An HTML page that needs nothing but itself: no request leaves it, so it opens from a mail and from a disk.

Light and dark follow the reader's system. Below 600 pixels tables scroll inside their boxes; in print all is open and
light.
"""

from __future__ import annotations

from html import escape

from statsnet.errors import shown

STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --card: #f6f8fa; --edge: #d0d7de; --text: #1f2328; --grey: #59636e;
  --link: #0969da; }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --card: #161b22; --edge: #30363d; --text: #e6edf3;
  --grey: #9198a1; --link: #4493f8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 1200px; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", Helvetica, Arial, sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: .5rem 0; } h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; } h3 { font-size: 1.05rem; }
a { color: var(--link); } nav ul { columns: 20rem; padding-left: 1.2rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
caption { text-align: left; font-weight: 600; padding: .25rem 0; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--edge); vertical-align: top; }
th { color: var(--grey); font-weight: 500; } .n { text-align: right; white-space: nowrap; }
.pairs td:first-child { color: var(--grey); white-space: nowrap; } .pairs td { border: 0; overflow-wrap: anywhere; }
figure { margin: 1rem 0; padding: .75rem; background: var(--card); border: 1px solid var(--edge); border-radius: 6px;
  overflow: hidden; }
figcaption { font-weight: 600; } figure small { display: block; color: var(--grey); font-weight: 400; }
details summary { cursor: pointer; color: var(--link); font-size: .9rem; }
.towers { display: flex; flex-wrap: wrap; gap: .6rem; margin: .6rem 0; }
.tower > div { display: flex; flex-wrap: wrap; gap: 4px; }
.block { padding: .1rem .45rem; border: 1px solid; border-left-width: 5px; border-radius: 4px; font-size: .8rem;
  background: var(--page); } section > details > summary { font-size: 1rem; }
.notes { font-weight: 600; margin-bottom: 0; } .notes + ul { margin-top: .25rem; }
.command { display: flex; gap: .5rem; align-items: flex-start; } .command code { flex: 1; padding: .4rem .6rem;
  background: var(--card); border: 1px solid var(--edge); border-radius: 6px; font-size: .85rem; }
button { font: inherit; font-size: .85rem; padding: .3rem .7rem; color: var(--text); background: var(--card);
  border: 1px solid var(--edge); border-radius: 6px; cursor: pointer; }
@media (max-width: 600px) { body { padding: .6rem; font-size: 14px; }
  .pairs td:first-child { white-space: normal; overflow-wrap: normal; }
  figure { padding: .4rem; } }
@media print { :root { color-scheme: light; --page: #ffffff; --card: #ffffff; --edge: #bbbbbb; --text: #000000;
  --grey: #444444; --link: #000000; } body { max-width: none; } button, nav, summary { display: none; }
  figure, tr { break-inside: avoid; } .wide { overflow: visible; } }
"""

FRAGMENT_STYLE = """
.statsnet { overflow-wrap: anywhere; } .statsnet .wide { overflow-x: auto; margin: .5rem 0; }
.statsnet table { border-collapse: collapse; border: 0; margin: 0; color: inherit; font-variant-numeric: tabular-nums; }
.statsnet caption { caption-side: top; text-align: left; font-weight: 600; padding: .25rem 0; color: inherit; }
.statsnet th, .statsnet td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border: 0;
  border-bottom: 1px solid rgba(128, 128, 128, .35); color: inherit; }
.statsnet th { font-weight: 500; opacity: .75; } .statsnet .n { text-align: right; white-space: nowrap; }
.statsnet .pairs td { border: 0; } .statsnet .pairs td:first-child { opacity: .75; white-space: nowrap; }
.statsnet .notes { font-weight: 600; margin-bottom: 0; } .statsnet summary { cursor: pointer; }
.statsnet svg { max-width: 100%; height: auto; }
"""
"""Takes the colours of the page around it: a notebook's theme need not be that of the reader's system."""

COPY = """
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.addEventListener("click", () => {
    const field = document.createElement("textarea");
    field.value = button.dataset.copy;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
    button.textContent = "copied";
  });
}
"""
"""`navigator.clipboard` is not there for a page from a disk."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
"""Tells the browser to refuse every request: for a page from a disk, too."""


def as_html(text: str) -> str:
    """A text from a file, escaped."""
    return escape(shown(text))


def page(title: str, body: str, *, scripts: str = "") -> str:
    """A whole page. `body` and `scripts` are HTML; `title` is text."""
    copy = f"<script>{COPY}</script>" if "<button" in body else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{body}
{scripts}
{copy}
</body>
</html>
"""


def fragment(body: str) -> str:
    """A part of another page, such as the output of a notebook's cell. Its style reaches nothing else there."""
    return f'<div class="statsnet"><style>{FRAGMENT_STYLE}</style>\n{body}\n</div>'


def command(text: str) -> str:
    """The command that made something, with a button that copies it."""
    return (
        f'<p class="command"><code>{escape(text)}</code>'
        f'<button type="button" data-copy="{escape(text)}">copy</button></p>'
    )
