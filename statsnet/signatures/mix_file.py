"""A mix in a file: YAML that people write, so every mistake is named with its line, column and what was expected."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import yaml
from msgspec import Meta

from statsnet.errors import FileFormatError, UsageError, did_you_mean, printable
from statsnet.signatures.canonical import read_text
from statsnet.signatures.conversion import typed
from statsnet.signatures.limits import Label, Positive, ShortText, Word, whole
from statsnet.signatures.model import Mode
from statsnet.units import parse_duration_s

ENDINGS = (".yaml", ".yml")
MAX_BYTES = 256 * 1024
MAX_DEPTH = 8
MAX_EVENTS = 20_000
"""Keys, values, beginnings and ends: 1000 members have fewer than 20,000."""

_HINT = "docs/formats.md describes a mix's file, and examples/recsys_cv.yaml is one"

Name = Annotated[str, whole("[^\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029`]+"), Meta(max_length=120)]
"""One line that can stand in a README."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMember:
    """One of `workload`, `domain` and `file`, its share of device time, and which of a workload's profiles is meant.
    `place` says where it stands."""

    weight: Annotated[float, Meta(gt=0, le=1e300)]
    workload: Label | None = None
    domain: Label | None = None
    file: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    preset: Word | None = None
    batch: Positive | None = None
    dtype: Word | None = None
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MixFile:
    """A mix as its file has it, weights included. Once loaded, members' files are relative to where we are, no longer
    to the file."""

    members: Annotated[tuple[FileMember, ...], Meta(min_length=1, max_length=1000)]
    name: Name | None = None
    mode: Mode | None = None
    budget: ShortText | None = None
    compression: Annotated[float, Meta(ge=1, le=1e9)] | None = None
    notes: Annotated[str, Meta(max_length=10_000)] = ""

    @property
    def budget_s(self) -> float | None:
        return None if self.budget is None else parse_duration_s(self.budget)


_MIX = {
    "name": "one line of at most 120 characters",
    "mode": "inference or training",
    "members": "a list of 1 to 1000 members",
    "budget": "a time such as 10ms",
    "compression": "a number from 1 on",
    "notes": "text of at most 10,000 characters",
}
_MEMBER = {
    "workload": "a name that `statsnet list` shows",
    "domain": "a domain such as cv",
    "file": "the path of a signature file",
    "weight": "a positive number",
    "preset": "a name such as small",
    "batch": "a whole number from 1 on",
    "dtype": "a name such as float32",
}
"""Keys, and what is expected of each."""

_SUBJECTS = ("workload", "domain", "file")


def is_mix_file(text: str) -> bool:
    """Whether the text of a mix is the path of a file that holds one."""
    return text.lower().endswith(ENDINGS)


def load_mix_file(path: str | Path) -> MixFile:
    """The mix in a file.

    Raises FileFormatError if it cannot be read, is too large or is no YAML; UsageError for a key or a value that has
    no place in a mix.
    """
    return _Reader(Path(path)).mix()


class _Loader(yaml.SafeLoader):
    """Refuses what could make a small file large or deep, before anything is built of it."""

    def __init__(self, text: str, not_yaml: Callable[[Any, str], FileFormatError]) -> None:
        super().__init__(text)
        self._not_yaml = not_yaml
        self._count = self._depth = 0

    def get_event(self) -> Any:
        event = super().get_event()  # type: ignore[no-untyped-call]
        self._count += 1
        self._depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise self._not_yaml(event.start_mark, "anchors (&), aliases (*) and tags (!) are not read")
        if self._count > MAX_EVENTS:
            raise self._not_yaml(event.start_mark, "so far it holds more than any mix does")
        if self._depth > MAX_DEPTH:
            raise self._not_yaml(event.start_mark, f"it is nested deeper than {MAX_DEPTH} levels")
        return event


