"""The crews whose workers are busy: they are stopped when the interpreter ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from framefold.common._ending import at_end

if TYPE_CHECKING:
    from framefold.executor._tasks import TaskCrew

active: set[TaskCrew] = set()


def _stop_all() -> None:
    for crew in list(active):
        crew.stop("the interpreter ends")


at_end(_stop_all)
if hasattr(os, "register_at_fork"):
    # In a fork, they are those of the other process, and their locks may be taken for ever.
    os.register_at_fork(after_in_child=active.clear)
