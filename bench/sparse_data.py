"""Frames with few counts, as an event detector gives them, in sparse and in dense files."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from data import Data

#: How many different frames there are; a scan shows them in random order.
N_FRAMES = 512
#: Frames that are put together before they are written.
BLOCK = 1024

ENDINGS = (".indptr", ".indices", ".data")
DTYPES = ("<i8", "<i4", "<u2")


@lru_cache(maxsize=1)
def events(data: Data) -> tuple[list[npt.NDArray[Any]], list[npt.NDArray[Any]], Any]:
    """Pixels that are hit and their counts, frame by frame, and which of these frames comes when.

    No frame is empty, so that each has a centre of mass.
    """
    assert data.occupancy is not None
    rng = np.random.default_rng(5)
    n_pixels = math.prod(data.sig)
    lengths = np.maximum(rng.poisson(data.occupancy * n_pixels, N_FRAMES), 1)
    pixels = [np.sort(rng.choice(n_pixels, n, replace=False)).astype("<i4") for n in lengths]
    counts = [rng.integers(1, 5, n).astype(data.dtype) for n in lengths]
    return pixels, counts, rng.integers(0, N_FRAMES, data.n_frames)


def n_events(data: Data) -> int:
    """How many pixels of the whole scan have counts."""
    pixels, _, order = events(data)
    lengths = np.array([len(frame) for frame in pixels])
    return int(lengths[order].sum())


def write_sparse(data: Data, path: Path) -> None:
    """Write the arrays beside ``path``, and ``path`` itself, which describes them, last."""
    pixels, counts, order = events(data)
    lengths = np.array([len(frame) for frame in pixels])
    indptr = np.concatenate([[0], np.cumsum(lengths[order])]).astype("<i8")
    files = dict(zip(ENDINGS, (path.with_suffix(end) for end in ENDINGS), strict=True))
    indptr.tofile(files[".indptr"])
    for ending, frames in ((".indices", pixels), (".data", counts)):
        with files[ending].open("wb") as file:
            for start in range(0, len(order), BLOCK):
                block = [frames[k] for k in order[start : start + BLOCK]]
                np.concatenate(block).tofile(file)
    entries = "".join(
        f'{name}_file = "{files["." + name].name}"\n{name}_dtype = "{dtype}"\n'
        for name, dtype in zip(("indptr", "indices", "data"), DTYPES, strict=True)
    )
    path.write_text(
        f'[params]\nfiletype = "raw_csr"\nnav_shape = {list(data.nav)}\n'
        f"sig_shape = {list(data.sig)}\n\n[raw_csr]\n{entries}"
    )


def write_dense(data: Data, path: Path) -> None:
    """Write the same frames with all their zeros."""
    pixels, counts, order = events(data)
    frame = np.zeros(math.prod(data.sig), dtype=data.dtype)
    with path.open("wb") as file:
        for k in order:
            frame[pixels[k]] = counts[k]
            file.write(frame.data)
            frame[pixels[k]] = 0
