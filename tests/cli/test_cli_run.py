"""`statsnet run` and `statsnet validate` on a small proxy folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_support import Cli, member, read, write_proxy

from statsnet.signatures.storage import load_document, load_signature

QUICK = ("--min-time", "20ms", "--max-time", "100ms")


def test_run_and_show_its_result(cli: Cli, here: Path) -> None:
    write_proxy(here / "p")
    done = cli("run", "p", "--processes", "2", "--threads", "1", "--json", "r.json", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "in 2 processes" in done.stdout
    assert "250 ms on Z80" in done.stdout
    assert done.stderr.startswith("the proxy, round")
    result = load_document(here / "r.json", "statsnet.result")
    assert len(result["processes"]) == 2
    assert "step time" in cli("show", "r.json").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["run", "nothing"], 2, "there is no such folder"),
        (["run", "empty"], 2, "it has no network.py"),
        (["run", "p", "--json=empty"], 2, "'empty' is a folder"),
        (["run", "p", "--device", "tpu"], 2, "'tpu' is not a device"),
        (["validate", "p", "--settings", "thread=1"], 2, "did you mean threads"),
        (["validate", "p"], 2, "the member 'cv/x' cannot be measured"),
        (["validate", "p", "--settings", "threads=1", "--resume", "-"], 2, "'-' was given for --resume"),
        (["validate", "p", "--resume", "x"], 2, "give --settings"),
        (["validate", "p", "--max-time", "1s"], 2, "give --settings, or leave out --max-time"),
        (["validate", "p", "--profiles", "nothing"], 2, "there is no folder 'nothing'"),
    ],
)
def test_what_can_not_be_run(
    failing: Callable[..., str], here: Path, arguments: list[str], code: int, text: str
) -> None:
    write_proxy(here / "p")
    (here / "empty").mkdir()
    message = failing(*arguments, code=code)
    assert text in message, message
    assert "try:" in message


def test_cuda_where_there_is_none(failing: Callable[..., str], here: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    write_proxy(here / "p")
    assert "no CUDA device" in failing("run", "p", "--device", "cuda", code=1)


def test_a_network_that_fails(failing: Callable[..., str], here: Path) -> None:
    write_proxy(here / "p")
    with open(here / "p" / "network.py", "a") as file:
        file.write("\nraise MemoryError('no room')\n")
    message = failing("run", "p", "--trust", code=1)
    assert "runs as a program of whoever wrote it" in message
    assert "measuring the proxy failed" in message
    assert "no room" in message


def test_code_that_was_put_into_a_network_does_not_run(cli: Cli, here: Path) -> None:
    write_proxy(here / "p", member("ncf", 1.0) | {"name": "recsys/ncf", "preset": "tiny", "batch": 8})
    network = here / "p" / "network.py"
    network.write_text(f"open({str(here / 'executed')!r}, 'w')\n{network.read_text()}")
    done = cli("validate", "p", "--rounds", "1", "--min-time", "20ms")
    assert done.returncode == 0, done.stderr
    assert "is not what spec.json describes, so it is not run" in done.stderr
    assert not (here / "executed").exists()


def test_validate_a_model_and_a_replay(cli: Cli, here: Path, model: str) -> None:
    done = cli("profile", f"{model}:make", "-o", "db/own.json", "--min-time", "20ms")
    assert done.returncode == 0, done.stderr
    own = load_signature(here / "db" / "own.json").id
    write_proxy(
        here / "p",
        member("recsys/ncf", 0.5, preset="tiny", batch=8),
        member("signature-12345678", 0.5, own),
    )
    done = cli("validate", "p", "--profiles", "db", "--rounds", "1", "--min-time", "20ms", "--json", "v.json")
    assert done.returncode == 0, done.stderr
    result = load_document(here / "v.json", "statsnet.result")
    assert [m["evidence"] for m in result["members"]] == ["model", "replay"]
    fit = result["validation"]["fit"]
    assert fit["compression"] == pytest.approx(fit["suite_latency_s"] / fit["proxy_latency_s"])
    rows = {(row["group"], row["name"]): row for row in fit["characteristics"]}
    assert rows["category", "convolution"]["target"] == 0
    assert rows["category", "convolution"]["achieved"] > 0.5
    assert rows["rate", "flops_per_s"]["noise"] is None
    assert "weaker evidence" in done.stdout
    assert "made in another environment" in done.stdout
    assert cli("show", "v.json").stdout.strip() == done.stdout.partition("\nwritten to")[0].strip()


def test_validate_under_settings(cli: Cli, failing: Callable[..., str], here: Path) -> None:
    """One setting in which the proxy does not run is left out. What the log holds is not measured again."""
    write_proxy(here / "p", member("ncf", 1.0) | {"name": "recsys/ncf", "preset": "tiny", "batch": 8})
    with open(here / "p" / "network.py", "a") as file:
        file.write(
            "\nimport torch\nif not torch._C._get_mkldnn_enabled():\n    raise RuntimeError('no kernel for it')\n"
        )
    log, options = here / "rounds.jsonl", ("--rounds", "1", "--trust", "--resume", "rounds.jsonl", *QUICK)
    both = ("validate", "p", "--settings", "dtype=bfloat16,mkldnn=off", "--json", "v.json", *options)
    done = cli(*both)
    assert done.returncode == 0, done.stderr
    assert "Fidelity" in done.stdout
    said = " ".join(done.stderr.split())
    assert "mkldnn=off is left out: the proxy (mkldnn=off): network.py cannot be run" in said
    assert "no kernel for it" in said
    assert "mkldnn=off is left out: the proxy does not run there" in " ".join(done.stdout.split())
    data = read(here / "v.json")
    assert data["validation"]["fit"] is None
    fidelity = data["validation"]["fidelity"]
    (row,), (failed,) = fidelity["settings"], fidelity["failed"]
    suite, proxy, error = (row[key]["value"] for key in ("suite_factor", "proxy_factor", "error"))
    assert error == pytest.approx(proxy / suite - 1)
    assert row["error"]["low"] < error < row["error"]["high"]  # from the turns of one round
    assert fidelity["rounds"] == 1
    assert any("bfloat16" in line for line in row["differences"])
    assert failed["name"] == "mkldnn=off"
    assert failed["cause"] == "the proxy does not run there"
    assert "no kernel" not in json.dumps(data), "a result is shared, and an error may quote a private model"
    measured = log.read_bytes()
    done = cli(*both)
    assert done.returncode == 0, done.stderr
    assert (log.read_bytes(), read(here / "v.json")) == (measured, data), "nothing is measured again"
    message = failing("validate", "p", "--settings", "mkldnn=off", "--json", "no.json", *options, code=1)
    assert "no kernel for it" in message
    assert "leave it out of --settings" in message
    done = cli("compare", "v.json", "v.json")
    assert done.returncode == 0, done.stderr
    assert "recsys/ncf" in done.stdout
