"""The format `scalesim`: topologies for SCALE-Sim 3, with exact multiply-adds.

A convolution of one image without groups or dilation is a row of a convolution; every other product is a row of a
matrix product (batch and positions are its rows). SCALE-Sim knows no padding and rounds output sizes up, so a row's
input is exactly what its windows cover. It simulates each distinct row once; repeats.csv says how often each counts.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from importlib import resources

from statsnet.exports.manifest import Layer, Manifest
from statsnet.exports.registry import Exporter
from statsnet.signatures.canonical import canonical_csv
from statsnet.signatures.products import Product, Window

_CONV_HEAD = ("Layer name", "IFMAP Height", "IFMAP Width", "Filter Height", "Filter Width", "Channels", "Num Filter",
              "Strides")  # fmt: skip
_GEMM_HEAD = ("Layer", "M", "N", "K")
_LAYOUT_HEAD = (
    "Layer name", "IFMAP Height Intraline Factor", "IFMAP Width Intraline Factor", "Filter Height Intraline Factor",
    "Filter Width Intraline Factor", "Channel Intraline Factor", "Num Filter Intraline Factor",
    "IFMAP Height Intraline Order", "IFMAP Width Intraline Order", "Channel Intraline Order",
    "IFMAP Height Interline Order", "IFMAP Width Interline Order", "Channel Interline Order",
    "Num Filter Intraline Order", "Channel Intraline Order", "Filter Height Intraline Order",
    "Filter Width Intraline Order", "Num Filter Interline Order", "Channel Interline Order",
    "Filter Height Interline Order", "Filter Width Interline Order",
)  # fmt: skip
_LAYOUT = (1,) * 6 + (0, 1, 2) * 2 + (0, 1, 2, 3) * 2
"""One element to a line, in the order in which they lie in memory. It matters with custom layouts alone."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a topology: `numbers` as SCALE-Sim reads them, and how often it runs in the manifest's unit."""

    name: str
    is_convolution: bool
    numbers: tuple[int, ...]
    product: Product
    repeats: float
    layers: tuple[int, ...]


def sample_config() -> str:
    return resources.files(__package__).joinpath("scalesim.cfg").read_text()


class ScaleSim(Exporter):
    """conv.csv and gemm.csv with a layout each, a sample configuration, and repeats.csv."""

    name = "scalesim"
    title = "SCALE-Sim"

    def reason_against(self, layer: Layer) -> str | None:
        return layer.reason_against_products

    def files(self, manifest: Manifest) -> dict[str, bytes]:
        rows = rows_of(manifest)
        made = {
            "sample.cfg": sample_config().encode(),
            "repeats.csv": _repeats_csv(rows),
        }
        for kind, head, chosen in (
            ("conv", _CONV_HEAD, [r for r in rows if r.is_convolution]),
            ("gemm", _GEMM_HEAD, [r for r in rows if not r.is_convolution]),
        ):
            if chosen:
                made[f"{kind}.csv"] = _table(head, [(r.name, *r.numbers) for r in chosen])
                made[f"{kind}_layout.csv"] = _table(_LAYOUT_HEAD, [(r.name, *_LAYOUT) for r in chosen])
        return made

    def notes(self, manifest: Manifest) -> list[str]:
        made = ["SCALE-Sim has no element type, batch, groups or dilation: batches and groups are in the repeats"]
        if any(p.density < 1 for layer in manifest.layers for p in layer.products):
            made.append("products that are needed in part (causal attention, sparse weights) are dense rows whose "
                        "repeats carry the density")  # fmt: skip
        return made


def rows_of(manifest: Manifest) -> list[Row]:
    """Each distinct row once, in the order of the layers."""
    repeats: dict[tuple[bool, tuple[int, ...]], list[tuple[float, int]]] = defaultdict(list)
    products: dict[tuple[bool, tuple[int, ...]], Product] = {}
    for layer in manifest.layers:
        for product in layer.products:
            numbers = _as_convolution(product.window)
            key = (numbers is not None, numbers or (product.rows, product.columns, product.depth))
            repeats[key].append((layer.repeats * product.repeats, layer.index))
            products.setdefault(key, product.alone)
    return [
        Row(
            name=f"{'conv' if key[0] else 'gemm'}{number:04}", is_convolution=key[0], numbers=key[1],
            product=products[key], repeats=sum(r for r, _ in found),
            layers=tuple(dict.fromkeys(index for _, index in found)),
        )
        for number, (key, found) in enumerate(repeats.items())
    ]  # fmt: skip


def _as_convolution(window: Window | None) -> tuple[int, ...] | None:
    """Input height and width, filter height and width, channels, filters, stride; None for what is no such row."""
    if window is None or window.images != 1 or window.groups != 1 or window.transposed or len(window.kernel) > 2:
        return None
    if any(d != 1 for d in window.dilation) or len(set(window.stride)) != 1:
        return None
    one = (1,) * (2 - len(window.kernel))
    return (*one, *window.covered, *one, *window.kernel, window.in_channels, window.out_channels, window.stride[0])


def _table(head: tuple[str, ...], rows: list[tuple[str | int, ...]]) -> bytes:
    """SCALE-Sim takes off what follows the last comma of a line."""
    return "".join(",".join(map(str, line)) + ",\n" for line in (head, *rows)).encode("ascii")


def _repeats_csv(rows: list[Row]) -> bytes:
    head = ("name", "topology", "repeats", "macs", "layers")
    return canonical_csv(head, (
        (r.name, "conv.csv" if r.is_convolution else "gemm.csv", r.repeats, r.product.dense_macs,
         " ".join(map(str, r.layers))) for r in rows
    )).encode()  # fmt: skip