class _Reader:
    """Reads one file. `_nodes` holds the YAML of every value by its path, such as `members[0].weight`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._nodes: dict[str, yaml.Node] = {}

    def mix(self) -> MixFile:
        text = read_text(self._path, MAX_BYTES)
        try:
            loader = _Loader(text, self._not_yaml)
            root = loader.get_single_node()
            self._check_nodes(root)
            data = loader.construct_document(root)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self._not_yaml(mark, str(error.problem or error.context)) from error
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise self._not_yaml(None, f"line {line} holds the character U+{error.character:04X}") from error
        except (ValueError, OverflowError) as error:  # a date that is none, a number of thousands of digits
            raise self._not_yaml(None, str(error)[:200]) from error
        return self._finished(self._converted(data))

    def _check_nodes(self, root: yaml.Node | None) -> None:
        """Refuse keys that are not known, stand twice or are missing."""
        if root is None:
            raise FileFormatError(f"'{self._path}' is empty", cause="a mix is expected", hint=_HINT)
        self._check_mapping(root, "", _MIX, "a mix")
        if "members" not in self._nodes:
            self._refuse(root, "the mix has no members", _MIX["members"])
        if "budget" in self._nodes and "compression" in self._nodes:
            self._refuse(
                self._nodes["compression"], "budget and compression were both given",
                "one of them, because each says how long a step is to be",
            )  # fmt: skip
        members = self._nodes["members"]
        for number, member in enumerate(members.value if isinstance(members, yaml.SequenceNode) else ()):
            self._check_member(member, f"members[{number}]")

    def _check_member(self, node: yaml.Node, place: str) -> None:
        self._nodes[place] = node
        given = self._check_mapping(node, f"{place}.", _MEMBER, "a member")
        subjects = [key for key in given if key in _SUBJECTS]
        if len(subjects) != 1:
            named = f"both {' and '.join(subjects)}" if subjects else "no workload, domain or file"
            self._refuse(node, f"a member has {named}", "one of workload, domain and file")
        if "weight" not in given:
            self._refuse(node, "a member has no weight", _MEMBER["weight"])
        if subjects == ["file"] and (others := [key for key in ("preset", "batch", "dtype") if key in given]):
            self._refuse(
                self._nodes[f"{place}.{others[0]}"], f"a file has no {others[0]} to choose",
                "file and weight alone, because a signature file holds one size",
            )  # fmt: skip

    def _check_mapping(self, node: yaml.Node, place: str, known: dict[str, str], title: str) -> list[str]:
        """Its keys."""
        if not isinstance(node, yaml.MappingNode):
            self._refuse(node, f"{_shown(node)} is not {title}", f"keys and values ({', '.join(known)})")
        given: list[str] = []
        for key_node, value in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else ""
            if key not in known:
                hint = did_you_mean(key, known)
                self._refuse(
                    key_node,
                    f"{_shown(key_node)} is not a key of {title}",
                    f"one of {', '.join(known)}",
                    hint,
                )
            if key in given:
                self._refuse(key_node, f"the key {_shown(key_node)} stands twice", "each key once")
            given.append(key)
            self._nodes[place + key] = value
        return given

    def _converted(self, data: object) -> MixFile:
        try:
            return typed(data, MixFile)  # type: ignore[no-any-return]
        except ValueError as error:
            match = re.match(r"at ([^ :]+)", str(error))
            place = match[1] if match and match[1] in self._nodes else "members"
            key = place.rpartition(".")[2]
            self._refuse_value(place, {**_MIX, **_MEMBER}.get(key, str(error)))

    def _finished(self, mix: MixFile) -> MixFile:
        try:
            _ = mix.budget_s
        except UsageError:
            self._refuse_value("budget", _MIX["budget"])
        seen: set[tuple[str | None, ...]] = set()
        members = []
        for number, member in enumerate(mix.members):
            node = self._nodes[f"members[{number}]"]
            subject = member.workload, member.domain, member.file
            if subject in seen:
                name = next(filter(None, subject))
                self._refuse(
                    node, f"'{name}' stands twice in the mix", "each member once",
                    "give it once, with the sum of its weights; another size of it as a signature file",
                )  # fmt: skip
            seen.add(subject)
            file = None if member.file is None else str(self._path.parent / Path(os.path.expanduser(member.file)))
            members.append(dataclasses.replace(member, file=file, place=self._at(node.start_mark)))
        return dataclasses.replace(mix, members=tuple(members))

    def _refuse_value(self, place: str, expected: str) -> NoReturn:
        node, key = self._nodes[place], place.rpartition(".")[2]
        hint = ""
        if isinstance(node, yaml.ScalarNode) and node.value:
            is_text = node.tag == "tag:yaml.org,2002:str"
            if key in ("weight", "batch", "compression"):
                with_exponent = re.fullmatch(r"[0-9.]+[eE][0-9+-]+", node.value) and is_text
                hint = "write it without quotes" if node.style else ""
                hint = hint or ("write it without an exponent" if with_exponent else "")
            elif not is_text and key not in ("members", ""):  # YAML reads no, 5 and 2024-01-01 as something else
                hint = f"write it in quotes: {key}: '{node.value[:60]}'"
        title = "a member" if key.startswith("members[") else f"a value of {key}"
        self._refuse(node, f"{_shown(node)} is not {title}", expected, hint)

    def _refuse(self, node: yaml.Node, problem: str, expected: str, hint: str = "") -> NoReturn:
        raise UsageError(f"{self._at(node.start_mark)}: {problem}", cause=f"expected: {expected}", hint=hint or _HINT)

    def _at(self, mark: Any) -> str:
        return f"'{self._path}', line {mark.line + 1}, column {mark.column + 1}"

    def _not_yaml(self, mark: Any, cause: str) -> FileFormatError:
        where = f"'{self._path}'" if mark is None else self._at(mark)
        return FileFormatError(f"{where}: this is not the YAML of a mix", cause=printable(cause), hint=_HINT)


def _shown(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        return "a list" if isinstance(node, yaml.SequenceNode) else "a group of keys"
    text = printable(node.value)
    return f"'{text[:60]}{'...' if len(text) > 60 else ''}'" if text else "nothing"
