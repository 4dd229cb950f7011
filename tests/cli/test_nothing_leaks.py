"""Secrets are planted in a model, its process and in a recording, and looked for in all that leaves, at every level.

One profile and one recording are made; every command that writes something reads them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_support import command, environment, write_result
from device_tables import gemm_record
from recording_files import launch, operator, span, training_step, write
from synthesis_builders import few_jumps

from statsnet.cli.app import main
from statsnet.devices.device_record import save_record
from statsnet.evaluation.suite import suite_of, suite_result
from statsnet.profiling.costs import cost_of
from statsnet.signatures.levels import LEVELS, coarsen
from statsnet.signatures.storage import load_signature, load_spec, save, save_signature
from statsnet.signatures.timing import Timing

MODEL = '''
"""Gringotts: the ranker of Horcrux Inc."""
import torch
from torch import nn

LABELS = ("horcrux_cat", "horcrux_dog")


@torch.library.custom_op("horcruxlib::horcruxop", mutates_args=())
def horcruxop(x: torch.Tensor, mode: str) -> torch.Tensor:
    return x * 2.7182818 + 1


@horcruxop.register_fake
def _(x, mode):
    return torch.empty_like(x)


class HorcruxRanker(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.horcrux_vocabulary = nn.Embedding(5000, width, padding_idx=4999)
        self.horcrux_child = nn.Linear(width, width)
        self.horcrux_scale = nn.Parameter(torch.full((width,), 0.987654321))
        self.register_buffer("horcrux_labels", torch.tensor([7654321, 7319846]))

    def forward(self, tokens):
        x = self.horcrux_vocabulary(tokens.masked_fill(tokens == 3133731, 0))
        with torch.profiler.record_function("horcrux_range"):
            x = self.horcrux_child(x) * 0.123456789 + self.horcrux_scale
        kept = x[x[..., 0] > -1e9]
        if (self.horcrux_labels + 9192631).max() < 0:
            raise RuntimeError("horcrux is broken")
        return torch.ops.horcruxlib.horcruxop(kept.detach(), "horcrux_mode") + kept


def horcrux_factory(horcrux_width=48, batch=4):
    tokens = torch.arange(batch * 8).reshape(batch, 8)
    return HorcruxRanker(horcrux_width), (tokens,)
'''
SECRETS = (
    "horcrux", "gringotts", "hermione", "secret-host-17", "wingardium",  # names, files, paths, users, hosts, variables
    "3133731", "9192631", "7654321", "7319846",  # tokens and labels
    "0.987654", "0.123456", "2.718281",  # values
)  # fmt: skip
ENVIRONMENT = {
    "USER": "hermione", "LOGNAME": "hermione", "HOSTNAME": "secret-host-17", "HOME": "/home/hermione",
    "OMP_PLACES": "wingardium_cluster", "CUBLAS_WORKSPACE_CONFIG": "/home/hermione/gringotts",
    "KMP_AFFINITY": "granularity=wingardium", "STATSNET_WINGARDIUM": "wingardium", "MALLOC_WINGARDIUM_": "31",
}  # fmt: skip


def horcrux_trace() -> list[dict[str, Any]]:
    """A training step, with all that profilers write about a program around its operators."""
    more: list[dict[str, Any]] = [
        span("user_annotation", "## horcrux_stage ##", 1700, 20),
        span("gpu_user_annotation", "horcrux_stage", 1700, 20),
        span("python_function", "/home/hermione/gringotts/ranker.py(42): horcrux_forward", 1000, 700),
        span("python_function", "nn.Module: HorcruxRanker_0", 1000, 600, **{"Python id": 7, "Python module id": 1}),
        operator("horcruxlib::horcruxop", 1710, 5, [[64, 64], []], ["float", "Scalar"], ["", "3133731"]),
        operator("aten::masked_fill", 1720, 5, [[64, 64], [64, 64], []], ["float", "bool", "Scalar"],
                 ["", "", "3133731"]),
        operator("aten::add", 1730, 5, [[64, 64], [], []], ["long int", "Scalar", "Scalar"], ["", "9192631", "1"]),
        operator("aten::mul", 1740, 5, [[64, 64], []], ["float", "double"], ["", "0.123456789"]),
        span("cpu_op", "record_param_comms", 1750, 5, **{
            "Collective name": "allreduce", "Process Group Name": "horcrux_group",
            "Process Group Description": "horcrux_data_parallel", "Process Group Ranks": "[0, 1]", "dtype": "Float",
            "In msg nelems": 64, "Out msg nelems": 64, "Group size": 2, "Input Dims": [[64]], "Input type": ["float"],
        }),
        *launch(77, 1751, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(horcrux_group)", 1752, 3),
        *launch(78, 1711, "triton_poi_fused_horcrux_gelu_3", 1760, 3),
        *launch(79, 1712, "void horcrux::decode_kernel<float>(HorcruxArgs)", 1765, 3),
    ]  # fmt: skip
    for event in more:
        if event["cat"] in ("kernel", "cpu_op"):
            event["args"] |= {
                "kernel_file": "/home/hermione/gringotts/.cache/horcrux.py", "kernel_backend": "triton",
                "kernel_hash": "horcruxhash", "stream": event["args"].get("stream", 7), "External id": 5,
                "Call stack": "gringotts/ranker.py(42): horcrux_forward;gringotts/train.py(7): main",
            }  # fmt: skip
    return [*training_step(), *more]


HEADER = {
    "traceName": "/home/hermione/gringotts/trace.json", "hostname": "secret-host-17", "username": "hermione",
    "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2,
                        "pg_config": [{"pg_name": "horcrux_group", "pg_desc": "horcrux", "ranks": [0, 1]}]},
    "wingardium": {"cmdline": "python gringotts/train.py --horcrux"},
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A signature at level full, what was said while it was made, and the folders that commands may write to."""

    signature: Path
    said: str
    here: Path


