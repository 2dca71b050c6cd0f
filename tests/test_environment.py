"""What tests set in the environment ends with their module, see ``own_environment``."""

from __future__ import annotations

import inspect
import os

import conftest


def test_what_a_module_sets_ends_with_it():
    before = dict(os.environ)
    module = inspect.unwrap(conftest.own_environment)()
    next(module)
    os.environ["MALLOC_TRIM_THRESHOLD_"] = "65536"
    os.environ.pop("PATH")
    assert next(module, None) is None
    assert dict(os.environ) == before
