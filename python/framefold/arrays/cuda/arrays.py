"""Arrays of any format, brought to the current device."""

from __future__ import annotations

from typing import Any

from framefold.common.sparse import to_dense


def to_device(array: Any) -> Any:
    """``array`` as a dense CuPy array on the current device; one that is there is not copied."""
    import cupy

    package = type(array).__module__.partition(".")[0]
    if package == "cupyx" and hasattr(array, "toarray"):
        return array.toarray()
    return cupy.asarray(array if package == "cupy" else to_dense(array))
