"""How much memory a process may still take: what the machine and the containers around the process have left."""

from __future__ import annotations

import re

from statsnet.environment import record

_USED = (("memory.current", "inactive_file"), ("memory.usage_in_bytes", "total_inactive_file"))
"""For a control group of version 2, and one of version 1: the file with the bytes in use, and the row of memory.stat
with those of them that the kernel gives back when they are needed."""


def memory_at_hand_bytes() -> int:
    """Bytes that this process can still take before the machine or a container around it has none left."""
    limit, left = record.usable_memory_bytes(), []
    if available := re.search(r"^MemAvailable: *(\d+) kB$", record.file_text("/proc/meminfo"), re.MULTILINE):
        left.append(int(available[1]) * 1024)
    for folder in record._cgroups("memory"):
        left += _left_in(folder)
    return max(0, min([limit, *left]))


def _left_in(folder: str) -> list[int]:
    """Bytes left in a control group; nothing where it has no limit."""
    for limit, (used, given_back) in zip(("memory.max", "memory.limit_in_bytes"), _USED, strict=True):
        texts = [record.file_text(f"{folder}/{name}").strip() for name in (limit, used)]
        if not all(text.isdecimal() for text in texts):
            continue
        row = re.search(rf"^{given_back} (\d+)$", record.file_text(f"{folder}/memory.stat"), re.MULTILINE)
        return [int(texts[0]) - int(texts[1]) + (int(row[1]) if row else 0)]
    return []
