"""A generated network under torchrun: its processes run each step together, and send what the suite's send."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from forked_programs import forked, without_ours

from statsnet.blocks.base import Config
from statsnet.blocks.collective import OPERATORS, Collective, check_collective, groups_of
from statsnet.measure import rank_ends
from statsnet.measure.rank_ends import _tell, to_say
from statsnet.measure.ranks import Ranks
from statsnet.measure.timing import _together
from statsnet.proxy.run_file import run_source
from statsnet.proxy.towers import Placed, Tower

LINEAR = {"rows": 64, "inputs": 32, "outputs": 32, "activation": "relu"}
TOWERS = [Tower(blocks=(Placed(kind="linear", config=LINEAR, optimizer="sgd"),))]
PATIENCE = timedelta(seconds=77)
SHORT = ("--min-time", "0.05", "--max-time", "0.3")
KINDS = (
    "float32",
    "bfloat16",
    "float32",
    "float32",
    "bfloat16",
    "float32",
    "float64",
    "int64",
    "int32",
    "float16",
    "uint8",
)
EACH: list[Config] = [
    {"operation": operation, "elements": 4_001, "dtype": dtype, "phase": phase, "after": 0, "until": until}
    for operation, dtype in zip(OPERATORS, KINDS, strict=True)
    for phase, until in (("forward", 0), ("backward", 1))
]

COUNTS = """
import json, os, runpy, sys, torch
import torch.distributed as dist
from torch.profiler import profile
dist.init_process_group("gloo")
network = runpy.run_path(sys.argv[1])
proxy = network["build"]()
step = network["make_step"](proxy)
step()
for c in proxy.collectives:
    c.sent.fill_(dist.get_rank() + 1)
step()
with profile() as session:
    step()
if dist.get_rank() == 0:
    calls = {e.key: e.count for e in session.key_averages() if e.key.startswith("c10d::")}
    received = [sorted(set(c.received.tolist())) for c in proxy.collectives]
    print(json.dumps({"calls": calls, "received": received, "dtypes": [str(c.sent.dtype) for c in proxy.collectives]}))
dist.barrier()
sys.stdout.flush()
os._exit(0)  # at an orderly end, gloo's threads may end the process by SIGABRT
"""


COMPILED = COUNTS.replace('network["build"]()', 'torch.compile(network["build"](), backend="aot_eager")')


def torchrun(*command: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *command]
    return subprocess.run(words, env=without_ours(), capture_output=True, text=True, timeout=600, check=False)


def together(script: str, network: Path, processes: int) -> Any:
    """What the first of so many processes prints, which run the script together."""
    file = network.with_name("script.py")
    file.write_text(script, encoding="utf-8")
    done = forked(str(file), str(network), folder=network.parent, ranks=processes)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def network(write_source: Callable[..., str], tmp_path: Path) -> Callable[..., Path]:
    def write(mode: str, collectives: list[Config]) -> Path:
        file = tmp_path / "network.py"
        file.write_text(write_source(mode, TOWERS, collectives=collectives), encoding="utf-8")
        (tmp_path / "run.py").write_text(run_source(), encoding="utf-8")
        return file

    return write


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A group of one process, in this one."""
    place = f"file://{tmp_path}/store"
    dist.init_process_group("gloo", init_method=place, rank=0, world_size=1, timeout=PATIENCE)
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("config", EACH, ids=str)
def test_a_collective_gives_what_all_sent(config: Config, alone: None) -> None:
    collective = Collective(**config)
    collective.to(torch.float16)
    assert str(collective.sent.dtype) == f"torch.{config['dtype']}", "gradients may be reduced in another dtype"
    collective.sent.fill_(3)
    collective.start().wait()
    assert collective.received.tolist() == [3] * config["elements"]


def test_a_smaller_group_waits_as_long_as_that_of_all(alone: None) -> None:
    group = groups_of.__wrapped__(1, 1)
    assert group._get_backend(torch.device("cpu")).options._timeout == PATIENCE


