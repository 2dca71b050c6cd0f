"""Data sets as Dask arrays."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from math import prod
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.common._roi import roi_mask
from framefold.common.buffers import BufferDeclaration
from framefold.common.optional import require
from framefold.common.udf import CUDA, NUMPY, SPARSE_COO, SPARSE_DOK, SPARSE_GCXS
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.io.dataset.base import DataSet
from framefold.io.dataset.dask import DaskDataSet
from framefold.run.plan import plan_run
from framefold.udf.base import UDF

if TYPE_CHECKING:
    import dask.array as da

__all__ = ["make_dask_array"]

#: Formats of blocks beside NumPy's.
SPARSE = (SPARSE_COO, SPARSE_GCXS, SPARSE_DOK)
#: About how large blocks are at most, in bytes.
BLOCK_BYTES = 64 << 20


class _FramesUDF(UDF):
    """Gives the frames themselves."""

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The dtype of the data, or the one that was asked for."""
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """One frame per frame."""
        sig = tuple(self.meta.dataset_shape.sig)
        dtype = self.params.dtype or self.meta.input_dtype
        return {"frames": self.buffer(kind="nav", extra_shape=sig, dtype=dtype)}

    def process_tile(self, tile: Any) -> None:
        """Copy."""
        self.results.frames[(slice(None), *self.meta.sig_slice.get())] = tile


def make_dask_array(
    dataset: DataSet,
    dtype: npt.DTypeLike | None = None,
    roi: Any = None,
    array_backend: str | None = None,
) -> tuple[da.Array, list[str]]:
    """A data set as a Dask array, of which each block is a run of frames.

    Parameters
    ----------
    dataset
        From :meth:`framefold.Context.load`. Its own corrections are applied, if it has any.
    dtype
        The dtype of the array; that of the data if None. Converted as by
        :meth:`numpy.ndarray.astype`: what integers cannot hold becomes another number, and complex
        numbers lose their imaginary parts in a real dtype.
    roi
        Which positions of the scan to take, as for :meth:`framefold.Context.run_udf`; all if None.
    array_backend
        The array format of the blocks: ``'numpy'``, which is also what None and ``'cuda'`` mean, or
        ``'sparse.COO'``, ``'sparse.GCXS'`` and ``'sparse.DOK'``. The others have two axes, or are
        on a device.

    Returns
    -------
    array : dask.array.Array
        Of the shape of the data set; with a ROI of shape ``(n_selected, *sig)``. Positions without
        data hold NaN, or 0 if the dtype has no NaN. Blocks have 64 MiB at most, if frames are not
        larger, and hold whole rows of the scan where these fit.
    workers : list of str
        Which workers of the current ``dask.distributed`` client can read the files. Empty if all of
        them can, or there is no such client. Pass it to ``compute(workers=workers)``.

    Raises
    ------
    InvalidArgumentError
        If ``dataset`` is no data set, or the ROI does not fit it.
    MissingLibraryError
        If Dask is not installed.
    UnsupportedError
        If blocks cannot have that format.
    """
    convert = _converter(array_backend)
    array, workers = _dense(dataset, dtype, roi)
    if convert is not None:
        meta = convert(np.empty((0,) * array.ndim, dtype=array.dtype))
        array = array.map_blocks(convert, dtype=array.dtype, meta=meta)
    return array, workers


