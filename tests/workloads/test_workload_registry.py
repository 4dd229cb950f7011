"""The registry: what is listed, how names are found, and how third parties add to it."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from statsnet.errors import UsageError
from statsnet.workloads import registry
from statsnet.workloads import workload as workload_decorator

DOMAINS = ["cv", "detection", "generation", "graph", "llm", "micro", "nlp", "recsys", "rl", "speech"]


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.names()
    monkeypatch.setattr(registry, "_workloads", dict(registry._workloads))
    monkeypatch.setattr(registry, "_failed", {})


def test_the_reference_workloads_are_listed() -> None:
    built_in = [entry.full_name for entry in registry.all_workloads() if entry.builtin]
    assert {"cv/resnet50", "nlp/bert_base", "recsys/dlrm", "micro/deepbench_gemm"} <= set(built_in)
    assert registry.domains() == DOMAINS
    assert [entry.name for entry in registry.in_domain("graph")] == ["gcn", "graphsage", "rgat"]


@pytest.mark.parametrize("entry", registry.all_workloads(), ids=lambda entry: entry.full_name)
def test_every_row_is_complete(entry: registry.Workload) -> None:
    assert entry.title
    assert entry.source
    assert {"standard", "small", "tiny"} <= set(entry.presets)
    assert entry.parameters
    assert entry.sample


def test_names_match_shell_patterns() -> None:
    assert registry.names("rl/*") == ["rl/a3c", "rl/dqn", "rl/minigo"]
    assert registry.names("*gnet*") == []
    assert registry.names("resnet*") == ["cv/resnet152", "cv/resnet50"]


def test_a_workload_has_a_short_and_a_full_name() -> None:
    assert registry.get("resnet50") is registry.get("cv/resnet50")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("resnet-50", "cv/resnet50"),
        ("cv/resnet5", "cv/resnet50"),
        ("BERT", "nlp/bert_base"),
        ("mobilenet", "cv/mobilenet_v2"),
        ("deepspech2", "speech/deepspeech2"),
    ],
)
def test_an_unknown_name_gets_near_matches(typed: str, meant: str) -> None:
    with pytest.raises(UsageError, match="there is no workload") as caught:
        registry.get(typed)
    assert meant in caught.value.hint


def test_a_name_without_near_match_gets_a_next_step() -> None:
    with pytest.raises(UsageError) as caught:
        registry.get("zzzzzz")
    assert "statsnet list" in caught.value.hint


def test_an_unknown_domain_names_those_there_are() -> None:
    with pytest.raises(UsageError, match="no domain") as caught:
        registry.in_domain("audio")
    assert "speech" in caught.value.hint


@pytest.mark.usefixtures("clean_registry")
def test_the_decorator_registers_a_factory() -> None:
    @workload_decorator(name="own", domain="lab", title="own", source="here", presets={"small": {"batch": 1}})
    def make(batch: int = 2) -> None: ...

    entry = registry.get("own")
    assert entry.factory is make
    assert not entry.builtin
    assert make.__statsnet_workload__ is entry


@pytest.mark.usefixtures("clean_registry")
def test_a_short_name_in_two_domains_is_refused() -> None:
    registry.register("a.b:make", name="resnet50", domain="lab", title="", source="")
    with pytest.raises(UsageError, match="several") as caught:
        registry.get("resnet50")
    assert caught.value.hint == "cv/resnet50 or lab/resnet50"


@pytest.mark.usefixtures("clean_registry")
def test_two_factories_cannot_share_a_name() -> None:
    with pytest.raises(UsageError, match="two workloads are named cv/resnet50"):
        registry.register("other:make", name="resnet50", domain="cv", title="", source="")
    with pytest.raises(UsageError, match="not a workload name"):
        registry.register("other:make", name="a/b", domain="cv", title="", source="")


@pytest.mark.usefixtures("clean_registry")
def test_entry_points_are_loaded_and_a_broken_one_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def add() -> None:
        registry.register("plugin.models:make", name="extra", domain="plugin", title="", source="")

    def fail() -> None:
        raise ImportError("no module named missing")

    installed = [SimpleNamespace(name="good", load=add), SimpleNamespace(name="bad", load=fail)]
    asked = []

    def entry_points(group: str) -> list[SimpleNamespace]:
        asked.append(group)
        return installed

    monkeypatch.setattr(registry.importlib.metadata, "entry_points", entry_points)
    monkeypatch.setattr(registry, "_loaded", False)
    assert "plugin/extra" in registry.names()
    assert registry.failed_extensions() == {"bad": "ImportError: no module named missing"}
    assert asked == ["statsnet.workloads"]


def test_listing_needs_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = sys.modules['numpy'] = None\n"
        "import statsnet.workloads as w; print(len(w.names('*')), w.get('bert_base').parameters)\n"
        "try: w.build('gpt2', mode='inference')\n"
        "except w.building.WorkloadError as error: print(error.hint)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == [f"{len(registry.names())} 109482240", "pip install torch"]