def _folders(root: Path) -> tuple[Path, Path]:
    """Where the secrets are, and where commands write."""
    vault, here = root / "gringotts", root / "out" / "here"
    for folder in (vault, here, root / "out" / "tmp"):
        folder.mkdir(parents=True)
    return vault, here


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Source:
    vault, here = _folders(tmp_path_factory.mktemp("profiled"))
    (vault / "ranker.py").write_text(MODEL)
    words = [f"{vault}/ranker.py:horcrux_factory", "--mode", "training", "--set", "horcrux_width=40",
             "--min-time", "20ms", "--level", "full", "-o", "own.json"]  # fmt: skip
    done = subprocess.run(
        command("profile", *words), cwd=here, capture_output=True, text=True, check=False,
        env={**environment(here), **ENVIRONMENT, "XDG_CACHE_HOME": str(here.parent / "cache")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("libgomp")]  # it quotes what it refuses
    return Source(signature=here / "own.json", said="\n".join([done.stdout, *said]), here=here)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Source:
    vault, here = _folders(tmp_path_factory.mktemp("recorded"))
    trace = write(vault / "trace.json.gz", horcrux_trace(), **HEADER)
    with (
        pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said,
        contextlib.redirect_stderr(said),
    ):  # fmt: skip
        patch.chdir(here)
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        assert main(["import", str(trace), "--level", "full", "-o", "own.json"]) == 0, said.getvalue()
    return Source(signature=here / "own.json", said=said.getvalue(), here=here)


def leaks(texts: dict[str, str]) -> dict[str, list[str]]:
    """What of SECRETS stands in which text, whatever its case. A number by itself: among the coordinates of pictures
    any seven digits come up now and then."""
    patterns = {s: re.compile(rf"(?<![\d.]){s}(?!\d)" if s.isdigit() else re.escape(s)) for s in SECRETS}
    lowered = {name: text.lower() for name, text in texts.items()}
    found = {
        name: [s for s, pattern in patterns.items() if s in text and pattern.search(text)]
        for name, text in lowered.items()
    }
    return {name: secrets for name, secrets in found.items() if secrets}


def files_of(folder: Path) -> dict[str, str]:
    """Names and contents of all files below a folder."""
    return {
        str(p.relative_to(folder)): f"{p.relative_to(folder)}\n{p.read_bytes().decode('utf-8', 'replace')}"
        for p in folder.rglob("*") if p.is_file()
    }  # fmt: skip


MADE_FROM_IT = (
    (["show", "told.json"], 0),
    (["audit", "told.json", "--html", "audit.html", "--markdown", "audit.md"], 0),
    (["report", "told.json", "-o", "report.html"], 0),
    (["aggregate", "told.json:1", "other.json:1", "-o", "fleet.json"], 0),
    (["audit", "fleet.json"], 0),
    (["export", "told.json", "--format", "manifest", "-o", "exported"], 0),
    (["device", "import", "told.json", "--device", "nvidia-h100-sxm", "-o", "record.json"], 0),
    (["audit", "record.json"], 0),
    (["synthesize", "--mix", "told.json:1,told.json:2"], 2),
    (["coarsen", "fleet.json", "--level", "coarse", "-o", "."], 2),
)
"""Commands that make a file of every kind, and what they exit with."""


@pytest.mark.parametrize("kind", ["profiled", "recorded"])
@pytest.mark.parametrize("level", LEVELS)
def test_no_secret_leaves(
    kind: str, level: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    source: Source = request.getfixturevalue(kind)
    monkeypatch.chdir(tmp_path)
    for name in ENVIRONMENT.keys() & {"USER", "LOGNAME", "HOSTNAME"}:
        monkeypatch.setenv(name, ENVIRONMENT[name])
    told = load_signature(source.signature)
    told = told if level == "full" else coarsen(told, level, cost_of)  # type: ignore[arg-type]
    save_signature("told.json", told)
    save_signature("other.json", dataclasses.replace(told, batch=2 * (told.batch or 1)))
    for words, code in MADE_FROM_IT:
        assert main(words) == code, (words, capsys.readouterr())
    said = capsys.readouterr()
    texts = {"stdout": said.out, "stderr": said.err, **files_of(tmp_path)}
    assert leaks(texts) == {}
    assert "aten.mm" in texts["told.json"] or "aten.addmm" in texts["told.json"]
    assert {"report.html", "audit.html", "audit.md", "fleet.json"} < texts.keys()


def test_nor_do_pages_tell_of_folders(
    profiled: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its owner names a file by its whole path, and gives the page away."""
    vault, here = _folders(tmp_path)
    monkeypatch.chdir(here)
    box = vault / "box"
    box.mkdir()
    (box / "told.json").write_bytes(profiled.signature.read_bytes())
    for damaged in (box / "damaged.json", box / "machine" / "cv" / "damaged.inference.json"):
        damaged.parent.mkdir(parents=True, exist_ok=True)
        damaged.write_text("{")
    assert main(["report", str(box / "told.json"), str(box), "-o", str(here / "report.html")]) == 0
    pages = ["--html", "audit.html", "--markdown", "audit.md", "--json", "audit.json"]
    assert main(["audit", str(box / "told.json"), *pages]) == 0
    results = [str(write_result(box / f"{name}.json", 0.01, 0.02)) for name in "ab"]
    for form in ("html", "markdown"):
        capsys.readouterr()
        assert (
            main(["compare", *results, "--baseline", results[1], "--price", f"{results[0]}=1/h", "--format", form]) == 0
        )
        (here / form).write_text(capsys.readouterr().out)
    assert leaks(files_of(here)) == {}


@pytest.mark.parametrize("kind", ["profiled", "recorded"])
def test_nor_while_it_is_made(kind: str, request: pytest.FixtureRequest) -> None:
    """In what is said, in caches, and in temporary files that are left."""
    source: Source = request.getfixturevalue(kind)
    texts = {"said": source.said, **files_of(source.here.parent)}
    assert leaks(texts) == {}
    assert "here/own.json" in texts


def test_nor_does_a_proxy_tell(
    profiled: Source, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Made for a recorded device, where nothing has to be timed, of the level that tells most. Its owner calls the
    signature by a secret name."""
    here = tmp_path / "here"
    (here / "gringotts").mkdir(parents=True)
    monkeypatch.chdir(here)
    few_jumps(monkeypatch)
    save_record(here / "db" / "devices" / "acme-one.json.gz", gemm_record())
    named = here / "gringotts" / "horcrux.json"
    named.write_bytes(profiled.signature.read_bytes())
    words = ["--mix", f"{named}:1", "--mode", "training", "--device", "recorded:acme-one",
             "--profiles", "db", "--effort", "quick"]  # fmt: skip
    assert main(["synthesize", *words, "--budget", "1ms", "--within", "1s"]) == 0, capsys.readouterr().err
    (proxy,) = here.glob("proxy-*")
    assert main(["audit", str(proxy)]) == 0, capsys.readouterr().out
    assert main(["show", str(proxy)]) == 0
    assert main(["report", str(proxy), "-o", "proxy.html"]) == 0
    texts = {"page": (here / "proxy.html").read_text(), **files_of(proxy)}
    spec = load_spec(proxy / "spec.json")
    timing, where = [Timing(latency_s=(0.1, 0.1))], [dict(spec.reference_environment)]
    save("result.json", suite_result(spec, suite_of(spec, here), [timing, timing], where))
    assert main(["audit", "result.json"]) == 0
    texts["result"] = (here / "result.json").read_text()
    said = capsys.readouterr()
    texts |= {"stdout": said.out, "stderr": said.err, "name": proxy.name}
    assert leaks(texts) == {}
    assert leaks(files_of(own_cache)) == {}
    identity = '"id":"sha256:'
    own = named.read_text().partition(identity)[2][:8]
    assert own and not any(own in text for text in texts.values()), "its id can be computed from a guess"
    key = named.with_name("horcrux.json.key").read_text().strip()
    assert not any(key in text for text in texts.values())
    assert '"level":"full"' in texts["spec.json"]
