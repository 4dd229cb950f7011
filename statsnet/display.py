"""How a value shows itself: one line at a prompt, tables in a notebook, and rows for a data frame.

All three are made in `reporting`, which stands above the values that it shows. So the values know this file alone, and
the package hands it the functions (`use`) when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from statsnet.errors import UsageError

if TYPE_CHECKING:
    import pandas


class Forms(Protocol):
    """What can be shown of any value (reporting/values.py)."""

    def line(self, value: Any) -> str: ...

    def html(self, value: Any) -> str: ...

    def columns(self, value: Any) -> Mapping[str, Sequence[Any]]: ...


_forms: Callable[[], Forms]


def use(forms: Callable[[], Forms]) -> None:
    """From now on values are shown in these forms, which are asked for when the first value is shown."""
    global _forms
    _forms = forms


class Displayed:
    """A value that is read at a prompt and in a notebook. A dataclass must be made with `repr=False`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return _forms().line(self)

    def _repr_html_(self) -> str:
        """A part of a page, which takes its colours from the page around it and needs no script."""
        return _forms().html(self)

    def to_dataframe(self) -> pandas.DataFrame:
        """The value as a table; docs/reference/python.md names the rows and columns. Times are in seconds.

        Raises UsageError where pandas is not installed, or where there is nothing to show.
        """
        try:
            import pandas
        except ImportError as error:
            raise UsageError(
                "no data frame can be made", cause="pandas is not installed", hint="pip install 'statsnet[pandas]'"
            ) from error
        return pandas.DataFrame(dict(_forms().columns(self)))


def told_path(path: str | Path) -> str:
    """A path as a page tells it that others may read: folders of absolute paths name users and projects, so they are
    left out; a relative path stays as it was typed."""
    path = Path(path)
    return path.name if path.is_absolute() or ".." in path.parts else str(path)
