"""Tests of data that are odd on purpose say so, and which warnings they expect."""

from __future__ import annotations

import pytest


def odd(*words: str) -> pytest.MarkDecorator:
    """The test opens or uses data of which warnings with these words are expected.

    Parameters
    ----------
    words
        Regular expressions, without colons; each is looked for in the text of warnings.
    """
    return pytest.mark.filterwarnings(*(f"ignore:.*{word}:UserWarning" for word in words))


#: A scan that is larger than what the file holds, or begins elsewhere.
POSITIONS_WITHOUT_DATA = odd(
    "positions? (have|has) no data", "selected scan positions (have|has) no data"
)
#: One that is smaller.
FRAMES_LEFT_OVER = odd("frames? (is|are) not shown")
