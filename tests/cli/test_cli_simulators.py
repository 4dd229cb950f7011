"""`statsnet synthesize --macs` and its folder in the other commands; recorded devices as references."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from statsnet.cli import main

MIX = "recsys/ncf:0.5,cv/alexnet:0.5"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulators") / "p"
    assert main(["synthesize", "--mix", MIX, "--macs", "2M", "--quantum", "16", "-o", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("format_", ["scalesim", "c", "manifest"])
def test_it_is_exported_as_it_is(format_: str, proxy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(proxy), "--format", format_, "-o", str(tmp_path / "x")]) == 0
    assert "scaled layer" in capsys.readouterr().out
    manifest = json.loads((tmp_path / "x" / "manifest.json").read_text())
    spec = json.loads((proxy / "spec.json").read_text())
    assert [x["repeats"] for x in manifest["layers"]] == [x["repeats"] for x in spec["simulation"]["layers"]]
    assert manifest["layer_mode"] == "scaled" and manifest["not_preserved"]


def test_the_other_commands_know_it(
    proxy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["show", str(proxy / "spec.json")]) == 0
    assert "A proxy for simulators, for 2 workloads" in capsys.readouterr().out
    assert main(["show", str(proxy / "fit.json")]) == 0
    assert "Nothing of it was measured" in capsys.readouterr().out
    monkeypatch.chdir(proxy.parent)
    assert main(["list", "proxies"]) == 0
    for measuring in (["validate"], ["explain", "--settings", "threads=1"], ["update"]):
        assert main([measuring[0], str(proxy), *measuring[1:]]) == 2
        assert "for simulators" in capsys.readouterr().err
    assert main(["audit", str(proxy)]) == 0


def test_weights_follow_the_reference_device(tmp_path: Path) -> None:
    shares = {}
    for name in ("roofline", "recorded:nvidia-t4", "h100-sxm"):
        folder = tmp_path / name.replace(":", "-")
        assert main(["export", "--mix", MIX, "--format", "manifest", "--reference", name, "-o", str(folder)]) == 0
        manifest = json.loads((folder / "manifest.json").read_text())
        shares[name] = [m["latency_s"] for m in manifest["members"]]
        assert sum(m["steps"] * m["latency_s"] for m in manifest["members"]) == pytest.approx(1)
        assert manifest["totals"]["time_s"] == pytest.approx(1, rel=1e-6)
    assert manifest["reference"] == {
        "kind": "recorded", "device": "nvidia-h100-sxm", "environment": None, "flops_per_s": None, "bytes_per_s": None
    }  # fmt: skip
    assert len({tuple(times) for times in shares.values()}) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--macs", "2M", "--budget", "5ms"), "--budget and --macs were both given"),
        (("--macs", "2M", "--time-limit", "5s"), "--time-limit and --macs were both given"),
        (("--macs", "2M", "--device", "cpu"), "--device and --macs were both given"),
        (("--quantum", "16"), "--quantum was given without --macs"),
        (("--reference", "roofline"), "--reference was given without --macs"),
        (("--signed",), "--signed was given without --macs"),
        (("--unsigned",), "--unsigned was given without --macs"),
        (("--macs", "many"), "'many' is not a count"),
        (("--macs", "10"), "as little as 10"),
        (("--macs", "2M", "--reference", "abacus"), "'abacus' names no recorded device"),
    ],
)
def test_bad_requests_are_one_sentence(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["synthesize", "--mix", MIX, *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.out == "" and not list(tmp_path.iterdir())


def test_what_a_proxy_has_chosen_is_not_chosen_again(
    proxy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for given in (("--layers", "scaled"), ("--reference", "measured")):
        assert main(["export", str(proxy), "--format", "c", "-o", str(tmp_path / "x"), *given]) == 2
        assert f"{given[0]} was given for a proxy for simulators" in capsys.readouterr().err
