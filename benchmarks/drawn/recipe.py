"""One drawn workload as a file: a random network, or a class of a library, with everything drawn from its seed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from random import Random

from benchmarks.drawn.grammar import network_file
from benchmarks.drawn.writer import NORMAL, TINY
from statsnet.measure.task import Context, Task

GRAMMAR = "grammar"
LIBRARIES = {
    "transformers": "transformers_models",
    "diffusers": "diffusers_models",
    "torch_geometric": "graph_models",
    "monai": "monai_models",
}
"""Library -> the module here that draws from it."""

SHARES = {"transformers": 0.5, "diffusers": 0.2, "torch_geometric": 0.15, "monai": 0.15}
"""Of the workloads that are a library's."""

_FILE = '''"""{library}'s {name}, with sizes from the seed {seed}."""

from benchmarks.drawn.{module} import build


def factory(batch: int = {batch}):
    return build("{name}", "{seed}", batch{tiny})
'''

Names = Mapping[str, Sequence[str]]
"""Classes of each library that is here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What decides a workload, apart from its batch. `source` is GRAMMAR or a library, `name` a class of that."""

    source: str
    name: str
    seed: str

    @property
    def label(self) -> str:
        return f"{self.source}/{self.name}" if self.name else f"{self.source}/{self.seed}"

    def text(self, batch: int, *, tiny: bool = False) -> str:
        """The file, with this batch as its factory's default. `tiny`: the smallest sizes, for tests."""
        if self.source == GRAMMAR:
            return network_file(self.seed, batch, TINY if tiny else NORMAL)
        return _FILE.format(
            library=self.source,
            name=self.name,
            seed=self.seed,
            module=LIBRARIES[self.source],
            batch=batch,
            tiny=", tiny=True" if tiny else "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassesHere:
    """Names of a library's classes."""

    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ListClasses(Task[ClassesHere]):
    """Which classes of a library may be drawn; in a process of its own, as importing one takes seconds."""

    library: str

    def run(self, context: Context) -> ClassesHere:
        names = importlib.import_module(f"benchmarks.drawn.{LIBRARIES[self.library]}").names()
        return ClassesHere(names=tuple(names))


def classes_here(list_classes: Callable[[ListClasses], ClassesHere]) -> Names:
    """Of each of LIBRARIES that can be imported."""
    here = [library for library in LIBRARIES if find_spec(library)]
    return {library: list_classes(ListClasses(library=library)).names for library in here}


def draw_recipe(seed: str, names: Names, *, from_grammar: bool) -> Recipe:
    """A function of the seed and of the classes that are here."""
    random = Random(seed)
    if from_grammar or not names:
        return Recipe(source=GRAMMAR, name="", seed=seed)
    library = random.choices(list(names), [SHARES[library] for library in names])[0]
    return Recipe(source=library, name=random.choice(names[library]), seed=seed)
