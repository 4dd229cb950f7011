"""What was named on the command line, as sections of a page."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from statsnet.analysis.database import NamedSignature
from statsnet.display import told_path
from statsnet.errors import FileFormatError, OtherFileError, StatsNetError, UsageError
from statsnet.evaluation.scenario_compare import NamedScenario, scenario_standings
from statsnet.evaluation.standings import NamedResult, standings
from statsnet.reporting.front import load_search
from statsnet.reporting.html.document import Section
from statsnet.reporting.html.of_profiles import counted_section, mix_section, profiles_section
from statsnet.reporting.html.of_proxy import proxy_section
from statsnet.reporting.html.of_result import comparison_section, result_section
from statsnet.reporting.html.of_scenario import scenario_comparison_section, scenario_section
from statsnet.reporting.html.of_signature import signature_section
from statsnet.reporting.tables import environment_line
from statsnet.signatures import packed, storage
from statsnet.signatures.database import ProfileEntry, ProfilesDB
from statsnet.signatures.kinds import SEARCH_FILES
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.mix_file import is_mix_file, load_mix_file
from statsnet.signatures.model import Signature
from statsnet.signatures.saved_proxy import fit_beside
from statsnet.units import plural

MOST_ALONE = 12
"""More signatures of one folder are shown side by side, and no longer each by itself."""

MOST_DEPTH = 3

Named = NamedResult | NamedScenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Sections in the order of the command line, every file that was read, and what was left out."""

    sections: tuple[Section, ...]
    paths: tuple[Path, ...]
    notes: tuple[str, ...]


