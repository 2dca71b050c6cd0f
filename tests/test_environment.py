"""What tests set in the environment ends with their module, see ``own_environment``."""

from __future__ import annotations

import os

from own_environment import own_environment


def test_what_a_module_sets_ends_with_it():
    before = dict(os.environ)
    with own_environment():
        os.environ["MALLOC_TRIM_THRESHOLD_"] = "65536"
        os.environ.pop("PATH")
    assert dict(os.environ) == before
