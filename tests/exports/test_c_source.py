"""The C program: compiled and run, natively, emulated and in a cache simulator."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from clusters import cluster, convolution, mm, relu, signature, tensor
from exporting import program, small_manifest

from statsnet.exports.build_manifest import manifest_of_signature
from statsnet.exports.c_source import STREAM, CSource, Sizes, rows_of
from statsnet.exports.manifest import Manifest
from statsnet.exports.registry import export, write
from statsnet.exports.scaling import scaled

FLAGS = ("-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "proxy.c", "-lm")


def compiled(folder: Path, manifest: Manifest, compiler: str = "cc", *more: str) -> Path:
    write(export(CSource(), manifest), folder)
    subprocess.run([program(compiler), *more, *FLAGS, "-o", "a.out"], cwd=folder, check=True)
    return folder / "a.out"


def printed(*command: str | Path) -> dict[str, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(line.split() for line in done.stdout.splitlines())


def test_it_computes_every_multiply_add_of_its_table(tmp_path: Path) -> None:
    manifest = small_manifest()
    found = printed(compiled(tmp_path, manifest))
    rows = rows_of(manifest)
    assert int(found["layers"]) == len(rows)
    assert int(found["macs"]) == sum(r.macs for r in rows)
    assert float(found["weighted_macs"]) == pytest.approx(manifest.totals.macs)
    assert printed(tmp_path / "a.out", "2")["macs"] == str(2 * sum(r.macs for r in rows))


def test_products_and_convolutions_are_those_of_numpy(tmp_path: Path) -> None:
    """The checksum is that of the same float32 sums in the same order."""
    import numpy as np

    def data(count: int, state: int) -> np.ndarray:
        numbers = []
        for _ in range(count):
            state = (state * 1664525 + 1013904223) % 2**32
            numbers.append((state - 2**32 * (state >= 2**31)) >> 8)
        return np.array(numbers, dtype=np.float32) / np.float32(2**23)

    layers = signature(mm(3, 4, 5), convolution(tensor(1, 4, 5, 4), tensor(6, 2, 2, 3), stride=2, groups=2))
    found = printed(compiled(tmp_path, manifest_of_signature(layers, "two")))
    inputs, weights = data(4 * 4 * 3, 1), data(6 * 2 * 2 * 3, 2)  # the windows cover 4 x 3
    product = np.zeros((3, 5), np.float32)
    for k in range(4):
        product += inputs[:12].reshape(3, 4)[:, k, None] * weights[:20].reshape(4, 5)[k]
    x, w, out = inputs.reshape(4, 4, 3), weights.reshape(6, 2, 2, 3), np.zeros((6, 2, 1), np.float32)
    for f in range(6):
        for c in range(2):
            for ky in range(2):
                for kx in range(3):
                    out[f] += w[f, c, ky, kx] * x[f // 3 * 2 + c, ky : ky + 3 : 2, kx : kx + 1]
    checksum = 14695981039346656037
    for bits in np.concatenate([product.ravel(), out.ravel()]).view(np.uint32).tolist():
        checksum = (checksum ^ bits) * 1099511628211 % 2**64
    assert found["checksum"] == f"{checksum:016x}"


def test_the_checksum_is_the_same_on_another_processor(tmp_path: Path) -> None:
    manifest = scaled(small_manifest(), macs=20_000, quantum=4)
    here = printed(compiled(tmp_path / "here", manifest))
    emulator = program("qemu-riscv64")
    there = compiled(tmp_path / "there", manifest, "riscv64-linux-gnu-gcc", "-static")
    assert printed(emulator, there) == here


def test_the_checksum_is_the_same_in_a_cache_simulator(tmp_path: Path) -> None:
    binary = compiled(tmp_path, scaled(small_manifest(), macs=20_000, quantum=4))
    cachegrind = (program("valgrind"), "-q", "--tool=cachegrind", "--cachegrind-out-file=/dev/null")
    assert printed(*cachegrind, binary) == printed(binary)


def test_streams_read_and_write_the_layer_s_bytes() -> None:
    (row,) = rows_of(manifest_of_signature(signature(relu(10, 7)), "relu"))
    assert row.sizes == Sizes(STREAM, 70, 70) and row.macs == 0


def test_what_reads_at_places_that_depend_on_data_is_left_out() -> None:
    rows = cluster(
        "aten.embedding.default", [tensor(50, 16), tensor(12, dtype="int64"), -1, False, False], tensor(12, 16)
    )
    made = export(CSource(), manifest_of_signature(signature(rows, relu(4)), "two"))
    assert [(r.operator, r.reason) for r in made.left_out] == [
        ("aten.embedding.default", "it reads or writes at places that depend on data")
    ]
    fourier = cluster("aten._fft_r2c.default", [tensor(8), [0], 0, True], tensor(5, dtype="complex64"))
    (row,) = export(CSource(), manifest_of_signature(signature(fourier, relu(4)), "two")).left_out
    assert row.reason == "it is neither products nor one pass over its operands"
