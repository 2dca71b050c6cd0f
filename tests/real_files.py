"""Real files from real instruments, which are not part of the repository."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def real_data() -> Path:
    """Where real files lie: FRAMEFOLD_TEST_DATA, or a folder beside the repository."""
    default = REPOSITORY.parent / "shared" / "data"
    return Path(os.environ.get("FRAMEFOLD_TEST_DATA", default))


def manifest(kind: str | None = None) -> list[dict[str, Any]]:
    """What independent readers say of the real files, of one format or of all."""
    path = real_data() / "MANIFEST.json"
    if not is_there(path):
        return []
    return [entry for entry in _entries(path) if kind in (None, entry["format"])]


@cache
def _entries(path: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(path.read_text())["entries"]
    return entries


def is_there(path: Path) -> bool:
    """Whether real files can be read; where their folder is named, all have to be there."""
    if not path.exists() and "FRAMEFOLD_TEST_DATA" in os.environ:
        raise FileNotFoundError(f"FRAMEFOLD_TEST_DATA is set, but there is no {path}")
    return path.exists()


def real_file(name: str) -> Path:
    """One of the real files; skips the test if there are none, and their folder is not named."""
    path = real_data() / name
    if not is_there(path):
        pytest.skip("no real files: set FRAMEFOLD_TEST_DATA to a folder with MANIFEST.json")
    return path
