"""The table of compatibility names what there is, and calls the rest "not there"."""

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| feature")
]


def find(path):
    """The object of that dotted path; None if there is none."""
    parts = path.split(".")
    for split in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError as error:
            if error.name is not None and not error.name.startswith("framefold"):
                raise
            continue
        for name in parts[split:]:
            if not hasattr(found, name):
                return None
            found = getattr(found, name)
        return found
    return None


def test_the_page_has_rows():
    assert len(ROWS) > 80


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].replace("`", ""))
def test_row(row):
    _, names, status, notes = row
    assert status in ("works", "differs", "not there")
    assert status == "works" or notes, "a difference has to be described, and what to use instead"
    advice = r"\b(use|pass|make|leave it out)\b"
    assert status != "not there" or re.search(advice, notes), "what to do instead"
    paths = re.findall(r"`([\w.]+)`", names)
    assert paths
    for path in paths:
        assert (find(path) is None) == (status == "not there"), path
