"""Loading and saving the files of StatsNet: every one is checked, in both directions."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from typing import Any, cast

from statsnet.errors import FileFormatError, OtherFileError, StatsNetError
from statsnet.signatures.canonical import canonical_json, content_id, read_json, write_json_atomically
from statsnet.signatures.conversion import check_keys, plain, typed
from statsnet.signatures.documents import Fit, ProxySpec, check_environment
from statsnet.signatures.kinds import KINDS, MAX_BYTES, SIGNATURE_MAX_WRITTEN_BYTES
from statsnet.signatures.model import KIND, Signature, SignatureFile
from statsnet.signatures.operators import MAX_FILE_TENSORS, check_argument
from statsnet.signatures.privacy import assert_clean
from statsnet.signatures.public_names import is_public_op
from statsnet.signatures.results import Result
from statsnet.signatures.scenarios import ScenarioResult
from statsnet.signatures.strict_json import OTHER_KIND
from statsnet.signatures.tensor_lists import listed_tensors

Path = str | os.PathLike[str]


def load_document(path: Path, kind: str) -> dict[str, Any]:
    """A file of one of KINDS as plain data, checked.

    Raises FileFormatError if it cannot be read, is of another kind or version, does not fit the type of its kind,
    or was changed after it was written.
    """
    return _load(path, kind)[0]


def load_spec(path: Path) -> ProxySpec:
    """A proxy's spec.json. Raises FileFormatError as `load_document` does."""
    return cast(ProxySpec, _load(path, "statsnet.proxy")[1])


def load_fit(path: Path) -> Fit:
    """A proxy's fit.json. Raises FileFormatError as `load_document` does."""
    return cast(Fit, _load(path, "statsnet.fit")[1])


def load_result(path: Path) -> Result:
    """A result of `run` or `validate`. Raises FileFormatError as `load_document` does."""
    return cast(Result, _load(path, "statsnet.result")[1])


def load_scenario(path: Path) -> ScenarioResult:
    """A result of `run --scenario` or `validate --scenario`. Raises FileFormatError as `load_document` does."""
    return cast(ScenarioResult, _load(path, "statsnet.scenario")[1])


def load_signature(path: Path) -> Signature:
    """A signature from a file. Raises FileFormatError as `load_document` does."""
    return cast(Signature, _load(path, KIND)[1])


def kind_of(path: Path, also: Collection[str] = ()) -> str:
    """The kind that a JSON file says it is of: one of KINDS, or of the kinds `also`.

    Raises FileFormatError for a file that cannot be read, OtherFileError for one of another program.
    """
    kind = read_json(path, max_bytes=MAX_BYTES).get("kind")
    if not isinstance(kind, str) or kind not in (*KINDS, *also):
        raise OtherFileError(
            f"'{path}' is no file of StatsNet",
            cause=f"its kind is '{str(kind)[:40]}'" if kind else "it has no kind",
            hint=f"known are {', '.join(k.title for k in KINDS.values())}",
        )
    return kind


def validate(data: Mapping[str, Any], kind: str, path: object = "data") -> Any:
    """Plain data as a typed value. Raises FileFormatError that names the first place that does not fit."""
    try:
        value = typed(data, KINDS[kind].type)
        if isinstance(value, SignatureFile):
            return _signature(value, data)
        check_environment(value)
        return value
    except ValueError as error:
        raise FileFormatError(
            f"'{path}' is not a valid {kind} file",
            cause=str(error),
            hint="docs/formats.md describes the format; files are written by statsnet, not by hand",
        ) from error


def _signature(file: SignatureFile, data: Mapping[str, Any]) -> Signature:
    check_keys(data, file.to_dict())
    check_operators(file)
    return file.signature()


