"""Real files from real instruments, which are not part of the repository."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent


def real_data() -> Path:
    """Where real files lie: FRAMEFOLD_TEST_DATA, or a folder beside the repository."""
    default = REPOSITORY.parent / "shared" / "data"
    return Path(os.environ.get("FRAMEFOLD_TEST_DATA", default))


def manifest(kind: str) -> list[dict[str, Any]]:
    """What independent readers say of the real files of one format."""
    path = real_data() / "MANIFEST.json"
    if not path.exists():
        return []
    entries = json.loads(path.read_text())["entries"]
    return [entry for entry in entries if entry["format"] == kind]
