"""Nsight Compute's tables: both pages, their units and their oddities.

`ncu_raw.csv` is written from the tool's documentation (raw page, CSV, base units), not recorded on a GPU.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import statistics
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from statsnet.errors import FileFormatError
from statsnet.measure.ncu_csv import CountedKernel, read_counters, read_table

TABLE = Path(__file__).with_name("ncu_raw.csv").read_text(encoding="utf-8")

BYTES = "dram__bytes.sum"

DETAILS = """==PROF== Connected to process 7 (/usr/bin/python3.11)
the program's own words
"ID","Process ID","Kernel Name","Context","Block Size","Grid Size","Section Name","Metric Name","Metric Unit","Metric Value","Rule Name"
"0","7","void f<int, (int)4>(T1)","1","(256, 1, 1)","(1024, 2, 1)","Speed Of Light","Memory Throughput","%","61.84",
"0","7","void f<int, (int)4>(T1)","1","(256, 1, 1)","(1024, 2, 1)","Speed Of Light","Duration","us","21,058.50"
"0","7","void f<int, (int)4>(T1)","1","(256, 1, 1)","(1024, 2, 1)","Memory","Memory Throughput","Gbyte/s","196.50"
"0","7","void f<int, (int)4>(T1)","1","(256, 1, 1)","(1024, 2, 1)","","dram__bytes_read.sum","Mbyte","1.5"
"0","7","void f<int, (int)4>(T1)","1","(256, 1, 1)","(1024, 2, 1)","","dram__bytes_write.sum","Kbyte","250"
"0","7","void f<int, (int)4>(T1)","1","(256, 1, 1)","(1024, 2, 1)","Occupancy","Achieved Occupancy","%","96.26"
"0","7","void f<int, (int)4>(T1)","1","(256, 1, 1)","(1024, 2, 1)","","Executed Ipc Active","","n/a"
"0","7","void f<int, (int)4>(T1)","1","(256, 1, 1)","(1024, 2, 1)","Occupancy","","","","A rule"
==WARNING== something
"1","7","g","1","(32, 1, 1)","(1, 1, 1)","","SM Frequency","cycle/nsecond","1.25"
"""  # noqa: E501


def test_values_are_parts_of_one_rates_and_bytes() -> None:
    gemm, relu = read_table(TABLE)
    assert gemm.name == "ampere_sgemm_128x64_nn"
    expected = {"achieved_occupancy": 0.375, "ipc": 2.25, "l2_hit_rate": 0.805, "warp_execution_efficiency": 1.0,
                "dram_bytes": 3e6, "stall_synchronization": 0.13}  # fmt: skip
    assert {name: gemm.values[name] for name in expected} == pytest.approx(expected)
    assert relu.values["warp_execution_efficiency"] == 0.5
    assert relu.values["dram_bytes"] is None  # a part of the sum is n/a
    assert relu.values["sm_utilization"] is None  # the table has no such column


def test_the_details_page_with_mixed_units_rules_and_short_rows() -> None:
    first, second = read_table(DETAILS)
    assert (first.name, second.name) == ("void f<int, (int)4>(T1)", "g")
    assert first.values["dram_bytes"] == pytest.approx(1.75e6)
    assert first.values["achieved_occupancy"] == pytest.approx(0.9626)
    assert first.values["ipc"] is None  # n/a
    assert set(second.values.values()) == {None}


@pytest.mark.parametrize(
    ("unit", "factor"),
    [("nsecond", 1e-9), ("ns", 1e-9), ("usecond", 1e-6), ("ms", 1e-3), ("second", 1.0), ("s", 1.0), ("byte", 1.0),
     ("Kbyte", 1e3), ("Tbyte", 1e12), ("hz", 1.0), ("Mhz", 1e6), ("Gbyte/second", 1e9), ("byte/us", 1e6), ("%", 1.0),
     ("", 1.0), ("register/thread", 1.0), ("inst/cycle", 1.0), ("msecond", 1e-3), ("Kbyte/block", 1e3),
     ("gbyte", 1e9), ("Usecond", 1e-6), ("mbyte/Nsecond", 1e15), ("Ms", 1e-3), ("Mibyte", 2**20), ("KiB/s", 2**10),
     ("GB", 1e9), ("B", 1.0)],
)  # fmt: skip
def test_units(unit: str, factor: float) -> None:
    (kernel,) = read_table(
        f'"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n"0","k","{BYTES}","{unit}","1,000"\n'
    )
    assert kernel.values["dram_bytes"] == pytest.approx(1000 * factor)


@pytest.mark.parametrize(
    ("columns", "cells"),
    [('"Metric Name","Metric Unit","Metric Value"', f'"{BYTES}","","2.5"'), (f'"{BYTES}"', '"2.5"')],
    ids=["details page", "raw page"],
)  # fmt: skip
@pytest.mark.parametrize("other", ["the program says", "it says, with commas", '"'])
def test_columns_in_any_order_beside_short_and_foreign_rows(columns: str, cells: str, other: str) -> None:
    (kernel,) = read_table(f'"Kernel Name","ID",{columns}\n"k","0",{cells}\n{other}\n')
    assert (kernel.name, kernel.values["dram_bytes"]) == ("k", 2.5)


def test_a_table_that_somebody_sorted() -> None:
    """By metrics, from the last kernel to the first; two processes that count from 0 stay as they stand."""
    head = '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
    rows = [f'"{i}","7","k{i}","{metric}","%","{i + 1}"' for metric in ("SOL SM", "L2 Hit Rate") for i in (10, 9, 1)]
    kernels = read_table("\n".join([head, *rows]))
    assert [(k.name, k.values["sm_utilization"], k.values["l2_hit_rate"]) for k in kernels] == [
        (f"k{i}", pytest.approx((i + 1) / 100), pytest.approx((i + 1) / 100)) for i in (1, 9, 10)
    ]
    rows += [row.replace('"7"', '"8"') for row in rows]
    assert [k.name for k in read_table("\n".join([head, *rows]))] == ["k10", "k9", "k1"] * 2


@pytest.mark.parametrize(("text", "value"), [("1.205,500", 1205.5), ("0,125", 0.125), ("1\u202f205,500", 1205.5)])
def test_a_decimal_comma_before_three_digits(text: str, value: float) -> None:
    (kernel,) = read_table(
        f'"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n"0","k","{BYTES}","byte","{text}"\n'
    )
    assert kernel.values["dram_bytes"] == value


def in_german(table: str) -> str:
    """Numbers in cells of their own as `1.205,00`."""
    return re.sub(r'"\d[\d,]*\.?\d*"', lambda cell: cell[0].translate(str.maketrans(",.", ".,")), table)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("table", [DETAILS, TABLE], ids=["details page", "raw page"])
def test_numbers_with_a_decimal_comma_and_other_separators(table: str, separator: str) -> None:
    rows = csv.reader(line for line in table.splitlines() if line.startswith('"'))
    cells = [separator.join(f'"{cell}"' for cell in row) for row in rows]
    assert read_table(in_german("\n".join(cells))) == read_table(table)


@pytest.mark.parametrize("value", ["9" * 100_000 + "x", "1e999", "9" * 400], ids=["long", "infinite", "digits"])
def test_a_number_that_is_too_large_is_none(value: str) -> None:
    (kernel,) = read_table(f'"ID","Kernel Name","{BYTES}"\n"0","k","{value}"\n')
    assert kernel.values["dram_bytes"] is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b'==PROF== Profiling "f" - 0: 0%\n  f (1, 1, 1)\n    Section: GPU Speed Of Light\n', "text output"),
        (b"a,b\n1,2\n", "no table of Nsight Compute"),
        (b"\x00\x01\x02" * 9, "binary"),
        (b"\x1f\x8bxx", "damaged gzip"),
        (b'"ID","Kernel Name","Metric Name"\n', "holds no kernel"),
        (b'{"traceEvents": []}', "no table of Nsight Compute"),
        (b'"ID","Kernel Name","a"\n"0","' + b"k" * 200_000 + b'","1"\n', "damaged table"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "counters.csv").write_bytes(content)
    with pytest.raises(FileFormatError) as error:
        read_counters(tmp_path / "counters.csv")
    assert said in f"{error.value.message} {error.value.cause}"
    assert error.value.hint
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_counters(tmp_path / "missing.csv")


def recordings() -> Path:
    folder = os.environ.get("STATSNET_SHARED_DATA")
    if not folder:
        pytest.skip("STATSNET_SHARED_DATA names no folder of recordings")
    return Path(folder, "traces", "ncu")


def total_bytes(kernels: Sequence[CountedKernel]) -> float:
    return sum(k.values["dram_bytes"] or 0.0 for k in kernels)


def mean_occupancy(kernels: Sequence[CountedKernel]) -> float:
    return 100 * statistics.mean(k.values["achieved_occupancy"] or 0.0 for k in kernels)


def test_recorded_details_pages() -> None:
    folder = recordings()
    bert = read_counters(folder / "leleucas-bert_torch_nsight.csv.gz").kernels
    assert (len(bert), len({k.name for k in bert}), total_bytes(bert)) == (26, 12, 2_406_400)
    assert mean_occupancy(bert) == pytest.approx(11.8285, abs=5e-5)
    sam = read_counters(folder / "leleucas-sam_decoder.csv.gz").kernels
    assert (len(sam), len({k.name for k in sam}), total_bytes(sam)) == (72, 17, 7_877_676_544)
    assert mean_occupancy(sam) == pytest.approx(34.7465, abs=5e-5)


def test_a_recorded_table_in_base_units() -> None:
    (kernel,) = read_counters(recordings() / "nsightful-copy_blocked.csv.gz").kernels
    assert kernel.values["achieved_occupancy"] == pytest.approx(0.9626)


def test_recorded_tables_whose_units_change_from_kernel_to_kernel() -> None:
    kernels: list[CountedKernel] = []
    with tarfile.open(recordings() / "codegandee-rtx5090-deepseek-ocr-details.tar.gz") as packed:
        for member in packed.getmembers():
            if (file := packed.extractfile(member)) and member.name.endswith(".csv"):
                kernels += read_table(io.TextIOWrapper(file, "utf-8").read())
    assert len(kernels) == 20
    assert mean_occupancy(kernels) == pytest.approx(39.513, abs=5e-4)
    assert 100 * statistics.mean(k.values["sm_utilization"] or 0.0 for k in kernels) == pytest.approx(15.753, abs=5e-4)


def test_recorded_text_output_is_refused(tmp_path: Path) -> None:
    text = gzip.decompress((recordings() / "gpumode-lecture1-ncu-text.txt.gz").read_bytes())
    (tmp_path / "ncu_logs").write_bytes(text)
    with pytest.raises(FileFormatError, match="text output, not its table"):
        read_counters(tmp_path / "ncu_logs")
