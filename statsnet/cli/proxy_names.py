"""What `statsnet synthesize` calls a proxy's folder, and what a proxy calls the files of its mix."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statsnet.synthesis.asked import Asked


def default_folder(asked: Asked, profiles: str | None) -> str:
    from statsnet.signatures.database import ProfilesDB
    from statsnet.signatures.mix import shared_names

    name = default_name(asked, shared_names(asked.mix, asked.mode, ProfilesDB(profiles)))
    return f"proxy-{name}{'-training' if asked.mode == 'training' else ''}"


def default_name(asked: Asked, shared: Mapping[str, str]) -> str:
    """What the default folder is called by: the short form, or the name in a mix's file. `shared` are the names of
    signature files' members: a folder that is passed on must not say what its owner calls them."""
    from statsnet.signatures.mix_file import is_mix_file
    from statsnet.signatures.mix_request import mix_requests, mix_slug

    in_file = is_mix_file(asked.mix)
    if in_file and (named := mix_slug(asked.name.replace("/", "-"))):
        return named
    if shared:
        return mix_slug(",".join(f"{shared.get(r.name, r.name)}:{r.weight:.3g}" for r in mix_requests(asked.mix)))
    return mix_slug(Path(asked.mix).stem if in_file else asked.mix) or "mix"


def called(mix: str, mode: str, profiles: str | None) -> list[str]:
    """What a proxy calls signature files whose names it must not tell. Only a terminal is told: logs are shared."""
    if not sys.stderr.isatty():
        return []
    from statsnet.signatures.database import ProfilesDB
    from statsnet.signatures.mix import shared_names

    names = shared_names(mix, mode, ProfilesDB(profiles))
    return [f"the proxy calls {file} {name}" for file, name in names.items() if "/" not in name]
