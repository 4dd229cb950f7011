"""Every domain that ships can be what a proxy is made from."""

from __future__ import annotations

import pytest

from statsnet.blocks import KINDS
from statsnet.signatures.database import MODES, ProfilesDB
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.target import target_of_mix
from statsnet.synthesis.budget import DEFAULT_COMPRESSION, budget_of
from statsnet.synthesis.candidates.candidates import candidates

DB = ProfilesDB()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("domain", DB.domains)
def test_there_are_blocks_for_it(domain: str, mode: str) -> None:
    target = target_of_mix(resolve_mix(f"{domain}:1", mode, DB), {})
    blocks = candidates(target, budget_s=budget_of(target, DEFAULT_COMPRESSION), limit=120)
    assert len(blocks) == 120
    for candidate in blocks:
        assert KINDS[candidate.kind].on_meta(candidate.config) is not None
