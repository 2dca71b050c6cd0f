"""The classes of the formats say what the engine's table says."""

from __future__ import annotations

import inspect

import format_stubs
import pytest

from framefold import _engine
from framefold.io.dataset import _factory
from framefold.io.dataset._calibration import FACTS
from framefold.io.dataset._file import FORMER, NO_EFFECT, REFUSED


def test_the_stub_is_that_of_the_table():
    assert format_stubs.STUB.read_text() == format_stubs.text(), "run python tests/format_stubs.py"


@pytest.mark.parametrize("row", _engine.format_table(), ids=lambda row: row[0])
def test_each_option_of_a_row_is_in_signature_and_documentation(row):
    name, title, _, options = row
    classes = [cls for cls in _factory.built_in().values() if cls.filetype == name]
    if not classes:
        pytest.skip("a format that was added")
    cls = classes[0]
    parameters = inspect.signature(cls).parameters
    assert title in cls.__doc__
    known = set()
    for option, alias, _, kind, _, _, default, _, help_ in options:
        known |= {option, alias}
        if kind == "paths":
            continue
        found = parameters.get(option) or parameters[alias]
        assert found.default == default
        assert " ".join(help_.split()) in " ".join(cls.__doc__.split())
    assert {*FACTS} <= {*parameters}
    extra = {*parameters} - known - {"path", *NO_EFFECT, *FORMER, *REFUSED, *FACTS}
    # Chunks are read in one way; its place among the values is kept.
    assert extra == ({"io_backend"} if name == "zarr" else set())
