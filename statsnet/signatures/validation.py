"""Checking plain data against the JSON Schema of its kind."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

from statsnet.errors import FileFormatError
from statsnet.signatures.kinds import KINDS


def schema_for(kind: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a kind of file."""
    file = resources.files("statsnet.signatures").joinpath("schema", KINDS[kind].schema)
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def validate(data: Mapping[str, Any], kind: str, path: object = "data") -> None:
    """Raises FileFormatError that names the first place within the data that does not fit."""
    from jsonschema.exceptions import best_match

    error = best_match(_validator(kind).iter_errors(data))
    if error is None:
        return
    place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path).lstrip(".")
    message = (
        error.message if len(error.message) <= 200 else f"{error.message[:120]} ... {error.message[-70:]}"
    )
    raise FileFormatError(
        f"'{path}' is not a valid {kind} file",
        cause=f"at {place}: {message}" if place else message,
        hint="docs/formats.md describes the format; files are written by statsnet, not by hand",
    )


@functools.cache
def _validator(kind: str) -> Any:
    import jsonschema

    # JSON Schema calls 2.0 an integer, Python's range() does not.
    checker = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    strict = jsonschema.validators.extend(
        jsonschema.Draft202012Validator, validators={"pattern": _pattern}, type_checker=checker
    )
    return strict(schema_for(kind))


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Exception]:
    """The keyword "pattern", where `$` does not let a final newline pass as Python's does."""
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, str) and (instance.endswith("\n") or not re.search(pattern, instance)):
        yield ValidationError(f"{instance[:60]!r} does not match {pattern!r}")
