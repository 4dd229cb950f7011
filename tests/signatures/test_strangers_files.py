"""Signatures from people whom nobody knows: what they may name, how much they may stand for, how long a look takes."""

from __future__ import annotations

import gzip
import io
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statsnet.errors import FileFormatError
from statsnet.signatures import documents, gzipped, strict_json
from statsnet.signatures.canonical import canonical_json, content_id
from statsnet.signatures.conversion import typed
from statsnet.signatures.gzipped import open_unpacked, read_unpacked
from statsnet.signatures.model import Signature, SignatureFile
from statsnet.signatures.storage import load_signature, load_spec
from statsnet.signatures.strict_json import check_parts, parse_json

TENSOR: dict[str, Any] = {"shape": [2], "dtype": "float32"}


@pytest.fixture
def changed(dense_signature: Signature, tmp_path: Path) -> Callable[..., Path]:
    """A file whose first cluster has these fields; its id is right."""

    def write(**fields: Any) -> Path:
        data = json.loads(canonical_json(dense_signature.to_dict()))
        data["counts"]["clusters"][0].update(fields)
        data["id"] = content_id(data)
        path = tmp_path / "stranger.json"
        path.write_text(canonical_json(data))
        return path

    return write


@pytest.mark.parametrize(
    "op",
    [
        "aten.from_file.default", "aten.from_file.out", "aten.save.default", "aten.warn.default", "aten._print.default",
        "prim.RaiseException.default", "debugprims.load_tensor.default", "profiler._record_function_enter.default",
        "acme.secret_attention.default", "aten.acme_ranker.default", "aten.mm", "aten.mm.default.more",
    ],
)  # fmt: skip
def test_an_operator_that_no_signature_names(changed: Callable[..., Path], op: str) -> None:
    with pytest.raises(FileFormatError) as refused:
        load_signature(changed(op=op))
    assert "counts.clusters[0].op" in refused.value.cause


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (["/etc/passwd"], "this text"),
        ([["mean", "../x"]], "this text"),
        ([{"shape": [2], "dtype": "load"}], "no such dtype"),
        ([{"tensors": [{"shape": [2], "dtype": "no"}]}], "no such dtype"),
        ([{"shape": [2, 2], "dtype": "float32", "strides": [1]}], "strides"),
        ([{"tensors": [{"tensors": [{**TENSOR, "strides": [1, 1]}], "times": 2}]}], "strides"),
        ([10**400], "args[0]"),
        ([2**63], "args[0]"),
    ],
)
def test_an_argument_that_no_operator_has(changed: Callable[..., Path], args: list[Any], what: str) -> None:
    with pytest.raises(FileFormatError) as refused:
        load_signature(changed(args=args))
    assert what in refused.value.cause


@pytest.mark.parametrize("name", ["flops", "bytes_read", "calls"])
def test_a_count_beyond_all_counts(changed: Callable[..., Path], name: str) -> None:
    with pytest.raises(FileFormatError):
        load_signature(changed(**{name: 10**400}))


def test_lists_within_a_file_have_one_budget(changed: Callable[..., Path]) -> None:
    """Each of them alone would be short enough."""
    pair = [TENSOR, {**TENSOR, "dtype": "float64"}]
    args = [{"tensors": [{"tensors": pair, "times": 40_000}]}] * 3
    path = changed(args=args)
    assert path.stat().st_size < 20_000
    with pytest.raises(FileFormatError, match="not a valid") as refused:
        load_signature(path)
    assert "stand for more than" in refused.value.cause


@pytest.mark.parametrize(
    "word", ["\x1b[31m - at `$.seed", "x" * 10**6, "` - at `$" * 10**5], ids=["escape", "long", "many"]
)
def test_a_message_quotes_little_of_a_file(word: str) -> None:
    with pytest.raises(ValueError, match="at mode: Invalid enum value") as refused:
        typed({"mode": word}, SignatureFile)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("text", ['{"a":[[],[],[],[]]}', '{"a":0,"b":0,"c":0,"d":0,"e":0}', "[{},{},{},{},{}]"])
def test_a_file_of_many_lists_or_keys_is_not_read(text: str) -> None:
    """Each takes two to five characters there, and thirty times as many bytes of memory."""
    check_parts('{"a":[[],[]]}', "x.json", 5)
    for content in (text, text.encode()):
        with pytest.raises(FileFormatError, match="too large"):
            check_parts(content, "x.json", 5)
    with pytest.raises(FileFormatError, match="too large"):
        parse_json('{"a":[' + "[]," * strict_json.MAX_PARTS + "0]}", "x.json")


def test_a_spec_of_many_numbers_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes two characters there, and 800 bytes of memory once it is source."""
    path = Path(__file__).parents[2] / "generated" / "recsys-cv-inference" / "spec.json"
    load_spec(path)
    monkeypatch.setattr(documents, "MOST_PARTS", 1000)
    with pytest.raises(FileFormatError, match="not a valid") as refused:
        load_spec(path)
    assert refused.value.cause == "its blocks hold more than 1000 numbers"


def test_a_small_file_does_not_unpack_to_a_huge_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b" " * 1_000_000))
    assert len(read_unpacked(path)) == 1_000_000
    monkeypatch.setattr(gzipped, "FREE_BYTES", 500_000)
    with pytest.raises(FileFormatError, match="unpacks to too much") as refused:
        read_unpacked(path)
    assert (refused.value.cause, refused.value.hint) == ("more than 200 times its size", "give it unpacked")
    with pytest.raises(FileFormatError), io.TextIOWrapper(open_unpacked(path)) as text:
        text.read()


LOADED = """
import sys
from statsnet.errors import FileFormatError
from statsnet.signatures.storage import load_signature
try:
    load_signature(sys.argv[1])
except FileFormatError as error:
    print(error.cause)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(status["VmHWM"].split()[0])  # ru_maxrss would be that of the process that started this one
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["keys", "lists"])
def test_a_small_file_takes_little_memory_and_time(changed: Callable[..., Path], tmp_path: Path, kind: str) -> None:
    """Keys that stand twice are found in linear time; the process gets 20 s of a processor."""
    path = tmp_path / "keys.json"
    if kind == "keys":
        path.write_text("{" + ",".join(f'"{n}":0' for n in range(130_000)) + ',"7":1}')
    else:
        path = changed(args=[{"tensors": [{"tensors": [TENSOR, None], "times": 99_999}]}] * 100)
    done = subprocess.run(
        [sys.executable, "-c", LOADED, str(path)], capture_output=True, text=True, check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (20, 20)),
    )  # fmt: skip
    cause, peak_kib = done.stdout.splitlines()
    assert ("stands twice" if kind == "keys" else "more than") in cause
    assert int(peak_kib) < 500_000
