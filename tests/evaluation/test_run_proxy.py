"""Running a proxy's folder: what is checked before, and the whole way once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from statsnet.errors import FileFormatError, MeasurementError, UsageError
from statsnet.evaluation import run_proxy as module
from statsnet.evaluation.run_proxy import STEP_LIMITS, RunOptions, common_environment, run_proxy
from statsnet.measure.control import Control, Job
from statsnet.measure.network_file import load_network
from statsnet.measure.process import run
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Limits, Model, TimedStep, TimeNetwork, TimeWorkload
from statsnet.progress import Progress
from statsnet.proxy.folder import open_proxy
from statsnet.proxy.spec import source_of
from statsnet.signatures.conversion import plain
from statsnet.signatures.storage import load_document, save_document, validate
from statsnet.signatures.timing import Timing
from statsnet.workloads.settings import parse_settings

ENVIRONMENT = {"device": "cpu", "device_name": "Z80", "threads": 1}
QUICK = Limits(min_time_s=0.001, max_time_s=0.05)


def write_fit(folder: Path, **fields: Any) -> None:
    spec_id = json.loads((folder / "spec.json").read_text())["id"]
    fit = {"spec": spec_id, "environment": {}, "characteristics": [], "summary": {}, **fields}
    save_document(folder / "fit.json", {"kind": "statsnet.fit", "schema_version": 1, **fit})


class TestOpenProxy:
    def test_reads_the_spec_and_hashes_the_network(self, proxy_folder: Path) -> None:
        proxy = open_proxy(proxy_folder)
        assert proxy.spec.mode == "inference"
        assert proxy.network_sha256 == hashlib.sha256((proxy_folder / "network.py").read_bytes()).hexdigest()

    @pytest.mark.parametrize("name", ["network.py", "spec.json"])
    def test_a_missing_file(self, proxy_folder: Path, name: str) -> None:
        (proxy_folder / name).unlink()
        with pytest.raises(UsageError, match=f"it has no {name}"):
            open_proxy(proxy_folder)

    def test_a_malformed_spec(self, proxy_folder: Path) -> None:
        (proxy_folder / "spec.json").write_text("{")
        with pytest.raises(FileFormatError):
            open_proxy(proxy_folder)

    def test_the_fit_of_another_proxy(self, proxy_folder: Path) -> None:
        write_fit(proxy_folder, spec="sha256:" + "1" * 64)
        with pytest.raises(FileFormatError, match="fit of another proxy"):
            open_proxy(proxy_folder).fit()


LEAVES_A_TRACE = "from pathlib import Path; Path(__file__).with_name('executed').touch()\n"


@pytest.fixture
def changed_folder(proxy_folder: Path) -> Path:
    """A proxy whose network.py leaves a file beside itself, and is otherwise the generated one."""
    network = proxy_folder / "network.py"
    network.write_text(network.read_text().replace("\nclass Block", f"\n{LEAVES_A_TRACE}\nclass Block", 1))
    return proxy_folder


class TestChangedNetwork:
    def test_what_runs_is_generated_from_the_spec(self, changed_folder: Path) -> None:
        before = source_of(open_proxy(changed_folder).spec)
        proxy = open_proxy(changed_folder)
        assert proxy.source == before
        assert proxy.note is not None and "is not run" in proxy.note
        result = run_proxy(changed_folder, RunOptions(processes=1, limits=QUICK))
        assert result.subject.id == proxy.spec.id
        assert not (changed_folder / "executed").exists()

    def test_a_hash_in_the_fit_makes_no_difference(self, changed_folder: Path) -> None:
        stranger = hashlib.sha256((changed_folder / "network.py").read_bytes()).hexdigest()
        write_fit(changed_folder, network_sha256=stranger)
        assert LEAVES_A_TRACE not in open_proxy(changed_folder).source

    def test_with_trust_the_file_runs_and_is_another_subject(self, changed_folder: Path) -> None:
        proxy = open_proxy(changed_folder, trust=True)
        assert LEAVES_A_TRACE in proxy.source
        assert proxy.note is not None and "program of whoever wrote it" in proxy.note
        assert proxy.subject_id == f"sha256:{proxy.network_sha256}" != proxy.spec.id

    def test_a_spec_that_is_no_network_needs_trust(self, proxy_folder: Path) -> None:
        spec = load_document(proxy_folder / "spec.json", "statsnet.proxy")
        spec["towers"][0]["blocks"][0]["kind"] = "no_such_block"
        save_document(proxy_folder / "spec.json", spec)
        with pytest.raises(FileFormatError, match="describes no network"):
            open_proxy(proxy_folder)
        assert not open_proxy(proxy_folder, trust=True).is_generated

    def test_a_network_that_is_no_text(self, proxy_folder: Path) -> None:
        (proxy_folder / "network.py").write_bytes(b"\xff\xfe")
        with pytest.raises(FileFormatError, match="not a text file"):
            open_proxy(proxy_folder)


class TestLoadNetwork:
    def test_gives_what_the_contract_asks_for(self, proxy_folder: Path) -> None:
        network = load_network(proxy_folder)
        assert network.MODE == "inference"
        assert network.make_step(network.build("cpu"), "cpu")()[0].shape == (1, 8, 6, 6)

    def test_only_the_text_that_was_checked_is_executed(self, proxy_folder: Path) -> None:
        checked = open_proxy(proxy_folder).network_sha256
        (proxy_folder / "network.py").write_text("raise SystemExit('executed')")
        with pytest.raises(FileFormatError, match="changed while"):
            load_network(proxy_folder, sha256=checked)

    def test_another_program_is_no_proxy(self, proxy_folder: Path) -> None:
        (proxy_folder / "network.py").write_text("MODE = 'inference'")
        with pytest.raises(FileFormatError, match="does not define build"):
            load_network(proxy_folder)


class TestRunProxy:
    def test_several_processes_make_one_result(self, proxy_folder: Path) -> None:
        (setting,) = parse_settings("threads=1+mkldnn=off")
        reported: list[Progress] = []
        limits = Limits(min_time_s=0.01, max_time_s=0.1)
        options = RunOptions(processes=2, setting=setting, limits=limits)
        result = run_proxy(proxy_folder, options, report=reported.append)
        assert validate(plain(result), "statsnet.result") == result
        assert result.subject.id == open_proxy(proxy_folder).spec.id
        assert len(result.of_subject) == 2
        assert result.environment["threads"] == 1
        assert result.environment["settings"]["mkldnn"] == "False"
        assert result.environment["allocator"]["MALLOC_TOP_PAD_"] == "67108864"
        assert [p.stage for p in reported] == ["the proxy, round 1 of 2", "the proxy, round 2 of 2"]

    def test_options_reach_the_job(self, proxy_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[Any] = []

        def fake(jobs: list[Job[Any]], rounds: int, **_: Any) -> list[list[TimedStep]]:
            seen.extend([*jobs, rounds])
            return [[TimedStep(timing=Timing(latency_s=(1.0,)), environment=ENVIRONMENT)] * rounds]

        monkeypatch.setattr(module, "run_in_rounds", fake)
        limits = replace(STEP_LIMITS, min_time_s=2.0)
        run_proxy(proxy_folder, RunOptions(device="cuda", threads=3, processes=5, limits=limits))
        job, rounds = seen
        assert rounds == 5
        assert job.task.device == "cuda"
        assert job.task.limits == Limits(min_time_s=2.0, max_time_s=20.0)
        assert (job.control.setting.threads, job.control.setting.env["OMP_NUM_THREADS"]) == (3, "3")


def test_an_environment_that_changes_between_processes_is_an_error() -> None:
    with pytest.raises(MeasurementError) as failed:
        common_environment([{"threads": n} for n in (1, 2)])
    assert failed.value.cause == "threads: 1 against 2"


def test_a_network_under_autocast(proxy_folder: Path) -> None:
    (setting,) = parse_settings("dtype=bfloat16")
    step = TimeNetwork(folder=str(proxy_folder), limits=QUICK).run(Context(setting=setting))
    assert len(step.timing.latency_s) >= 3
    assert step.environment["settings"]["dtype"] == "bfloat16"


FACTORY = """
import torch