def check_operators(file: SignatureFile) -> None:
    """Raise ValueError for an operator that no signature holds, or arguments that none has."""
    listed = 0
    for i, cluster in enumerate(file.counts.clusters):
        if not is_public_op(cluster.op):
            raise ValueError(f"at counts.clusters[{i}].op: no signature holds this operator")
        for name, arguments in (("args", cluster.args), ("outputs", cluster.outputs)):
            for j, argument in enumerate(arguments):
                place = f"counts.clusters[{i}].{name}[{j}]"
                check_argument(argument, place)
                if name == "outputs" and not isinstance(argument, dict | None):
                    raise ValueError(f"at {place}: an output is a tensor, a list of tensors or null")
            listed += listed_tensors(arguments)
            if listed > MAX_FILE_TENSORS:
                raise ValueError(f"its lists stand for more than {MAX_FILE_TENSORS} tensors")


def _load(path: Path, kind: str) -> tuple[dict[str, Any], Any]:
    data = read_json(path, max_bytes=KINDS[kind].max_bytes)
    _check_kind(data, kind, path)
    value = validate(data, kind, path)
    if KINDS[kind].has_id and data.get("id") != content_id(data):
        raise FileFormatError(
            f"'{path}' was changed after it was written",
            cause="its id does not match its content",
            hint="take the file again from where it came, or make it again",
        )
    return data, value


def save(path: Path, document: ProxySpec | Fit | Result | ScenarioResult) -> None:
    """Write a spec, a fit or a result. Raises as `save_document` does."""
    save_document(path, plain(document))


def save_document(path: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    """Check plain data of one of KINDS, set its id if the kind has one, write it, return it as written.

    Raises FileFormatError if it does not fit its type, StatsNetError if it cannot be written.
    """
    kind = str(data.get("kind"))
    if kind not in KINDS:
        raise FileFormatError(f"'{kind}' is not a kind of file", cause=f"known: {', '.join(KINDS)}")
    # What is checked is what a reader will find: rounded numbers, lists for tuples, no numpy types.
    document: dict[str, Any] = json.loads(canonical_json(_with_id(dict(data), kind)))
    validate(document, kind, path)
    write_json_atomically(path, document)
    return document


def save_signature(path: Path, signature: Signature) -> str:
    """Write a signature and return its id.

    Raises StatsNetError if it holds a string that no signature may hold (privacy.py), or is too large.
    """
    data = signature.to_dict()
    assert_clean(data)
    size = len(canonical_json(data))
    if size > SIGNATURE_MAX_WRITTEN_BYTES:
        raise StatsNetError(
            f"the signature is too large to be written: {size} bytes",
            cause=f"the limit is {SIGNATURE_MAX_WRITTEN_BYTES}; it has {len(signature.clusters)} clusters",
            hint="profile with fewer distinct input shapes, or write a coarser level",
        )
    document = save_document(path, data)
    return str(document["id"])


def _with_id(data: dict[str, Any], kind: str) -> dict[str, Any]:
    return {**data, "id": content_id(data)} if KINDS[kind].has_id else data


def _check_kind(data: Mapping[str, Any], kind: str, path: Path) -> None:
    """Raise FileFormatError for a file of another kind or version. There are no migrations before version 1.0."""
    file_kind, wanted = data.get("kind"), KINDS[kind]
    if file_kind != kind:
        known = KINDS.get(file_kind) if isinstance(file_kind, str) else None
        raise FileFormatError(
            f"'{path}' is {known.title if known else 'no file of StatsNet'}, not {wanted.title}",
            cause=f"its kind is '{str(file_kind)[:40]}', '{kind}' is expected" if file_kind else "it has no kind",
            hint="" if known else OTHER_KIND,
        )
    version = data.get("schema_version")
    if type(version) is not int or version != wanted.type.schema_version:  # True == 1
        raise FileFormatError(
            f"'{path}' has schema_version {version!r:.40}, this StatsNet reads {wanted.type.schema_version}",
            cause="before version 1.0 there are no migrations",
            hint=wanted.anew,
        )
