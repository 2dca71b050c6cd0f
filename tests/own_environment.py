"""What tests set in the environment ends with it: nannies of Dask leave settings there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_environment() -> Iterator[None]:
    """What is set while this is entered is undone afterwards."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
