"""What processes of local Dask clusters leave out, to rest while there is nothing to do."""

from __future__ import annotations

from typing import Any

#: Dask looks 50 times a second how long its event loop takes to come round, which is most of what
#: an idle process does. It warns of loops that hang for 3 seconds: twice a second is often enough.
QUIET: dict[str, Any] = {
    "distributed.admin.tick.interval": "500ms",
    "distributed.worker.profile.enabled": False,
}
