"""`statsnet doctor`."""

from __future__ import annotations

import json
from collections.abc import Callable

from cli_support import Cli


def test_doctor_as_a_table_and_as_json(cli: Cli) -> None:
    done = cli("doctor", "--noise-time", "50ms")
    assert done.returncode == 0, done.stderr
    assert "This machine" in done.stdout
    assert "noise now" in done.stdout
    data = json.loads(cli("doctor", "--no-noise", "--json").stdout)
    assert data["noise"] is None
    assert {"torch", "threads", "quota"} <= {each["name"] for each in data["findings"]}


def test_what_doctor_refuses(failing: Callable[..., str]) -> None:
    assert "is not a duration" in failing("doctor", "--noise-time", "long", code=2)
