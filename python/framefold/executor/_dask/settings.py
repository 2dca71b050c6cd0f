"""What processes of local Dask clusters leave out, to rest while there is nothing to do."""

from __future__ import annotations

from typing import Any

#: Dask looks 50 times a second how long its event loop takes to come round, which is most of what
#: an idle process does. It warns of loops that hang for 3 seconds: twice a second is often enough.
INTERVAL = 0.5
TICK = "distributed.admin.tick"
#: How often Dask looks, and what it warns of, unless it is configured.
USUAL = {"interval": "20ms", "limit": "3s"}


def quiet() -> dict[str, Any]:
    """Settings for Dask; where it is to warn of shorter times, it looks more often."""
    import dask
    from dask.utils import parse_timedelta

    # Its defaults are there once distributed is imported.
    times = [dask.config.get(f"{TICK}.{key}", usual) for key, usual in USUAL.items()]
    interval, limit = (parse_timedelta(each, default="ms") for each in times)
    seconds = max(interval, min(INTERVAL, limit / 6))
    return {
        f"{TICK}.interval": f"{seconds * 1e3:g} ms",
        "distributed.worker.profile.enabled": False,
    }
