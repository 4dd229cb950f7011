"""What mkdocs does to a page before it becomes HTML (see mkdocs.yml)."""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<path>\.\./[^)\s#]*)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to files outside docs/ become text that names the file: the site does not have them."""
    folder = posixpath.dirname(page.file.src_uri)

    def as_text(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link["path"]))
        if not path.startswith("../"):
            return link[0]
        name = path.removeprefix("../")
        return f"`{name}`" if link["text"].strip("`") == name else f"{link['text']} (`{name}`)"

    return LINK.sub(as_text, markdown)