def _dense(dataset: DataSet, dtype: npt.DTypeLike | None, roi: Any) -> tuple[da.Array, list[str]]:
    """The array with blocks of NumPy, or what the Dask array has that holds the frames."""
    if not isinstance(dataset, DataSet):
        raise InvalidArgumentError(
            f"dataset is a {type(dataset).__name__}; use the result of Context.open or Context.load"
        )
    require("dask.array", "make_dask_array", "the array that it makes")
    wanted = None if dtype is None else np.dtype(dtype)
    mask = roi_mask(roi, tuple(dataset.shape.nav))
    if isinstance(dataset, DaskDataSet) and _are_as_in_array(dataset):
        return _of_dask(dataset.array, dataset, wanted, mask), []
    from framefold.executor._delayed import tasks
    from framefold.executor._delayed.graph import Graph

    nav, sig = tuple(dataset.shape.nav), tuple(dataset.shape.sig)
    grid: tuple[int, ...] = nav if mask is None else (int(np.count_nonzero(mask)),)
    udf = _FramesUDF(dtype=wanted)
    frame_bytes = prod(sig) * max(dataset.dtype.itemsize, wanted.itemsize if wanted else 0)
    chunks = _nav_chunks(grid, max(1, BLOCK_BYTES // max(1, frame_bytes)))
    cuts = _firsts(grid, chunks)
    run = plan_run(dataset, udf, mask, 0, cuts=cuts)
    run.tell_oddities()
    graph = Graph(tasks.DelayedRun(run))
    bridge = run.bridges[0]
    assert bridge is not None
    buffer = BufferDeclaration("nav", sig, wanted or bridge.input_dtype, None, None)
    frames = graph.nav_rows(0, "frames", buffer, native=True)
    return _in_blocks(frames, chunks), _locality(dataset)


def _in_blocks(frames: da.Array, chunks: Sequence[tuple[int, ...]]) -> da.Array:
    """One entry per frame in the shape of the scan; a block for each chunk along its axes."""
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    shapes = list(product(*chunks))
    rows = frames.rechunk({0: tuple(map(prod, shapes))}, method="tasks")
    sig, behind = rows.shape[1:], (0,) * (rows.ndim - 1)
    name = f"framefold-blocks-{rows.name}"
    layer = {
        (name, *number, *behind): (methodcaller("reshape", (*nav, *sig)), (rows.name, k, *behind))
        for k, (number, nav) in enumerate(
            zip(product(*(range(len(lengths)) for lengths in chunks)), shapes, strict=True)
        )
    }
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[rows])
    return da.Array(graph, name, (*chunks, *rows.chunks[1:]), dtype=rows.dtype)


def _converter(array_backend: str | None) -> Callable[[npt.NDArray[Any]], Any] | None:
    """What makes blocks of NumPy's; None if nothing need be done."""
    if array_backend in (None, NUMPY, CUDA):
        return None
    if array_backend not in SPARSE:
        raise UnsupportedError(
            f"array_backend is {array_backend!r}, and blocks of the array have all axes of the "
            f"data set; use 'numpy', {', '.join(repr(name) for name in SPARSE)}, and convert "
            f"blocks of two axes with array.map_blocks"
        )
    return partial(_sparse_block, array_backend)


def _sparse_block(name: str, block: Any) -> Any:
    library = require("sparse", "make_dask_array", f"blocks of format {name!r}")
    coo = block if isinstance(block, library.COO) else library.COO(block)
    return coo if name == SPARSE_COO else coo.asformat(name.partition(".")[2].lower())


def _are_as_in_array(dataset: DaskDataSet) -> bool:
    """Whether the frames of the data set are those of the Dask array that it was made of."""
    return not dataset._makes_frames and not dataset.get_correction_data().have_corrections()


def _of_dask(
    array: da.Array,
    dataset: DataSet,
    dtype: np.dtype[Any] | None,
    roi: npt.NDArray[np.bool_] | None,
) -> da.Array:
    """The array that the data set was made of."""
    if roi is not None:
        sig = tuple(dataset.shape.sig)
        array = array.reshape((dataset.shape.nav.size, *sig))[np.flatnonzero(roi)]
    return array if dtype is None else array.astype(dtype)


def _nav_chunks(grid: Sequence[int], n_frames: int) -> list[tuple[int, ...]]:
    """The lengths of blocks along navigation axes; each is a run of ``n_frames`` at most."""
    chunks: list[tuple[int, ...]] = []
    whole = True
    for axis in reversed(range(len(grid))):
        behind, length = prod(grid[axis + 1 :]), grid[axis]
        if not whole:
            chunks.append((1,) * length)
        elif behind * length <= n_frames:
            chunks.append((length,))
        else:
            whole = False
            n_blocks = -(-length // max(1, n_frames // behind))
            size, larger = divmod(length, n_blocks)
            chunks.append(tuple(size + (k < larger) for k in range(n_blocks)))
    return chunks[::-1]


def _firsts(grid: Sequence[int], chunks: Sequence[tuple[int, ...]]) -> list[int]:
    """The first frame of each block, in order."""
    firsts = [0]
    for length, lengths in zip(grid, chunks, strict=True):
        starts = np.cumsum((0, *lengths[:-1]))
        firsts = [first * length + int(start) for first in firsts for start in starts]
    return firsts


def _locality(dataset: DataSet) -> list[str]:
    """Which workers can read the files, if that is not all of them."""
    paths = [str(path) for path in dataset.paths]
    client = _client()
    if client is None or not paths:
        return []
    found: dict[str, bool] = client.run(_can_read, paths)
    able = sorted(address for address, can in found.items() if can)
    if found and not able:
        raise UnsupportedError(
            f"no worker of {client.scheduler.address} can read {paths[0]}; put the file where "
            f"workers find it under the same name"
        )
    return [] if len(able) == len(found) else able


def _client() -> Any:
    """The current client of ``dask.distributed``, None if there is none."""
    if "distributed" not in sys.modules:
        return None
    from distributed import get_client

    try:
        client = get_client()
    except ValueError:
        return None
    return None if client.asynchronous else client  # which could only be asked in its event loop


def _can_read(paths: list[str]) -> bool:
    return all(os.access(path, os.R_OK) for path in paths)
