"""The cores that this process may use."""

from __future__ import annotations

import os


def cpus() -> list[int]:
    """Their numbers."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def available_cores() -> int:
    """How many there are."""
    return len(cpus())
