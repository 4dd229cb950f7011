"""One name for each device."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statsnet.devices.hardware import UNKNOWN, chip_of
from statsnet.devices.names import LONGEST, canonical_name, device_named, is_cpu
from statsnet.errors import UsageError


@pytest.mark.parametrize(
    ("spellings", "name"),
    [
        (("H100-SXM-80GB", "h100_sxm", "NVIDIA H100 80GB HBM3", "nvidia-h100-sxm"), "nvidia-h100-sxm"),
        (("H100-PCIe", "NVIDIA H100 PCIe", "H100-PCIe-80GB"), "nvidia-h100-pcie"),
        (("A100-PCIe-40GB", "NVIDIA A100-PCIE-40GB"), "nvidia-a100-pcie-40gb"),
        (("gfx90a-110CU", "MI250X", "AMD Instinct MI250X"), "amd-mi250x"),
        (("rtx_pro_6000_server",), "nvidia-rtx-pro-6000-blackwell-server"),
        (("1080Ti", "GTX 1080 Ti"), "nvidia-gtx-1080-ti"),
        (("TitanX-Pascal",), "nvidia-titan-x-pascal"),
        (("V100", "Tesla V100"), "nvidia-v100"),
        (("B100", "nvidia b100"), "nvidia-b100"),
        (("MI999", "amd-mi999"), "amd-mi999"),
        (("Acme Blaster 3",), "acme-blaster-3"),
    ],
)
def test_spellings(spellings: tuple[str, ...], name: str) -> None:
    assert {canonical_name(s) for s in spellings} == {name}


@pytest.mark.parametrize(
    ("spelling", "processor"),
    [("AMD EPYC 9R14", True), ("Intel(R) Xeon(R) Platinum 8480C", True), ("AWS Graviton3", True), ("knl-7250", True),
     ("Raspberry Pi 3", True), ("MI300X", False), ("Intel Data Center GPU Max 1550", False), ("Acme", False),
     ("NVIDIA A100 Tensor Core GPU", False), ("Neoverse V2", True)],
)  # fmt: skip
def test_processors_are_told_from_gpus(spelling: str, processor: bool) -> None:
    assert is_cpu(canonical_name(spelling)) == processor


@given(st.text(min_size=1, max_size=100))
def test_a_name_is_its_own_name(text: str) -> None:
    try:
        name = canonical_name(text)
    except UsageError:
        assert not re.search("[a-z0-9]", text.lower()) or len(text.lower()) > LONGEST - len("nvidia-")
        return
    assert len(name) <= LONGEST
    assert canonical_name(name) == name


def test_a_part_of_a_name() -> None:
    known = ["nvidia-h100-sxm", "nvidia-h100-pcie", "amd-mi100", "nvidia-a100-pcie-80gb"]
    assert device_named("h100_sxm", known) == "nvidia-h100-sxm"
    assert device_named("a100", known) == "nvidia-a100-pcie-80gb"
    assert device_named("pcie h100", known) == "nvidia-h100-pcie"
    with pytest.raises(UsageError, match="several") as error:
        device_named("h100", known)
    assert error.value.cause == "known: nvidia-h100-pcie, nvidia-h100-sxm"
    with pytest.raises(UsageError, match="no recorded device"):
        device_named("z80", known)
    with pytest.raises(UsageError, match="'z80' names no measured device") as error:
        device_named("z80", known, noun="measured device", hint="look again")
    assert error.value.hint == "look again"


def test_chips() -> None:
    assert chip_of("nvidia-h100-sxm").cores == 132
    assert chip_of("nvidia-a100-pcie-80gb").cores == 108
    assert chip_of("nvidia-a1000") == UNKNOWN
    assert [chip_of(canonical_name(name)).cores for name in ("gfx1030-36", "gfx1030-30")] == [72, 60]
