"""``make test-long`` takes all of these cases, and ``make test`` a fixed share of them."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import TypeVar

Case = TypeVar("Case")

#: Whether there is time for everything.
IS_LONG = "FRAMEFOLD_FUZZ_SECONDS" in os.environ
SEED = int(os.environ.get("FRAMEFOLD_SEED", "20"))


def share(cases: Iterable[Case], part: int = 3) -> list[Case]:
    """One of so many cases, by chance, in their order; all of them in long runs."""
    chance = random.Random(SEED)
    return [case for case in cases if IS_LONG or chance.randrange(part) == 0]
