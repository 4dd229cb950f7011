"""`statsnet device`, and making a proxy for a device that is not here; recording is tested with synthesis."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cli_support import GOLDEN, Cli, read
from device_tables import gemm_rows, plain_table, write_table


@pytest.fixture
def profiles(here: Path) -> str:
    """A database with one profile, that of the golden signature."""
    data = read(GOLDEN)
    folder = here / "db" / "nvidia-z80-torch2.11" / data["workload"]["domain"]
    folder.mkdir(parents=True)
    shutil.copy(GOLDEN, folder / f"{data['workload']['name']}.{data['mode']}.json")
    return "db"


def test_what_is_known_of_a_device(cli: Cli, profiles: str) -> None:
    shown = cli("device", "show", "z80", "--profiles", profiles)
    assert shown.returncode == 0, shown.stderr
    for text in ("A recorded device", "peak reached", "shortest call", "between two"):
        assert text in shown.stdout
    again = cli("device", "show", f"recorded:{GOLDEN}")
    assert again.stdout == shown.stdout


def test_a_device_that_nobody_recorded(failing: Callable[..., str], profiles: str) -> None:
    mix = f"{read(GOLDEN)['workload']['domain']}:1"
    options = ["--mode", read(GOLDEN)["mode"], "--profiles", profiles]
    for command in (["device", "show", "h200", *options[2:]],
                    ["synthesize", "--mix", mix, *options, "--device", "recorded:h200"]):  # fmt: skip
        message = failing(*command, code=2)
        assert "names no recorded device" in message
        assert "nvidia-z80-torch2.11" in message


@pytest.mark.parametrize("more", [["--fresh"], ["--trials", "3"]])
def test_nothing_is_measured_on_a_recorded_device(failing: Callable[..., str], profiles: str, more: list[str]) -> None:
    mix = f"{read(GOLDEN)['workload']['domain']}:1"
    options = ["--mode", read(GOLDEN)["mode"], "--profiles", profiles, "--device", "recorded:z80"]
    assert "not here" in failing("synthesize", "--mix", mix, *options, *more, code=2)


@pytest.mark.parametrize("command", [["run", "x"], ["validate", "x"], ["device", "record"]])
def test_nothing_runs_on_one(failing: Callable[..., str], command: list[str]) -> None:
    assert failing(*command, "--device", "recorded:z80", code=2)


def test_a_record_needs_profiles(failing: Callable[..., str], here: Path) -> None:
    (here / "empty").mkdir()
    message = failing("device", "record", "--profiles", "empty", "-o", "record.json", code=1)
    assert "nothing to record" in message
    assert not (here / "record.json").exists()


def test_a_record_from_tables(cli: Cli, here: Path, failing: Callable[..., str]) -> None:
    """Two folders hold one device's operators; the record is found by a part of its name, or as a file. Another
    device's times are in another unit: it alone is refused."""
    lines = plain_table(gemm_rows(40)).splitlines()
    write_table(here / "a", "t.csv", "\n".join(lines[:20]) + "\n")
    write_table(here / "b", "t.csv.gz", "\n".join([lines[0], *lines[20:]]) + "\n")
    slow = [replace(r, time_s={d: 1e3 * t for d, t in r.time_s.items()}) for r in gemm_rows(400, device="nvidia-v100")]
    write_table(here / "a", "other.csv", plain_table(slow))
    target = "db/devices/acme-one.json.gz"
    made = cli("device", "import", "a", "b", "--device", "acme one", "-o", target)
    assert made.returncode == 0, made.stderr
    assert "times of nvidia-v100 in" in made.stderr, "which nobody asked for"
    refused = failing("device", "import", "a", "--device", "v100", "-o", "v100.json", code=1)
    assert "not in the unit" in refused and "convert the table" in refused
    assert not (here / "v100.json").exists()
    assert "40 measured" in made.stdout and "gemm" in made.stdout and "no table has" in made.stdout
    shown = cli("device", "show", "acme", "--profiles", "db")
    assert shown.stdout == cli("device", "show", target).stdout
    assert shown.stdout.strip() == made.stdout.split("\nwritten to")[0].strip()
    listed = cli("device", "list", "--profiles", "db")
    assert "acme-one" in listed.stdout
    (row,) = json.loads(cli("device", "list", "--profiles", "db", "--json").stdout)["records"]
    assert (row["device"], row["operators"], row["measured"]) == ("acme-one", ["gemm"], 40)
    told = failing("device", "import", "a", "--device", "z80", code=2)
    assert "names no measured device" in told and "known: acme-one" in told and "one of these names" in told


def test_a_record_from_a_signature_and_a_table(cli: Cli, here: Path, failing: Callable[..., str]) -> None:
    table = write_table(here, "t.csv", plain_table(gemm_rows(40)))
    made = cli("device", "import", str(GOLDEN), str(table), "--device", "acme one", "-o", "r.json.gz")
    assert made.returncode == 0, made.stderr
    assert "taken to be acme-one" in made.stderr
    assert "recorded exactly" in made.stdout and "42 measured" in made.stdout
    assert "is not there" in failing("device", "import", "no.json", "--device", "acme", code=2)


def test_a_dtype_is_for_devices_that_tables_recorded(failing: Callable[..., str]) -> None:
    message = failing("synthesize", "--mix", "llm:1", "--dtype", "bfloat16", code=2)
    assert "device that is here" in message and "statsnet profile" in message


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("a,b\n1,2\n", 1, "no table of operators"),
        ("operator,dtype,device,time_us,m,n\ngemm,fp32,z80,5,1,1\n", 2, "gemm lacks k"),
        ("operator,dtype,device,time_us,m,n,k\ngemm,fp32,z80,0,1,1,1\n", 2, "zero, negative"),
        ("operator,dtype,device,time_us,m,n,k\ngemm,fp32,z80,5,1,1,1\n", 2, "too few"),
        ("operator,dtype,device,time_s,m,n,k\ngemm,fp32,z80,4e6,4096,4096,4096\n", 1, "not in the unit"),
        (
            "operator,dtype,device,time_us,m,n,k\n"
            + "".join(f"gemm,fp32,z80,0.0005,4096,4096,{k}\n" for k in range(4096, 4126)),
            1,
            "30 of 30 times are shorter than any device could be",
        ),
    ],
)
def test_tables_that_make_no_record(
    here: Path, failing: Callable[..., str], text: str, code: int, message: str
) -> None:
    write_table(here, "t.csv", text)
    failed = failing("device", "import", "t.csv", "--device", "z80", "-o", "r.json", code=code)
    assert message in failed
    assert not (here / "r.json").exists()
