"""What the figures depend on: the machine, the system and the versions."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def environment() -> dict[str, Any]:
    """Describe machine and system."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_name(),
        "cores": cores(),
        "memory_bytes": memory_bytes(),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "commit": commit(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_name() -> str:
    """The processor's own name for itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def memory_bytes() -> int | None:
    """All memory, where the system tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def commit() -> str | None:
    """The commit that is measured."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