def make(width=4):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(width, width)

        def forward(self, x):
            return self.layer(x)

    return {"model": Model(), "inputs": [torch.full((2, width), float(n)) for n in range(3)]}
"""


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_a_workload(tmp_path: Path, mode: str) -> None:
    (tmp_path / "mine.py").write_text(FACTORY)
    model = Model(target=f"{tmp_path / 'mine.py'}:make", mode=mode, overrides={"width": 8})
    step = TimeWorkload(model=model, limits=QUICK).run(Context())
    assert len(step.timing.latency_s) >= 3
    assert min(step.timing.latency_s) > 0
    assert step.environment["device"] == "cpu"


def test_under_a_compiler_the_share_of_generated_code_is_known(proxy_folder: Path) -> None:
    """A convolution stays the library's; what a compiler fuses around it, here relu and a product, is generated."""
    text = (proxy_folder / "network.py").read_text()
    fused = "return [x.relu() * 2 for x in proxy(next(rotation))]"
    (proxy_folder / "network.py").write_text(text.replace("return proxy(next(rotation))", fused))
    (setting,) = parse_settings("compile=inductor")
    step = run(TimeNetwork(folder=str(proxy_folder), limits=QUICK), Control(setting=setting))
    assert 0.0 < (step.timing.generated_share or 0.0) < 1.0
    assert step.environment["settings"]["compile"] == "inductor"
