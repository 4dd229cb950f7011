"""A proxy for simulators: a folder whose network runs, and which is exported with the repeats of its layers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from clusters import addmm, convolution, mm, relu, signature, tensor
from exporting import mix_of
from torch.utils.flop_counter import FlopCounterMode

from statsnet.analysis.audit_files import audit_path
from statsnet.cli import main
from statsnet.errors import FileFormatError, UsageError
from statsnet.evaluation.validate import ValidateOptions, validate_proxy
from statsnet.exports.build_manifest import ROOFLINE, manifest_of_mix
from statsnet.exports.conformance import check_exporter
from statsnet.exports.manifest import Manifest, manifest_json
from statsnet.exports.registry import all_formats
from statsnet.exports.scaling import scaled
from statsnet.exports.simulator_proxy import SimulatorProxy, manifest_of_simulation, simulator_proxy
from statsnet.exports.subjects import manifest_of_proxy
from statsnet.measure.network_file import load_network
from statsnet.measure.process import MeasuringProcess
from statsnet.profiling.costs import cost_of
from statsnet.proxy.folder import open_proxy
from statsnet.proxy.private_fit import fingerprints_in
from statsnet.proxy.spec import rewrite, write_folder
from statsnet.signatures.levels import coarsen
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import WorkloadName
from statsnet.signatures.rounding import binned_size
from statsnet.signatures.simulation import Reference
from statsnet.signatures.storage import load_fit, load_spec, save


def a_mix(mode: str = "inference", *, is_private: bool = False) -> Mix:
    one = signature(
        convolution(tensor(4, 64, 28, 28), tensor(64, 64, 3, 3), padding=1, calls=9), addmm(24, 512, 48), relu(999),
        mode=mode,
    )  # fmt: skip
    line = convolution(tensor(2, 32, 2000), tensor(64, 32, 5), stride=2, calls=9)
    other = signature(mm(8, 256, 96, calls=7), line, mode=mode)
    if not is_private:
        one, other = (replace(s, workload=WorkloadName(domain="cv", name=n)) for s, n in ((one, "one"), (other, "b")))
    return replace(mix_of(one=(1.0, one), other=(1.0, other)), mode=mode)


def made(mode: str = "inference", *, is_private: bool = False) -> tuple[SimulatorProxy, Manifest]:
    mix = a_mix(mode, is_private=is_private)
    whole = manifest_of_mix(mix)
    few = scaled(whole, macs=2_000_000, quantum=16)
    return simulator_proxy(mix, whole, few), few


def test_an_export_of_the_folder_is_that_of_the_scaled_layers(tmp_path: Path) -> None:
    proxy, few = made()
    write_folder(proxy.spec, proxy.fit, tmp_path / "p")
    again = manifest_of_proxy(open_proxy(tmp_path / "p"))
    assert [(x.operator, x.args, x.outputs, x.repeats, x.dtype) for x in again.layers] == [
        (x.operator, x.args, x.outputs, x.repeats, x.dtype) for x in few.layers
    ]
    assert [x.scaling.cuts for x in again.layers if x.scaling] == [x.scaling.cuts for x in few.layers if x.scaling]
    assert again.not_preserved == few.not_preserved and again.totals.macs == pytest.approx(few.totals.macs)
    assert [row.operator for row in again.left_out] == ["aten.relu.default"]
    for exporter in all_formats().values():
        check_exporter(exporter, again)


def test_the_network_has_the_layers_and_runs(tmp_path: Path) -> None:
    proxy, few = made()
    write_folder(proxy.spec, proxy.fit, tmp_path / "p")
    network = load_network(str(tmp_path / "p"))
    outputs = network.make_step(network.build())()
    assert [list(y.shape) for y in outputs] == [x.outputs[0]["shape"] for x in few.layers]
    assert list(network.REPEATS) == pytest.approx([x.repeats for x in few.layers], rel=1e-8)
    assert "aten.convolution.default" in {x.operator for x in few.layers}
    counter = FlopCounterMode(display=False)
    with counter:
        network.make_step(network.build())()
    assert counter.get_total_flops() == 2 * sum(p.dense_macs for x in few.layers for p in x.products)


def test_the_same_request_gives_the_same_folder(tmp_path: Path) -> None:
    for name in ("one", "other"):
        proxy, _ = made()
        write_folder(proxy.spec, proxy.fit, tmp_path / name)
    folders = [{p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "other")]
    assert folders[0] == folders[1]
    rewrite(tmp_path / "one")  # everything follows from spec.json and fit.json
    assert {p.name: p.read_bytes() for p in (tmp_path / "one").iterdir()} == folders[1]


def test_it_says_that_nothing_was_measured(tmp_path: Path) -> None:
    proxy, few = made()
    write_folder(proxy.spec, proxy.fit, tmp_path / "p")
    fit = json.loads((tmp_path / "p" / "fit.json").read_text())
    assert fit["simulation"]["measured"] is False
    assert len(fit["simulation"]["predictions"]) == len(few.layers)
    text = (tmp_path / "p" / "README.md").read_text()
    assert "Nothing was measured" in text and "## Not preserved" in text
    assert (
        "Nothing of it" in (tmp_path / "p" / "network.py").read_text()
        or "nothing of it" in (tmp_path / "p" / "network.py").read_text()
    )
    assert proxy.fit.summary.step_latency_s is None and proxy.spec.budget_s is None


def test_a_training_mix_has_its_gradients_as_layers(tmp_path: Path) -> None:
    proxy, _ = made("training")
    write_folder(proxy.spec, proxy.fit, tmp_path / "p")
    network = load_network(str(tmp_path / "p"))
    assert proxy.spec.mode == "training" and network.MODE == "inference"


def test_weights_are_shares_of_time_on_a_recorded_device() -> None:
    """A clock under which all operators of a mix take equally long."""
    mix = a_mix()
    device = Reference(kind="recorded", device="a toy")
    whole = manifest_of_mix(mix, reference=device, clock=lambda cluster: 1e-3 * cluster.calls)
    calls = {m.name: m.signature.calls_per_step for m in mix.members}
    for member in whole.members:
        assert member.latency_s == pytest.approx(1e-3 * calls[member.name])
    few = scaled(whole, macs=2_000_000, quantum=16)
    proxy = simulator_proxy(mix, whole, few, environment={})
    assert proxy.spec.simulation is not None
    assert proxy.spec.simulation.reference.words == "a toy, from its record"
    assert {m.name: m.latency_s for m in proxy.spec.mix} == pytest.approx({m.name: m.latency_s for m in whole.members})


def test_a_spec_whose_block_is_no_layer_is_refused() -> None:
    proxy, _ = made()
    towers = list(proxy.spec.towers)
    block = towers[0].blocks[0]
    for changed in (replace(block, kind="softmax"), replace(block, config={"rows": "many"})):
        towers[0] = replace(towers[0], blocks=(changed,))
        with pytest.raises(FileFormatError, match="is no layer"):
            manifest_of_simulation(replace(proxy.spec, towers=tuple(towers)), None)
    with pytest.raises(ValueError, match="one block for each"):
        replace(proxy.spec, towers=proxy.spec.towers[1:])
    with pytest.raises(ValueError, match="budget_s"):
        replace(proxy.spec, simulation=None)


def test_without_a_fit_the_layers_are_still_exported() -> None:
    proxy, few = made()
    bare = manifest_of_simulation(proxy.spec, None)
    assert len(bare.layers) == len(few.layers) and not bare.not_preserved
    assert manifest_json(bare) == manifest_json(manifest_of_simulation(proxy.spec, None))


def test_it_is_not_validated(tmp_path: Path) -> None:
    proxy, _ = made()
    write_folder(proxy.spec, proxy.fit, tmp_path / "p")
    with pytest.raises(UsageError, match="is one for simulators"):
        validate_proxy(tmp_path / "p", ValidateOptions())


def test_numbers_of_repeats_have_few_digits() -> None:
    """So that other processors, whose sums differ in the last bits, write the same files."""
    _, few = made()
    assert all(float(f"{x.repeats:.6g}") == x.repeats for x in few.layers)
    assert np.isfinite([x.repeats for x in few.layers]).all()


def test_of_private_members_sizes_are_told_in_bins_and_figures_with_three_digits(tmp_path: Path) -> None:
    proxy, few = made(is_private=True)
    write_folder(proxy.spec, proxy.fit, tmp_path / "p")
    spec, fit = load_spec(tmp_path / "p" / "spec.json"), load_fit(tmp_path / "p" / "fit.json")
    assert spec.level == "full" and spec.simulation is not None and fit.simulation is not None
    exact = {n for x in few.layers if x.scaling for p in (x.scaling.unscaled,) for n in (p.rows, p.columns, p.depth)}
    told = {n for x in spec.simulation.layers for p in (x.unscaled,) for n in (p.rows, p.columns, p.depth, p.batch)}
    assert {1996, 160}.issubset(exact) and not {1996, 160} & told
    assert all(n == binned_size(n) for n in told)
    figures = [
        fit.simulation.suite_macs, fit.simulation.suite_latency_s, *(row.target for row in fit.characteristics),
        *(x.macs_share for x in spec.simulation.layers), *(x.repeats for x in fit.simulation.left_out),
        *(share for x in fit.simulation.left_out for share in (x.macs_share, x.time_share)),
    ]  # fmt: skip
    assert len(figures) > 8 and all(x is None or x == float(f"{x:.3g}") for x in figures)
    again = manifest_of_proxy(open_proxy(tmp_path / "p"))
    assert [x.args for x in again.layers] == [x.args for x in few.layers], "the network is the same"
    predictions = [x.scaling.prediction for x in again.layers if x.scaling]
    assert [p.utilisation_unscaled for p in predictions] == pytest.approx(
        [p.utilisation_unscaled for p in fit.simulation.predictions]
    ), "they tell no more than the sizes do"
    assert all(cut.factor >= 1 for x in again.layers if x.scaling for cut in x.scaling.cuts)


def test_whoever_makes_the_fit_its_figures_are_rounded_and_audited(tmp_path: Path) -> None:
    private, _ = made(is_private=True)
    shipped, _ = made()
    simulation = shipped.fit.simulation
    assert simulation is not None and simulation.suite_macs != float(f"{simulation.suite_macs:.3g}")
    exact = replace(private.fit, characteristics=shipped.fit.characteristics, simulation=simulation)
    write_folder(private.spec, exact, tmp_path / "p")
    assert [problem for file in audit_path(tmp_path / "p") for problem in file.problems] == []
    fit = load_fit(tmp_path / "p" / "fit.json")
    assert fit.simulation is not None and fit.simulation.suite_macs == float(f"{simulation.suite_macs:.3g}")

    save(tmp_path / "p" / "fit.json", exact)
    problems = [problem for file in audit_path(tmp_path / "p") for problem in file.problems]
    assert any("more than 3 digits" in problem for problem in problems)
    assert fingerprints_in(shipped.spec, shipped.fit) == []
    told = fingerprints_in(replace(shipped.spec, level="coarse"), private.fit)
    assert [text.partition(":")[0] for text in told] == [
        "simulation.layers[].unscaled", "simulation.layers[].macs_share",
    ]  # fmt: skip


def test_it_is_made_without_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command, in a process in which no task can be run."""
    monkeypatch.setattr(MeasuringProcess, "__init__", None)
    words = ["synthesize", "--mix", "recsys/ncf:0.5,cv/alexnet:0.5", "--macs", "2M", "-o", str(tmp_path / "p")]
    assert main(words) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "Nothing of it was measured" in said and "not preserved" in said
    assert open_proxy(tmp_path / "p").spec.simulation is not None


