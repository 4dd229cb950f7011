"""Topologies for SCALE-Sim, the closed form of its cycles, and SCALE-Sim itself."""

from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path

import pytest
from clusters import addmm, attention, convolution, mm, signature, tensor
from exporting import simulators_python, small_manifest

from benchmarks.simulators import scalesim_cycles
from statsnet.exports.build_manifest import manifest_of_signature
from statsnet.exports.manifest import Manifest
from statsnet.exports.registry import export, write
from statsnet.exports.scalesim import ScaleSim, rows_of
from statsnet.exports.systolic import DATAFLOWS, Design, cycles, dims_of, total_cycles, utilisations
from statsnet.signatures.products import Product


def table(manifest: Manifest, name: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(export(ScaleSim(), manifest).files[name].decode())))


def test_one_image_is_a_convolution_whose_input_is_what_its_windows_cover() -> None:
    layer = convolution(tensor(1, 3, 30, 31), tensor(8, 3, 3, 3), stride=2, padding=1)
    head, row = table(manifest_of_signature(signature(layer), "one"), "conv.csv")
    assert row == ["conv0000", "31", "33", "3", "3", "3", "8", "2", ""]  # 15 and 16 positions with stride 2
    assert len(head) == len(row)


@pytest.mark.parametrize(
    ("layer", "row"),
    [
        (convolution(tensor(4, 3, 10, 10), tensor(8, 3, 3, 3)), (4 * 64, 8, 27)),  # a batch
        (convolution(tensor(1, 8, 10, 10), tensor(8, 1, 3, 3), groups=8), (64, 1, 9)),  # groups
        (convolution(tensor(1, 3, 10, 10), tensor(8, 3, 3, 3), dilation=2), (36, 8, 27)),
        (addmm(7, 11, 5), (7, 5, 11)),
    ],
)
def test_all_other_products_are_rows_of_matrix_products(layer, row) -> None:
    manifest = manifest_of_signature(signature(layer), "one")
    assert tuple(map(int, table(manifest, "gemm.csv")[1][1:4])) == row
    assert rows_of(manifest)[0].repeats == (8 if row == (64, 1, 9) else 1)


def test_multiply_adds_are_exact() -> None:
    manifest = manifest_of_signature(signature(
        convolution(tensor(2, 6, 15, 9), tensor(8, 3, 3, 2), stride=2, padding=1, groups=2, calls=3),
        attention(2, 3, 10, 8, causal=True), mm(3, 5, 7, calls=2),
    ), "three")  # fmt: skip
    repeats = table(manifest, "repeats.csv")[1:]
    assert sum(float(r[2]) * float(r[3]) for r in repeats) == pytest.approx(manifest.totals.macs)


def test_names_never_hold_what_scalesim_takes_for_depthwise() -> None:
    assert not any("DP" in r.name for r in rows_of(small_manifest()))


def test_an_array_that_holds_the_product_takes_one_fold() -> None:
    product, design = Product(rows=8, columns=4, depth=100), Design(8, 4, "os")
    assert cycles(product, design) == 8 + 4 + 100 - 2 - 1
    assert utilisations(dims_of([product]), [design])[0, 0] == pytest.approx(3200 / (109 * 32))
    twice = total_cycles([(product, 2.0), (product, 1.0)], [design, Design(8, 4, "ws")])
    assert twice.tolist() == [3 * 109, 3 * cycles(product, Design(8, 4, "ws"))]


def test_scalesim_counts_the_closed_form(tmp_path: Path) -> None:
    python = simulators_python("scalesim")
    layers = [convolution(tensor(1, 3, 12, 13), tensor(8, 3, 3, 3), stride=2, padding=1),
              convolution(tensor(2, 4, 6, 6), tensor(5, 4, 3, 3)), mm(33, 40, 17), addmm(1, 64, 50)]  # fmt: skip
    manifest = manifest_of_signature(signature(*layers), "four")
    write(export(ScaleSim(), manifest), tmp_path)
    rows = {kind: [r for r in rows_of(manifest) if r.is_convolution == (kind == "conv")] for kind in ("conv", "gemm")}
    for (array_rows, columns), dataflow in itertools.product(((16, 4),), DATAFLOWS):
        design = Design(array_rows, columns, dataflow)
        for kind, of_kind in rows.items():
            counted = scalesim_cycles(python, tmp_path, kind, design)
            assert counted == [cycles(r.product, design) for r in of_kind], (kind, design)
