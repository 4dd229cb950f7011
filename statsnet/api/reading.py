"""What needs no torch: files as values, mixes, and results compared."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statsnet.api.checks import check_positive
from statsnet.errors import UsageError, one_of
from statsnet.signatures import storage
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import Mix, resolve_mix
from statsnet.signatures.mix_file import is_mix_file
from statsnet.signatures.model import KIND, Signature
from statsnet.signatures.results import Result
from statsnet.signatures.saved_proxy import SavedProxy, load_proxy
from statsnet.signatures.scenarios import ScenarioResult
from statsnet.synthesis.asked import asked_of
from statsnet.units import plural

if TYPE_CHECKING:
    from statsnet.devices.device_record import DeviceRecord
    from statsnet.evaluation.standings import Standings

    Value = Signature | Mix | SavedProxy | Result | ScenarioResult | DeviceRecord

FilePath = str | os.PathLike[str]
MixLike = Mapping[Any, float] | FilePath
"""Shares of device time by name (text or a path), or `recsys:0.5,cv:0.5`, or the path of a mix's file."""


def load(path: FilePath) -> Value:
    """Any file of StatsNet, checked: a signature, a mix (.yaml), a proxy's folder or a file in it, a result of `run` or
    `validate`, in a scenario or without, or a device that `statsnet device import` recorded.

    Raises FileFormatError for a file that is missing, damaged or another program's, UsageError for a folder that is no
    proxy's.
    """
    from statsnet.devices import device_record

    place = Path(os.path.expanduser(path))
    if place.is_dir():
        return load_proxy(place)
    if is_mix_file(str(place)):
        return mix(place)
    if place.suffix == ".gz":
        return device_record.load_record(place)
    kind = storage.kind_of(place, also=(device_record.KIND,))
    if kind == device_record.KIND:
        return device_record.load_record(place)
    if kind == KIND:
        return storage.load_signature(place)
    if kind == Result.kind:
        return storage.load_result(place)
    if kind == ScenarioResult.kind:
        return storage.load_scenario(place)
    if place.name not in ("spec.json", "fit.json"):
        hint = "name the folder that it is from"
        raise UsageError(f"'{path}' is a part of a proxy", cause="its parts are loaded together", hint=hint)
    return load_proxy(place.parent)


def save(value: Signature | Result | ScenarioResult, path: FilePath) -> None:
    """Write a signature or a result, checked, as the commands do. Raises StatsNetError if it cannot be written."""
    path = os.path.expanduser(path)
    if isinstance(value, Signature):
        storage.save_signature(path, value)
    elif isinstance(value, Result | ScenarioResult):
        storage.save(path, value)
    else:
        raise UsageError(
            f"a value of type {type(value).__name__} is not written",
            cause="files of their own have signatures and results",
            hint="a proxy is its folder already",
        )


def mix(members: MixLike, *, mode: str | None = None, profiles: FilePath | None = None) -> Mix:
    """The signatures that a mix names, with their shares of device time.

    `mix({"recsys": 0.5, "cv/resnet50": 0.5})`, `mix("recsys:0.5,cv:0.5")` or `mix("suite.yaml")`. A name is a domain's,
    a workload's or a signature file's; names are looked up in the folder `profiles` (default: the profiles that ship).
    `mode` is that of a mix's file, else inference. Raises UsageError for what is not known, FileFormatError for a
    damaged file.
    """
    asked = asked_of(mix_text(members), mode=mode)
    return resolve_mix(asked.mix, asked.mode, ProfilesDB(profiles if profiles is None else Path(profiles)))


def compare(
    *results: Result | FilePath | Mapping[str, Result | FilePath],
    baseline: str | Sequence[str] = (),
    prices_per_h: Mapping[str, float] | None = None,
) -> Standings:
    """How many times faster or slower each result is than a baseline, as `statsnet compare` tells.

    `compare(here, there)`, or with names: `compare({"here": here, "there": "there.json"}, baseline="here")`. A file is
    called by its path, another result `result 1`, `result 2`, ... Of several proxies there may be several baselines.
    `prices_per_h` are what machines cost per hour, by the results' names. Raises UsageError if nothing can be compared,
    FileFormatError for a damaged file.
    """
    from statsnet.evaluation.standings import NamedResult, standings

    prices = dict(prices_per_h or {})
    named = _named(results)
    if len(named) < 2:
        cause = f"{plural(len(named), 'result')} given"
        raise UsageError("there is nothing to compare", cause=cause, hint="give two or more")
    if unknown := [name for name in prices if name not in named]:
        raise UsageError(
            f"there is a price for '{unknown[0]}', which is none of the results", hint=one_of(unknown[0], named)
        )
    check_positive(**{f"price of {name}": price for name, price in prices.items()})
    found = [NamedResult(name=name, result=result, price_per_h=prices.get(name)) for name, result in named.items()]
    return standings(found, (baseline,) if isinstance(baseline, str) else tuple(baseline))


def _named(results: Iterable[Result | FilePath | Mapping[str, Result | FilePath]]) -> dict[str, Result]:
    """Results by name, loaded. Raises UsageError for two of one name."""
    named: dict[str, Result] = {}
    for number, given in enumerate(results, 1):
        if isinstance(given, Result):
            pairs: Iterable[tuple[str, Result | FilePath]] = [(f"result {number}", given)]
        elif isinstance(given, Mapping):
            pairs = given.items()
        elif isinstance(given, str | os.PathLike):
            pairs = [(os.fspath(given), given)]
        else:
            raise UsageError(
                f"a value of type {type(given).__name__} is not compared",
                hint="give results of statsnet.run, or their files; `statsnet compare` compares scenarios",
            )
        for name, result in pairs:
            if name in named:
                hint = "give them names: compare({'a': ..., 'b': ...})"
                raise UsageError(f"two results are called '{name}'", hint=hint)
            named[name] = result if isinstance(result, Result) else storage.load_result(os.path.expanduser(result))
    return named


def mix_text(members: MixLike) -> str:
    """In the short form. Raises UsageError for a name that it cannot hold."""
    if not isinstance(members, Mapping):
        return os.fspath(members)
    for name in members:
        if "," in os.fspath(name):
            cause = "a comma separates members"
            raise UsageError(f"'{name}' cannot stand in a mix", cause=cause, hint="rename the file")
    return ",".join(f"{os.fspath(name)}:{weight}" for name, weight in members.items())
