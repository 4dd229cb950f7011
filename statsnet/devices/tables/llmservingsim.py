"""Table of casys-kaist/LLMServingSim: layers of language models by token count, bf16, one column a device, µs.

Its two profilers are different stacks, so each is a source of its own. A layer's sizes are those of its model.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from statsnet.devices.tables.csv_file import MICRO, Format, Tally, devices_of, integers, records, seconds
from statsnet.devices.tables.row import TableRow

SOURCE = "llmservingsim"
COLUMNS = frozenset({"profiler", "model", "tp", "layer", "num_tokens"})


def read(path: Path, tally: Tally) -> Iterator[TableRow]:
    """Its layers, each an operator of its own name."""
    devices = devices_of(path, COLUMNS, tally)
    for record in records(path, tally, needed=("profiler", "model", "layer")):
        try:
            tokens, tp = integers((record["num_tokens"], record["tp"]))
        except ValueError:
            tally.drop(path, "a size is no whole number")
            continue
        cells = ((d, seconds(record[c], MICRO, path, tally)) for c, d in devices.items())
        times = {device: time_s for device, time_s in cells if time_s is not None}
        if times:
            yield TableRow(
                source=f"{SOURCE}-{record['profiler']}", operator=f"layer_{record['layer']}", dtype="bfloat16",
                dims=(("tokens", tokens), ("tensor_parallel", tp)), variant=record["model"], time_s=times,
            )  # fmt: skip


FORMATS = (Format(name="LLMServingSim", columns=COLUMNS, read=read),)