@pytest.mark.parametrize(
    "change",
    [{"operation": "gossip"}, {"elements": 0}, {"elements": True}, {"dtype": "load"}, {"phase": "later"},
     {"after": 1, "until": 0}, {"until": "yes"}, {"group": 1}, {"stride": 0}, {"size": 2}],
)  # fmt: skip
def test_what_is_no_collective_never_becomes_source(change: dict[str, Any], write_source: Callable[..., str]) -> None:
    check_collective(EACH[0])
    with pytest.raises(ValueError, match="collective"):
        write_source("inference", TOWERS, collectives=[{**EACH[0], **change}])


@pytest.mark.parametrize("script", [COUNTS, COMPILED], ids=["as it is", "compiled"])
def test_two_processes_run_each_collective_once_a_step(script: str, network: Callable[..., Path]) -> None:
    found = together(script, network("training", EACH), 2)
    assert found["calls"] == {f"c10d::{op.split('.')[1]}": 2 for op in OPERATORS.values()}
    assert found["dtypes"][::2] == [f"torch.{c['dtype']}" for c in EACH[::2]]
    of_operation = {c["operation"]: found["received"][i] for i, c in enumerate(EACH)}  # after two steps
    summed, gathered = [3], [1, 2]
    assert of_operation.pop("reduce")[0] > 1  # what of the others' is left in their own tensors is the library's affair
    assert of_operation == {
        "all_reduce": [6], "broadcast": [1], "send": [1], "receive": [2],
        "all_gather": gathered, "reduce_scatter": summed, "all_to_all": gathered, "gather": gathered, "scatter": [1],
        "barrier": [1],
    }  # fmt: skip


