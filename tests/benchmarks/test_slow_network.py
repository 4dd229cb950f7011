"""The benchmark of slow networks: factors from its log, and two namespaces that a link joins."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest
from measuring import write_proxy

from benchmarks import slow_network
from benchmarks.csv_tables import table_text
from benchmarks.slow_network import NetworkRow, Run, limit_name, markdown, measured, rows_of
from benchmarks.together import linked_namespaces as linking
from benchmarks.together.linked_namespaces import linked_namespaces
from benchmarks.together.subjects import SUBJECTS, SharedStep
from statsnet.errors import MeasurementError, StatsNetError
from statsnet.measure.device_lock import LOCKS
from statsnet.measure.rounds_log import Logged, RoundsLog
from statsnet.signatures.timing import Timing

MODEL, PROXY = (Run(label=name, command=("false",), identity=name) for name in ("model", "proxy"))


@pytest.fixture(scope="module")
def may_link() -> None:
    try:
        with linked_namespaces():
            pass
    except StatsNetError as error:
        pytest.skip(f"no network namespaces here: {error.cause}")


def _logged(log: RoundsLog, run: Run, rate: float | None, step_s: float) -> None:
    log.keep(run.identity, {limit_name(rate): Logged(timing=Timing(latency_s=(step_s,) * 3))}, 0)


def test_factors_and_their_error() -> None:
    """Two rounds: the model's step takes 3 times as long, the proxy's 3.3 times."""
    log = RoundsLog(here="")
    for slower in (1.0, 1.1):
        _logged(log, MODEL, None, 1.0 * slower)
        _logged(log, MODEL, 0.2, 3.0 * slower)
        _logged(log, PROXY, None, 0.1 * slower)
        _logged(log, PROXY, 0.2, 0.33 * slower)
    _logged(log, MODEL, 1.0, 2.0)  # of which the proxy's is missing
    (row,) = rows_of("a step", log, (MODEL, PROXY), [1.0, 0.2])
    assert (row.rate_gbit_per_s, row.rounds) == (0.2, 2)
    assert (row.suite_factor, row.proxy_factor) == pytest.approx((3.0, 3.3))
    assert row.error == pytest.approx(0.1)
    assert "**+10.0**" in markdown([row]) and "worst 10.0 % (goal 15)" in markdown([row])
    assert table_text(NetworkRow, [row]).count("\n") == 2


def test_a_subject_that_fails_is_left_out_and_the_next_proxy_is_made_without_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that makes a proxy takes the lock itself."""
    monkeypatch.setenv("STATSNET_DEVICE_LOCK", str(tmp_path))
    made: list[str] = []

    def proxy_of(subject: SharedStep, folder: Path) -> Path:
        assert not LOCKS.descriptors
        made.append(subject.factory)
        if len(made) == 2:
            raise MeasurementError("it failed")
        return write_proxy(folder / "p")

    def timed(linked: object, run: Run, timeout_s: float) -> Timing:
        with LOCKS.measuring_on("cpu"):
            return Timing(latency_s=(1.0,) * 3)

    for name, stand_in in (
        ("proxy_of", proxy_of),
        ("_timed", timed),
        ("linked_namespaces", lambda: nullcontext(Mock())),
    ):
        monkeypatch.setattr(slow_network, name, stand_in)
    words = ["--rounds", "1", "--rates", "1", "--proxies", str(tmp_path), "-o", str(tmp_path / "n.csv")]
    monkeypatch.setattr(sys, "argv", ["slow_network.py", *words])
    assert slow_network.main() == 1
    assert made == [subject.factory for subject in SUBJECTS]
    told = capsys.readouterr()
    assert f"{SUBJECTS[1].name} is left out: it failed" in told.err
    assert told.out.count("| 1 |") == len(SUBJECTS) - 1


def test_what_is_known_is_not_measured_again() -> None:
    log = RoundsLog(here="")
    for run in (MODEL, PROXY):
        for rate in (None, 1.0):
            _logged(log, run, rate, 1.0)
    assert list(measured(None, log, (MODEL, PROXY), [1.0], 1, 1.0)) == []  # type: ignore[arg-type]


EXCHANGE = """
import os, socket, sys
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
names = {name for _, name in socket.if_nameindex()}
assert {os.environ["GLOO_SOCKET_IFNAME"], "lo"} <= names and "eth0" not in names, names
if os.environ["RANK"] == "0":
    with socket.create_server(address) as server:
        connection, _ = server.accept()
        open(sys.argv[1], "wb").write(connection.recv(9))
else:
    while True:
        try:
            socket.create_connection(address).sendall(b"over here")
            break
        except ConnectionRefusedError:
            pass
"""


@pytest.mark.usefixtures("may_link")
def test_two_ranks_meet_over_the_link_alone(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with linked_namespaces() as linked:
        for rate in (None, 0.2):
            linked.limit(rate)
            linked.run_ranks([sys.executable, "-c", EXCHANGE, str(said)], {}, "an exchange", 600.0)
            assert said.read_bytes() == b"over here"
            said.unlink()


@pytest.mark.usefixtures("may_link")
def test_a_rank_that_fails_is_named_and_the_other_ended() -> None:
    fails = "import os, time\nif os.environ['RANK'] == '1': raise SystemExit('no memory')\ntime.sleep(600)"
    with linked_namespaces() as linked, pytest.raises(MeasurementError, match="rank 1 of a step failed") as caught:
        linked.run_ranks([sys.executable, "-c", fails], {}, "a step", 600.0)
    assert caught.value.cause == "no memory"


@pytest.mark.usefixtures("may_link")
def test_namespaces_go_with_a_program_that_is_killed() -> None:
    """The processes that hold them end, and a namespace lives no longer than its processes."""
    opens = (
        "from benchmarks.together.linked_namespaces import linked_namespaces\n"
        "with linked_namespaces() as linked:\n    print(*linked.holders, flush=True)\n    input()"
    )
    program = subprocess.Popen([sys.executable, "-c", opens], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with program:
        assert program.stdout is not None
        watched = [os.pidfd_open(int(pid)) for pid in program.stdout.readline().split()]
        program.send_signal(signal.SIGKILL)
    for descriptor in watched:
        assert select.select([descriptor], [], [], 600.0)[0], "a holder outlived its program"
        os.close(descriptor)


def test_missing_programs_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking.shutil, "which", lambda name: None)
    with pytest.raises(StatsNetError, match="cannot be made here") as caught, linked_namespaces():
        pass
    assert "CAP_NET_ADMIN" in caught.value.hint


def test_a_missing_permission_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking, "NEW_NAMESPACE", ["sh", "-c", "echo Operation not permitted >&2; exit 1"])
    with pytest.raises(StatsNetError, match="cannot be made here") as caught, linked_namespaces():
        pass
    assert caught.value.cause == "Operation not permitted"
