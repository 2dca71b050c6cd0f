"""Tiles in the formats of CuPy, made on the device of what the engine has on the host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.arrays.cuda.corrections import DeviceCorrections
from framefold.arrays.cuda.decoding import Encoded
from framefold.arrays.cuda.pixels import as_dtype
from framefold.arrays.cuda.worker import DeviceWorker, current_worker
from framefold.arrays.sparse_tiles import max_depth
from framefold.arrays.tile_formats import SMALL, Rows
from framefold.common.sparse import cupyx_dtype
from framefold.common.udf import CUPY, CUPY_SCIPY_COO, CUPY_SCIPY_CSC
from framefold.exceptions import EngineError, LimitError

if TYPE_CHECKING:
    from collections.abc import Callable

    from framefold.io.corrections.corrset import CorrectionSet

Array = npt.NDArray[Any]
Key = tuple[int, int, int, str]


class DeviceTiles:
    """The tiles of one run, each brought to the device once for all UDFs that take it there.

    Parameters
    ----------
    takers
        For each UDF that does the format, and whether it gets frames of that format one by one.
    of_rows
        Whether they are made of the engine's sparse tiles.

    Notes
    -----
    A tile that is brought to a device belongs to the worker there, which hands it to one UDF
    after the other, and is given up with the last. UDFs that get another dtype have one of that.
    """

    #: Whether the frames are on the device before the run.
    are_resident = False

    def __init__(self, takers: Sequence[tuple[str, bool]], of_rows: bool) -> None:
        self._n_takers = len(takers)
        self._n_sharing = Counter(takers)
        self._of_rows = of_rows

    def max_depth(self, format_: str, frames: bool, sig: Sequence[int]) -> int | None:
        """The most frames that a tile may have, so that what UDFs share of it fits the memory.

        As for :meth:`framefold.arrays.sparse_tiles.SparseTiles.max_depth`.
        """
        if not frames or self._n_sharing[format_, True] < 2 or format_ == CUPY:
            return None
        return max_depth(format_, sig)

    def clear(self) -> None:
        """Forget the current tile of this worker."""
        worker = current_worker()
        if worker is not None:
            worker.held.pop(self, None)

    def giver(
        self,
        format_: str,
        frames: bool,
        dtype: np.dtype[Any],
        sig_shapes: Sequence[tuple[int, ...]],
        corrections: CorrectionSet | None,
        only_reads: bool,
        show: Callable[[int, int, int], None],
    ) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """What the engine calls with the place of each tile and its arrays, or its staging memory.

        Parameters
        ----------
        format_
            The format to give, one of CuPy's.
        frames
            Whether to give an iterator over the frames of the tile, or the tile.
        dtype
            Of the pixels that the UDF gets.
        sig_shapes
            The shape of each signal slice.
        corrections
            What the device applies to tiles that come without.
        only_reads
            Whether the UDF is known to change no tile. Others get dense tiles of their own.
        show
            Called before each tile or frame, with the range of its frames and its slice.
        """

        def give(start: int, stop: int, index: int, *arrays: Array) -> Any:
            key = (start, stop, index, arrays[-1].dtype.char)
            upload = partial(self._uploaded, sig_shapes[index], arrays)
            return shown(*self._tile(key, upload), start, stop, index)

        def give_staged(
            place: tuple[int, int, int],
            number: int | None,
            stored: str,
            is_raw: bool,
            encoded: tuple[Any, ...] | None,
        ) -> Any:
            start, stop, index = place
            key, shape = (start, stop, index, dtype.char), (stop - start, *sig_shapes[index])
            raw = corrections if is_raw else None
            decode = None if encoded is None else (Encoded(*encoded), start)
            upload = partial(self._staged, shape, number, np.dtype(stored), decode, dtype, raw)
            return shown(*self._tile(key, upload), start, stop, index)

        def shown(tile: DeviceTile, is_last: bool, start: int, stop: int, index: int) -> Any:
            if not (is_last or only_reads):
                tile = tile.own(format_)
            if frames:
                shared = self._n_sharing[format_, True] > 1
                return tile.frames(format_, shared, start, index, show)
            show(start, stop, index)
            return tile.whole(format_)

        return give, give_staged

    def _tile(
        self, key: Key, upload: Callable[[DeviceWorker], DeviceTile]
    ) -> tuple[DeviceTile, bool]:
        """The tile, and whether this is the last UDF that gets it."""
        worker = current_worker()
        if worker is None:
            raise EngineError("a tile for a CUDA device is wanted where there is none")
        place, dtype = key[:3], key[3]
        held = worker.held.pop(self, None)
        if held is None or held[0] != place:
            held = place, {}, self._n_takers
        _, made, n_left = held
        tile = made.get(dtype)
        if tile is None:
            tile = made[dtype] = upload(worker)
        if n_left > 1:
            worker.held[self] = place, made, n_left - 1
        return tile, n_left == 1

    def _staged(
        self,
        shape: tuple[int, ...],
        number: int | None,
        stored: np.dtype[Any],
        decode: tuple[Encoded, int] | None,
        dtype: np.dtype[Any],
        corrections: CorrectionSet | None,
        worker: DeviceWorker,
    ) -> DeviceTile:
        """A tile that the engine has read; on its way it has the dtype that it has in the file.

        ``decode``: what of it is encoded, and the number of its first frame.
        """
        staging = worker.staging
        if number is None or staging is None:
            raise EngineError("a tile was not read that is on no device")
        tile = staging.tile(number)
        if decode is None:
            there = worker.uploader(self).upload_staged(tile, shape, stored)
        else:
            encoded, first = decode
            there, parts = worker.uploader(self).upload_encoded(tile, shape, stored, encoded)
            staging.decoder.decode(encoded, parts, there, first)
        if corrections is not None:
            make = partial(DeviceCorrections, corrections, shape[1:], dtype)
            there = worker.keep((self, "corrections", dtype), make).apply(there)
        else:
            there = as_dtype(there, dtype)
        return DeviceTile(shape[1:], shape[0], dense=there)

    def _uploaded(
        self, sig: tuple[int, ...], arrays: Sequence[Array], worker: DeviceWorker
    ) -> DeviceTile:
        if not self._of_rows:
            (array,) = worker.uploader(self).upload([(arrays[0], arrays[0].dtype)])
            return DeviceTile(sig, len(array), dense=array)
        rows = Rows(sig, *arrays)
        if max(rows.n_cells, len(rows.values)) > SMALL:
            raise LimitError(
                f"a sparse tile of {rows.depth} frames has {len(rows.values)} entries in frames "
                f"of {rows.n_cells} pixels; cupyx.scipy.sparse counts to {SMALL}: ask for smaller "
                f"tiles in get_tiling_preferences"
            )
        # As they are: in another dtype they would be more bytes, or other numbers.
        uploaded = worker.uploader(self).upload(
            [
                (rows.values, rows.values.dtype),
                (rows.columns, np.dtype(np.int32)),
                (rows.starts, np.dtype(np.int32)),
            ]
        )
        return DeviceTile(sig, rows.depth, rows=(uploaded[0], uploaded[1], uploaded[2]))


class DeviceTile:
    """One tile on the device, in the formats that were asked for."""

    def __init__(
        self,
        sig: tuple[int, ...],
        depth: int,
        dense: Any = None,
        rows: tuple[Any, Any, Any] | None = None,
    ) -> None:
        self._sig = sig
        self._depth = depth
        self._dense = dense
        #: Values, columns, and where rows begin.
        self._entries = rows
        self._csr: Any = None
        self._made: dict[str, Any] = {}
        self._made_frames: dict[str, list[Any]] = {}

    def own(self, format_: str) -> DeviceTile:
        """The tile for a function that may write into it, while others are to get this one."""
        if format_ != CUPY:
            return self
        return DeviceTile(self._sig, self._depth, dense=self.whole(CUPY).copy())

    def whole(self, format_: str) -> Any:
        """``(depth, *sig)``, or ``(depth, cells)`` in formats of two axes."""
        if format_ not in self._made:
            self._made[format_] = self._make(format_)
        return self._made[format_]

    def frames(
        self,
        format_: str,
        shared: bool,
        start: int,
        index: int,
        show: Callable[[int, int, int], None],
    ) -> Iterator[Any]:
        """The frames: of shape ``sig``, or ``(1, cells)`` in formats of two axes.

        ``shared``: others get the same ones.
        """
        made = self._made_frames.setdefault(format_, []) if shared else []
        whole = self.whole(CUPY) if format_ == CUPY else self._rows()
        for i in range(self._depth):
            show(start + i, start + i + 1, index)
            if i < len(made):
                yield made[i]
                continue
            frame = whole[i] if format_ == CUPY else _of_rows(whole[i : i + 1], format_)
            if shared and format_ != CUPY:
                made.append(frame)
            yield frame

    def _make(self, format_: str) -> Any:
        if format_ != CUPY:
            return _of_rows(self._rows(), format_)
        return self._densified() if self._dense is None else self._dense

    def _densified(self) -> Any:
        """All zeros written out. cupyx would do so by way of numbers with a fraction."""
        import cupy

        values, columns, starts = self._entries  # type: ignore[misc]
        flat = cupy.zeros(self._depth * prod(self._sig), dtype=values.dtype)
        places = cupy.arange(values.size, dtype=np.int64)
        rows = cupy.searchsorted(starts, places, side="right") - 1
        flat[rows * prod(self._sig) + columns] = values
        return flat.reshape((self._depth, *self._sig))

    def _rows(self) -> Any:
        if self._csr is None and self._entries is not None:
            values, columns, starts = self._entries
            wide = cupyx_dtype(values.dtype)
            values = values if values.dtype == wide else values.astype(wide)
            shape = self._depth, prod(self._sig)
            self._csr = _sparse().csr_matrix((values, columns, starts), shape=shape)
        elif self._csr is None:
            flat = self._dense.reshape((self._depth, prod(self._sig)))
            self._csr = _sparse().csr_matrix(flat.astype(cupyx_dtype(flat.dtype)))
        return self._csr


#: The position of a tile, the tile, and how many UDFs have yet to take it.
Held = tuple[tuple[int, int, int], dict[str, DeviceTile], int]


def _of_rows(csr: Any, format_: str) -> Any:
    if format_ == CUPY_SCIPY_CSC:
        return csr.tocsc()
    return csr.tocoo() if format_ == CUPY_SCIPY_COO else csr


def _sparse() -> Any:
    import cupyx.scipy.sparse

    return cupyx.scipy.sparse