def test_the_first_process_alone_speaks(network: Callable[..., Path], tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    done = torchrun(str(network("inference", EACH)), *SHORT, "--json", str(result))
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(result.read_text())
    together = told["distributed"]
    assert (together["processes"], together["collectives"], together["collectives_run"]) == (2, len(EACH), True)
    assert together["slowest_rank"] in (0, 1)
    assert 0 < together["exposed_share"] < 1
    assert told["environment"]["settings"]["processes"] == "2"
    lines = done.stdout.splitlines()
    assert sum("runs" in line for line in lines) == 1
    assert lines[-1].startswith("2 processes (gloo) that wait for")


MEMBERS = """
import json, os, runpy, sys, torch
import torch.distributed as dist
dist.init_process_group("gloo")
proxy = runpy.run_path(sys.argv[1])["build"]()
for c in proxy.collectives:
    c.sent.fill_(2.0 ** dist.get_rank())
    c.start().wait()
found = [None] * dist.get_world_size()
dist.all_gather_object(found, [sorted(set(c.received.tolist())) for c in proxy.collectives])
if dist.get_rank() == 0:
    print(json.dumps(found))
dist.barrier()
sys.stdout.flush()
os._exit(0)
"""
MESH: list[Config] = [
    {**EACH[0], "elements": 12, "dtype": "float32", "operation": operation, "group": 2, "stride": stride}
    for operation, stride in (("all_reduce", 1), ("all_reduce", 2), ("all_gather", 2), ("scatter", 2), ("receive", 2))
]


def test_groups_are_made_of_neighbours_and_of_every_second_process(network: Callable[..., Path]) -> None:
    """Powers of two show who took part."""
    found = together(MEMBERS, network("inference", MESH), 4)
    pairs, seconds, gathered, scattered, received = zip(*found, strict=True)
    assert pairs == ([3], [3], [12], [12])
    assert seconds == ([5], [10], [5], [10])
    assert gathered == ([1, 4], [2, 8], [1, 4], [2, 8])
    assert scattered == ([1], [2], [1], [2])
    assert received[:2] == ([4], [8])


@pytest.mark.parametrize("count", [4, 6])
def test_what_cannot_be_grouped_is_said(count: int) -> None:
    ranks = Ranks("cpu", [], ((2, 2),))
    ranks.count, ranks.backend, ranks.latency_s, ranks.waiting_s = count, "gloo", [[1.0] * count], [[0.0] * count]
    told = ranks.describe(1)
    assert told["groups"] == [{"processes": 2, "stride": 2, "formed": count == 4}]
    assert ("do not fall into groups of 2 (stride 2), so" in _together(told)) == (count != 4)


def at_first_collective(file: Path, rank: int, does: str) -> None:
    """Have one rank do something when the second step's collectives begin; the others wait for it for a second."""
    source = file.read_text()
    begin = source.index("        self.left = [c for c in proxy.collectives")
    lines = f"""\
        import datetime, os
        if WAITS and os.environ["RANK"] == "{rank}":
            {does}
        if WAITS:
            torch.distributed.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=1), None)
"""
    file.write_text(f"{source[:begin]}{lines}{source[begin:]}")


def test_one_sentence_says_which_process_was_killed(network: Callable[..., Path]) -> None:
    file = network("training", EACH[:1])
    at_first_collective(file, 1, "os.kill(os.getpid(), 9)")
    done = forked(str(file), *SHORT, folder=file.parent, ranks=2)
    assert done.returncode == 1
    (told,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert told.startswith("error: rank 1 of 2 was killed")


def test_one_sentence_says_which_process_hangs_and_its_stack_where(network: Callable[..., Path]) -> None:
    file = network("training", EACH[:1])
    at_first_collective(file, 1, "time.sleep(600)")
    done = forked(str(file), *SHORT, "--group-timeout", "20", folder=file.parent, ranks=2)
    assert done.returncode == 1
    before, _, told = done.stderr.partition("error: ")
    assert told.startswith("rank 1 of 2 hangs: rank 0 waited 20 s for it; its stack, if it still answers, stands above")
    assert "--group-timeout allows more time" in told
    assert 'network.py", line ' in before and " in __init__" in before
    assert done.stderr.count("error: rank") == 1


@pytest.mark.parametrize(
    ("waited", "said"),
    [
        ((0, 2), "rank 1 and 3 of 4 has ended or hangs: rank 0 waited 20 s for it; look at its machine"),
        ((0, 1, 2, 3), "rank 0 of 4 waited 20 s for another one, which has ended or hangs"),
    ],
)
def test_who_hangs_is_who_does_not_say_that_it_waited(
    waited: tuple[int, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    known = {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    for name, value in {**known, "RANK": "0", "WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    for rank in waited:
        _tell(store, rank)
    timeout = RuntimeError("[gloo/buffer.cc:78] Timed out waiting 20000ms for recv operation to complete")
    assert (to_say(timeout, [], 20.0) or "").startswith(said)
    monkeypatch.setattr(rank_ends.time, "sleep", lambda _: None)
    assert to_say(timeout, [], 20.0) is None, "one tells for all"


@pytest.mark.parametrize(
    ("error", "said"),
    [(KeyError("none\nat all"), "rank 1 of 2: KeyError: 'none\\nat all'"),
     (RuntimeError("[gloo/pair.cc:553] Connection closed by peer [127.0.0.1]:1"), "rank 1 of 2 lost the connection")],
)  # fmt: skip
def test_one_process_says_its_own_fault_or_that_it_lost_another(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert (to_say(error, []) or "").startswith(said)


def test_alone_it_leaves_collectives_out_and_says_so(network: Callable[..., Path], tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    done = forked(str(network("training", EACH)), *SHORT, "--json", str(result), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{len(EACH)} collectives are left out" in done.stdout.splitlines()[-1]
    told = json.loads(result.read_text())
    assert told["distributed"] == {"processes": 1, "collectives": len(EACH), "collectives_run": False}


def test_without_collectives_nothing_of_them_is_in_the_source(write_source: Callable[..., str]) -> None:
    assert "collective" not in write_source("training", TOWERS).lower()
