"""Tables in the guide that are made of what tests find."""

from __future__ import annotations

import os

from real_files import REPOSITORY

GUIDE = REPOSITORY / "docs" / "guide" / "metadata.md"


def assert_in_guide(table: str, begin: str, end: str) -> None:
    """That the guide has the table between its marks; FRAMEFOLD_WRITE_GUIDE=1 writes it."""
    text = GUIDE.read_text(encoding="utf-8")
    before, rest = text.split(begin + "\n")
    _, after = rest.split(end)
    wanted = f"{before}{begin}\n{table}\n{end}{after}"
    if os.environ.get("FRAMEFOLD_WRITE_GUIDE"):
        GUIDE.write_text(wanted, encoding="utf-8")
    assert text == wanted, "write it anew with FRAMEFOLD_WRITE_GUIDE=1"
