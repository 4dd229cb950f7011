"""Small inputs of the readers of results: of runs and validations, of scenarios, a search, a resumed command."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path

from statsnet.environment import describe
from statsnet.measure.rounds_log import Logged
from statsnet.measure.task import to_json
from statsnet.signatures.canonical import canonical_json
from statsnet.signatures.conversion import plain
from statsnet.signatures.documents import Distances
from statsnet.signatures.intervals import Interval
from statsnet.signatures.results import (
    CharacteristicAgain,
    FailedSetting,
    Fidelity,
    FitAgain,
    MemberFactor,
    Moved,
    ProxyTimes,
    Result,
    ResultMember,
    SettingFactors,
    Subject,
    Validation,
)
from statsnet.signatures.scenarios import (
    SCENARIOS,
    Answers,
    AskedMember,
    ScenarioResult,
    ScenarioRules,
    SuiteBeside,
    Trial,
    UnderSetting,
)
from statsnet.signatures.timing import ProcessPower, Timing
from statsnet.synthesis.search.search_identity import SearchIdentity
from statsnet.synthesis.search.study import Study
from statsnet.synthesis.search.study_storage import OwnJournal


def searches() -> list[bytes]:
    """Of a search over designs."""
    tried = [
        {"number": n, "design": {}, "share": 0.5, "error": 0.1 * (n + 1), "step_latency_s": 0.01, "budget_s": 0.01}
        for n in range(3)
    ]
    record = {"kind": "statsnet.search", "schema_version": 1, "spec": "sha256:" + "0" * 64, "budget_s": 0.01,
              "tried": tried, "front": [0, 2], "chosen": 2, "usual": 0}  # fmt: skip
    return [json.dumps(record).encode()]


def scenarios() -> list[bytes]:
    """Of each scenario; the server's is of a suite beside its proxy."""
    answers = Answers(latency_s=(0.01, 0.02), duration_s=0.5, completed_s=0.5, step_s=0.01, says_valid=True)
    trials = tuple(Trial(answers=(answers,), threads=1, qps=qps) for qps in (10.0, 20.0))
    beside = SuiteBeside(
        members=(AskedMember(name="cv/x", weight=1.0, query_share=1.0),),
        proxy=trials,
        settings=(UnderSetting(name="threads=1", suite=trials, proxy=trials),),
        notes=("a note",),
    )
    return [
        canonical_json(
            plain(
                ScenarioResult(
                    subject=Subject(type="proxy", id="sha256:" + "0" * 64, mode="inference"),
                    environment={"device": "cpu", "device_name": "Z80", "threads": 1},
                    scenario=name,
                    rules=ScenarioRules(min_time_s=0.5, percentile=0.9, latency_bound_s=0.05),
                    trials=trials,
                    beside=beside if name == "server" else None,
                )
            )
        ).encode()
        for name in SCENARIOS
    ]


def results() -> list[bytes]:
    """Of `run`, and of `validate` with every part."""
    environment = {"device": "cpu", "device_name": "Z80", "threads": 1, "settings": {"OMP_NUM_THREADS": "1"}}
    power = ProcessPower(energy_j_per_step=1.0, throttled=("power",), missing={"power_w": "unknown"})
    timing = Timing(latency_s=(0.01, 0.011), warmup_latency_s=(0.02,), warnings=("noisy",), window_latency_s=(0.01,),
                    power=power, attempts=1, generated_share=0.5)  # fmt: skip
    subject = "sha256:" + "0" * 64
    factor = Interval(value=1.1, low=1.0, high=1.2)
    member = MemberFactor(value=1.1, low=1.0, high=1.2, name="cv/x", evidence="model")
    moved = Moved(suite_factor=factor, proxy_factor=factor, error=factor, members=(member,))
    setting = SettingFactors(
        **{name: getattr(moved, name) for name in ("suite_factor", "proxy_factor", "error", "members")},
        name="threads=1", suite_noise=0.01, differences=("threads: 1 against 2",), member_processes=((timing,),),
        proxy_processes=(timing,),
    )  # fmt: skip
    row = CharacteristicAgain(name="convolution", group="category", target=0.5, achieved=0.4, unit="share of time",
                              recorded=0.5, error=-0.1, noise=0.01)  # fmt: skip
    rate = CharacteristicAgain(name="flops_per_s", group="rate", target=1e9, achieved=9e8, unit="FLOP/s", recorded=None,
                               error=-0.1, noise=None)  # fmt: skip
    validation = Validation(
        fit=FitAgain(characteristics=(row, rate), summary=Distances(), noise=Distances(), suite_latency_s=0.5,
                     proxy_latency_s=0.01, compression=50.0),
        fidelity=Fidelity(rounds=2, widest_half_width=0.01, baseline_noise=0.02, settings=(setting,),
                          failed=(FailedSetting(name="aten=default", cause="no room"),)),
        moved=moved, notes=("a note",),
    )  # fmt: skip
    of_suite = ResultMember(name="cv/x", weight=1.0, latency_s_reference=0.25, processes=(timing,), evidence="replay")
    both = (
        Result(subject=Subject(type="proxy", id=subject, mode="inference"), environment=environment,
               processes=(timing,)),
        Result(subject=Subject(type="suite", id=subject, mode="training"), environment=environment, members=(of_suite,),
               proxy=ProxyTimes(processes=(timing,)), validation=validation),
    )  # fmt: skip
    return [canonical_json(plain(result)).encode() for result in both]


def logs() -> list[bytes]:
    """Two rounds of `validate --resume`."""
    logged = Logged(timing=Timing(latency_s=(0.01,)), environment=describe("cpu"))
    line = {"subject": "a", "environment": "here", "began": 1, "processes": {"baseline": logged, "threads=1": logged}}
    return [(to_json(line) + "\n").encode() * 2]


SEARCH = SearchIdentity(
    mix="0", mode="inference", dtype="float32", budget_s=0.01, compression=None, effort="quick", counters="off", seed=0,
    designs="0", program="0", environment={"device": "cpu", "device_name": "Z80"},  # type: ignore[typeddict-item]
)  # fmt: skip


def journals() -> list[bytes]:
    """Of a search that has tried a design and was killed in the second."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal")
        storage = OwnJournal(path=path)
        with storage.held(), contextlib.closing(Study(storage, SEARCH)) as study:
            for number in range(2):
                claim = study.claim(9)
                assert claim is not None
                if number == 0:
                    study.finish(claim, (0.1, 0.01), 0.01)
        return [path.read_bytes()]
