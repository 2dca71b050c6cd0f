"""The progress bar of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Callback = Callable[[str, int, int, int], None]


@contextmanager
def progress_callback(show: bool) -> Iterator[Callback | None]:
    """A callback for the engine that drives a progress bar, or None.

    The bar counts frames, and closes however the run ends.
    """
    if not show:
        yield None
        return
    from tqdm.auto import tqdm

    bar = tqdm(total=0, unit="frame", unit_scale=True)

    def callback(kind: str, frames: int, n_bytes: int, partitions: int) -> None:
        if kind == "started":
            bar.reset(total=frames)
        elif kind == "merged":
            bar.update(frames - bar.n)

    try:
        yield callback
    finally:
        bar.close()