ODD = (11, 77, 101, 321, 709, 1283, 11 * 77, 11 * 101 * 101, 37 * 9)
"""Sizes that no bin has, and those of the products that they give."""


@pytest.mark.parametrize(("reference", "quantum"), [("roofline", 1), ("recorded", 16), ("roofline", 32)])
def test_coarse_members_give_no_size_of_theirs_on_any_device(reference: str, quantum: int, tmp_path: Path) -> None:
    exact = signature(
        addmm(847, 321, 1283, calls=5), mm(847, 1283, 709, calls=2),
        convolution(tensor(11, 37, 101, 101), tensor(83, 37, 3, 3), padding=1, calls=9),
    )  # fmt: skip
    coarse = coarsen(exact, "coarse", cost_of)
    mix = mix_of(one=(1.0, coarse))
    device = ROOFLINE if reference == "roofline" else Reference(kind="recorded", device="a toy")
    whole = manifest_of_mix(mix, reference=device, clock=None if device == ROOFLINE else lambda c: 1e-3 * c.calls)
    proxy = simulator_proxy(mix, whole, scaled(whole, macs=20_000_000, quantum=quantum))
    write_folder(proxy.spec, proxy.fit, tmp_path / "p")
    assert proxy.spec.level == "coarse" and proxy.spec.simulation is not None
    numbers = {int(n) for p in (tmp_path / "p").glob("*.[jp]*") for n in re.findall(r"\b\d+\b", p.read_text())}
    assert not numbers & {n for n in ODD if n > 16}
    told = [x.unscaled for x in proxy.spec.simulation.layers]
    assert all(n == binned_size(n) for p in told for n in (p.rows, p.columns, p.depth))
    assert [problem for file in audit_path(tmp_path / "p") for problem in file.problems] == []