def read_inputs(names: Sequence[str]) -> Inputs:
    """Raises UsageError for a place where there is nothing, FileFormatError for a damaged file that was named itself.
    In a folder, what is no file of StatsNet is passed over, and a damaged one is noted."""
    sections: list[Section] = []
    paths: list[Path] = []
    notes: list[str] = []
    results: list[Named] = []
    for name in dict.fromkeys(names):
        path = Path(name)
        if not (path.exists() or packed.is_file(path)):
            raise UsageError(f"there is no '{name}'", hint="name files of StatsNet, or folders that hold them")
        if path.is_dir() and not (path / "spec.json").is_file():
            read = _of_folder(path)
            sections += read.sections
            paths += read.paths
            notes += read.notes
            results += read.results
            continue
        section, result = _of_file(path)
        sections.append(section)
        paths.append(path)
        results += [result] if result else []
    sections[:0] = _compared(results, notes)
    return Inputs(sections=tuple(sections), paths=tuple(paths), notes=tuple(dict.fromkeys(notes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    sections: list[Section]
    paths: list[Path]
    notes: list[str]
    results: list[Named]


def _of_file(path: Path) -> tuple[Section, Named | None]:
    """A file, or a proxy's folder."""
    command = shlex.join(["statsnet", "show", told_path(path)])
    if path.is_dir():
        return _proxy(path / "spec.json", path.name, command), None
    if is_mix_file(str(path)):
        file = load_mix_file(path)
        mode = file.mode or "inference"
        mix = resolve_mix(str(path), mode, ProfilesDB())
        made = shlex.join(["statsnet", "synthesize", "--mix", told_path(path)])
        return mix_section(f"{file.name or path.name}: a mix, {mode}", mix, mode, made), None
    kind = storage.kind_of(path)
    if kind == "statsnet.signature":
        signature = storage.load_signature(path)
        return signature_section(signature.name or path.stem, signature, command), None
    if kind == "statsnet.result":
        result = storage.load_result(path)
        return result_section(path.name, result, command), NamedResult(name=told_path(path), result=result)
    if kind == "statsnet.scenario":
        scenario = storage.load_scenario(path)
        return scenario_section(path.name, scenario, command), NamedScenario(name=told_path(path), result=scenario)
    return _proxy(path.with_name("spec.json"), path.parent.resolve().name, command), None


def _proxy(spec: Path, name: str, command: str) -> Section:
    if not spec.is_file():
        raise UsageError(f"'{spec}' is missing", cause="a fit is shown with its proxy", hint="name the proxy's folder")
    search, loaded = spec.with_name(SEARCH_FILES[0]), storage.load_spec(spec)
    return proxy_section(
        name,
        loaded,
        fit_beside(spec.parent, loaded),
        load_search(search) if search.is_file() else None,
        command,
    )


def _of_folder(folder: Path) -> _Folder:
    """Profiles side by side, then every other file that is there; signatures last."""
    read = _Folder(sections=[], paths=[], notes=[], results=[])
    signatures: list[tuple[Path, Signature]] = []
    _add_profiles(folder, read)
    others = [path for path in sorted(_files(folder)) if path not in set(read.paths)]
    for path in others:
        if path.name in ("fit.json", *SEARCH_FILES) and (path.parent / "spec.json").is_file():
            continue
        try:
            if not is_mix_file(str(path)) and storage.kind_of(path) == "statsnet.signature":
                signatures.append((path, storage.load_signature(path)))
                continue
            section, result = _of_file(path.parent if path.name == "spec.json" else path)
        except OtherFileError:
            continue
        except StatsNetError as error:
            read.notes.append(_left_out(path, error))
            continue
        read.sections.append(section)
        read.paths.append(path)
        read.results.extend([result] if result else [])
    _add_signatures(signatures, read)
    if not read.sections:
        raise UsageError(
            f"there is nothing to show in '{folder}'",
            cause="; ".join(read.notes[:2]) or "it holds no file that a report shows",
            hint="name files, a proxy's folder or a folder of profiles",
        )
    return read


def _left_out(path: Path, error: StatsNetError) -> str:
    text = f"{path} is left out: {error.message}{f' ({error.cause})' if error.cause else ''}"
    return text.replace(str(path), told_path(path))


def _add_signatures(found: Sequence[tuple[Path, Signature]], read: _Folder) -> None:
    """Each alone; if there are many, side by side, those that one machine measured in one mode."""
    read.paths.extend(path for path, _ in found)
    if len(found) <= MOST_ALONE:
        for path, _ in found:
            try:
                read.sections.append(_of_file(path)[0])
            except StatsNetError as error:
                read.notes.append(_left_out(path, error))
        return
    groups: dict[tuple[str, str], list[NamedSignature]] = {}
    for path, signature in found:
        first = next(iter(signature.measurements), None)
        where = environment_line(first.environment) if first and first.step_latency_s else ""
        named = NamedSignature(name=signature.name or path.stem, signature=signature)
        groups.setdefault((where, signature.mode), []).append(named)
    for (where, mode), members in groups.items():
        size = plural(len(members), "workload")
        read.sections.append(
            profiles_section(f"{where}, {mode}: {size}", members, mode)
            if where
            else counted_section(f"counted, {mode}: {size}", members)
        )


def _add_profiles(folder: Path, read: _Folder) -> None:
    """A section for each environment and mode; each signature alone, too, if there are few."""
    database = ProfilesDB(folder)
    entries = (*database.entries, *database.counts)
    alone = len(entries) <= MOST_ALONE
    groups: dict[tuple[str, str], list[ProfileEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.environment, entry.mode), []).append(entry)
    for (environment, mode), members in groups.items():
        named = []
        for entry in members:
            try:
                named.append(NamedSignature(name=entry.name, signature=entry.load(unnamed_too=True)))
                read.paths.append(entry.path)
            except StatsNetError as error:
                read.notes.append(_left_out(entry.path, error))
        measured = [
            each for each in named if each.signature.measurements and each.signature.measurements[0].step_latency_s
        ]
        words = ["statsnet", "characterize", "--profiles", told_path(folder), "--environment", environment]
        words += ["--mode", mode]
        if measured:
            title = f"{environment}, {mode}: {plural(len(measured), 'workload')}"
            read.sections.append(profiles_section(title, measured, mode, shlex.join(words)))
        counted = [each for each in named if each not in measured]
        if counted and not alone:
            title = f"{environment}, counted, {mode}: {plural(len(counted), 'workload')}"
            read.sections.append(counted_section(title, counted))
        if alone:
            read.sections.extend(signature_section(each.name, each.signature) for each in named)


def _files(folder: Path) -> list[Path]:
    """JSON and YAML files, down to MOST_DEPTH folders, and those of archives in the folder itself, as one of an
    environment has them; hidden ones are passed over."""
    patterns = ["/".join(["*"] * depth) for depth in range(1, MOST_DEPTH + 1)]
    there = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    for archive in folder.glob(f"*{packed.ENDING}"):
        with contextlib.suppress(FileFormatError):  # another program's
            there.update(packed.files(archive))
    found = {path for path in there if path.suffix in (".json", ".yaml", ".yml")}
    return [path for path in found if not any(p.startswith(".") for p in path.relative_to(folder).parts)]


def _compared(results: Sequence[Named], notes: list[str]) -> list[Section]:
    """Results with results, and those of each scenario with their like."""
    steps = [each for each in results if isinstance(each, NamedResult)]
    asked = [each for each in results if isinstance(each, NamedScenario)]
    sections = []
    try:
        if len(steps) > 1:
            sections.append(comparison_section(standings(steps), _command(steps)))
    except StatsNetError as error:
        notes.append(f"the results are not compared: {error.message}")
    for scenario in dict.fromkeys(each.result.scenario for each in asked):
        alike = [each for each in asked if each.result.scenario == scenario]
        try:
            if len(alike) > 1:
                sections.append(scenario_comparison_section(scenario_standings(alike), _command(alike)))
        except StatsNetError as error:
            notes.append(f"the {scenario} results are not compared: {error.cause or error.message}")
    return sections


def _command(results: Sequence[Named]) -> str:
    return shlex.join(["statsnet", "compare", *(each.name for each in results)])
