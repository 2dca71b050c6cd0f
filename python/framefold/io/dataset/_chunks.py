"""The chunks of a Dask array, read piece by piece.

A piece is a run of frames that is made of whole chunks: as few of them as can be, if the chunks
do not hold runs of frames themselves, and as many as make up a size that is worth a partition.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.exceptions import InvalidArgumentError, UnsupportedError

#: The number of a chunk along each axis.
Index = tuple[int, ...]
Box = tuple[slice, ...]


@dataclass(frozen=True)
class Slab:
    """The smallest run of frames that is made of whole chunks; a box of the scan."""

    first: int
    stop: int
    #: On the navigation axes: first position, and length.
    origin: tuple[int, ...]
    shape: tuple[int, ...]
    #: The chunks, and where each lies in the slab, all axes.
    blocks: tuple[tuple[Index, Box], ...]


class Layout:
    """How the chunks of an array make up pieces.

    Parameters
    ----------
    chunks
        The lengths of the chunks along each axis.
    sig_dims
        How many of the last axes are signal axes.
    dtype
        Of the pixels, in native byte order.
    min_size
        Slabs are taken together until they have so many bytes.
    """

    def __init__(
        self,
        chunks: tuple[tuple[int, ...], ...],
        sig_dims: int,
        dtype: np.dtype[Any],
        min_size: float,
    ) -> None:
        n_nav = len(chunks) - sig_dims
        self.chunks = chunks
        self.shape = tuple(sum(lengths) for lengths in chunks)
        self.nav, self.sig = self.shape[:n_nav], self.shape[n_nav:]
        self.dtype = dtype
        frame_bytes = prod(self.sig) * dtype.itemsize
        #: The axis along which slabs follow each other; all positions of those before it have
        #: slabs of their own, those behind it are whole in each.
        self.axis = next((a for a in range(n_nav) if max(chunks[a]) > 1), n_nav - 1)
        slabs = self._slabs()
        self.pieces: list[list[Slab]] = []
        size = 0
        for slab in slabs:
            if not self.pieces or size >= min_size:
                self.pieces.append([])
                size = 0
            self.pieces[-1].append(slab)
            size += (slab.stop - slab.first) * frame_bytes
        self.starts = [piece[0].first for piece in self.pieces] + [prod(self.nav)]
        longest = max(b - a for a, b in pairwise(self.starts))
        self.largest_bytes = longest * frame_bytes
        self.n_joined = max(len(slab.blocks) for slab in slabs)
        #: Whether chunks hold frames that do not follow each other.
        self.scattered = any(len(lengths) > 1 for lengths in chunks[self.axis + 1 : n_nav])

    def _slabs(self) -> list[Slab]:
        """All slabs, in the order of their frames."""
        starts = [[0, *accumulate(lengths)][:-1] for lengths in self.chunks]
        n_nav, axis = len(self.nav), self.axis
        behind = [range(len(lengths)) for lengths in self.chunks[axis + 1 :]]
        weights = [prod(self.nav[a + 1 :]) for a in range(n_nav)]
        slabs = []
        for front in product(*(range(len(lengths)) for lengths in self.chunks[: axis + 1])):
            origin = [starts[a][k] for a, k in enumerate(front)]
            lengths = [self.chunks[a][k] for a, k in enumerate(front)]
            blocks = []
            for back in product(*behind):
                box = [slice(0, n) for n in lengths]
                for a, k in enumerate(back, axis + 1):
                    box.append(slice(starts[a][k], starts[a][k] + self.chunks[a][k]))
                blocks.append(((*front, *back), tuple(box)))
            first = sum(o * w for o, w in zip(origin, weights, strict=False))
            shape = (*lengths, *self.nav[axis + 1 :])
            place = (*origin, *(0 for _ in self.nav[axis + 1 :]))
            slabs.append(Slab(first, first + prod(shape), place, shape, tuple(blocks)))
        return slabs

    def wanted(self, piece: int, roi: npt.NDArray[np.bool_] | None) -> list[tuple[int, Index, Box]]:
        """The chunks of a piece that hold selected frames: slab, number, place."""
        found = []
        for k, slab in enumerate(self.pieces[piece]):
            part = None
            if roi is not None:
                places = zip(slab.origin, slab.shape, strict=True)
                part = roi[tuple(slice(o, o + n) for o, n in places)]
            for index, box in slab.blocks:
                if part is None or part[box[: len(self.nav)]].any():
                    found.append((k, index, box))
        return found

    def put_together(
        self, piece: int, wanted: Sequence[tuple[int, Index, Box]], blocks: Sequence[Any]
    ) -> npt.NDArray[Any]:
        """The frames of a piece, of which the ``wanted`` chunks are ``blocks``."""
        slabs = self.pieces[piece]
        first, n_frames = slabs[0].first, slabs[-1].stop - slabs[0].first
        checked = [
            self._checked(index, box, block)
            for (_, index, box), block in zip(wanted, blocks, strict=True)
        ]
        frames = (n_frames, *self.sig)
        if len(slabs) == 1 and len(slabs[0].blocks) == 1 and checked:
            whole = checked[0].reshape(frames)
            return np.require(whole, self.dtype, ["C", "A"])
        complete = len(wanted) == sum(len(slab.blocks) for slab in slabs)
        out = (np.empty if complete else np.zeros)(frames, self.dtype)
        for (k, _, box), block in zip(wanted, checked, strict=True):
            slab = slabs[k]
            part = out[slab.first - first : slab.stop - first]
            part.reshape((*slab.shape, *self.sig))[box] = block
        return out

    def _checked(self, index: Index, box: Box, block: Any) -> npt.NDArray[Any]:
        """A chunk, if it is what the array says it is."""
        if isinstance(block, np.ma.MaskedArray):
            raise UnsupportedError(
                f"chunk {index} of the Dask array is a masked array, and masks would be lost; "
                f"say what masked elements are: da.ma.filled(array, value)"
            )
        if not isinstance(block, np.ndarray):
            kind = f"{type(block).__module__}.{type(block).__name__}"
            if not np.isscalar(block):
                raise UnsupportedError(
                    f"chunk {index} of the Dask array is a {kind}, expected a NumPy array; convert "
                    f"chunks with array.map_blocks, or compute() sparse ones and use 'memory'"
                )
            block = np.asarray(block)
        array: npt.NDArray[Any] = block
        expected = tuple(part.stop - part.start for part in box)
        if block.shape != expected:
            raise InvalidArgumentError(
                f"chunk {index} of the Dask array has shape {block.shape}, but the array says "
                f"{expected}; give chunks= where the array is made"
            )
        if block.dtype.newbyteorder("=") != self.dtype:
            raise InvalidArgumentError(
                f"chunk {index} of the Dask array has dtype {block.dtype}, but the array says "
                f"{self.dtype}; give dtype= or meta= where the array is made"
            )
        return array


class ChunkReader:
    """Computes the chunks of a piece; what the engine calls.

    On the scheduler that Dask is set to; without one, and in processes that the array was sent to,
    on the calling thread, since pieces are processed on several threads already.
    """

    def __init__(
        self,
        array: Any,
        layout: Layout,
        roi: npt.NDArray[np.bool_] | None,
        *,
        elsewhere: bool = False,
    ) -> None:
        self.array = array
        #: Whether it was sent here: then others work for the same scheduler, and wait for this one.
        self._elsewhere = elsewhere
        self.layout = layout
        self.roi = roi
        self._lock = threading.Lock()
        self._tasks: dict[Any, Any] | None = None
        self._held: dict[Any, Any] | None = None

    def __call__(self, piece: int) -> npt.NDArray[Any]:
        """The frames of a piece, in C order."""
        wanted = self.layout.wanted(piece, self.roi)
        blocks = _find_given(self.layout, self.roi, piece)
        if blocks is None:
            blocks = self._compute(wanted)
        return self.layout.put_together(piece, wanted, blocks)

    def keys(self, piece: int) -> list[Any]:
        """The keys of the chunks that :meth:`__call__` needs."""
        return [(self.array.name, *index) for _, index, _ in self.layout.wanted(piece, self.roi)]

    def _compute(self, wanted: Sequence[tuple[int, Index, Box]]) -> Sequence[Any]:
        from dask.base import get_scheduler
        from dask.local import get_sync
        from dask.optimization import cull

        if self.array is None:
            raise InvalidArgumentError(
                "the chunks of the Dask array are only known where the run was begun"
            )
        get = (None if self._elsewhere else get_scheduler()) or get_sync
        keys = [(self.array.name, *index) for _, index, _ in wanted]
        tasks, _ = cull(self._optimized(), keys)
        if self._elsewhere:
            tasks.update(self._fetched(tasks, keys))
        try:
            blocks: Sequence[Any] = get(tasks, keys)
            return blocks
        except Exception as error:
            self._name_chunk(error, wanted, get)
            raise

    def _fetched(self, tasks: dict[Any, Any], keys: Sequence[Any]) -> dict[Any, Any]:
        """What these tasks need of what a cluster holds; this process works for that cluster."""
        from dask.core import keys_in_tasks

        with self._lock:
            if self._held is None:
                self._held = {future.key: future for future in held_by_cluster(self.array)}
        if not self._held:
            return {}
        from distributed import Future, get_client

        needed = {*keys, *tasks}
        for task in tasks.values():
            found = getattr(task, "dependencies", None)
            needed.update(keys_in_tasks(self._held, [task]) if found is None else found)
        client = get_client()
        # They are finished, or the run would not have begun; those that came here do not know it.
        futures = {key: Future(key, client, state="memory") for key in needed & self._held.keys()}
        fetched: dict[Any, Any] = client.gather(futures)
        return fetched

    def _optimized(self) -> dict[Any, Any]:
        """The tasks of all chunks, in the form that they are computed in."""
        from dask.core import flatten

        with self._lock:
            if self._tasks is None:
                keys = list(flatten(self.array.__dask_keys__()))
                graph = self.array.__dask_graph__()
                tasks = dict(self.array.__dask_optimize__(graph, keys))
                # What a cluster holds already is left out there.
                self._tasks = tasks if all(key in tasks for key in keys) else dict(graph)
            return self._tasks

    def _name_chunk(
        self, error: Exception, wanted: Sequence[tuple[int, Index, Box]], get: Any
    ) -> None:
        """Say which chunk failed: the first that fails when each is computed by itself."""
        from dask.optimization import cull

        failed = None
        for _, index, _ in wanted:
            key = (self.array.name, *index)
            try:
                get(cull(self._optimized(), [key])[0], [key])
            except Exception:
                failed = index
                break
        which = f"chunk {failed}" if failed else f"chunks {wanted[0][1]} to {wanted[-1][1]}"
        error.add_note(f"raised while {which} of the Dask array was computed")


def held_by_cluster(array: Any) -> list[Any]:
    """The futures in a Dask array: what was persisted, or computed, by a cluster."""
    if "distributed" not in sys.modules:
        return []
    from distributed import futures_of

    futures: list[Any] = futures_of(array)
    return futures


_given = threading.local()


@contextmanager
def given_blocks(
    layout: Layout, roi: npt.NDArray[np.bool_] | None, piece: int, blocks: Sequence[Any]
) -> Any:
    """While entered, this thread has the chunks of a piece already; others may be run within."""
    before = getattr(_given, "blocks", {})
    _given.blocks = {**before, (layout, piece): (roi, blocks)}
    try:
        yield
    finally:
        _given.blocks = before


def _find_given(
    layout: Layout, roi: npt.NDArray[np.bool_] | None, piece: int
) -> Sequence[Any] | None:
    """The chunks that this thread has, of this data set and for the same positions."""
    given = getattr(_given, "blocks", {}).get((layout, piece))
    if given is None:
        return None
    for_roi, blocks = given
    if roi is None or for_roi is None:
        return blocks if roi is for_roi else None
    return blocks if roi is for_roi or np.array_equal(roi, for_roi) else None
