"""Frames as arrays: by position of the scan, and by partitions and tiles for loops by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common._dtypes import as_dtype
from framefold.common._losses import first_lost
from framefold.common._masked import refuse_masked
from framefold.common.shape import Shape
from framefold.common.slice import Slice
from framefold.common.tiling_scheme import TilingScheme
from framefold.exceptions import InvalidArgumentError, LimitError

if TYPE_CHECKING:
    from framefold.io.corrections.corrset import CorrectionSet
    from framefold.io.dataset.base import DataSet

__all__ = ["DataTile", "Partition", "all_frames", "frames_at", "partitions_of", "sum_of_frames"]

#: About how many bytes partitions read at a time.
BLOCK_BYTES = 32 << 20
#: How many bytes of frames the engine picks at most.
MOST_BYTES = 1 << 30
#: About how many bytes tiles have by default.
TILE_BYTES = 1 << 20


def frames_at(dataset: DataSet, key: Any) -> npt.NDArray[Any]:
    """The frames at the positions that an index selects; see :meth:`DataSet.__getitem__`."""
    nav, sig = tuple(dataset.shape.nav), tuple(dataset.shape.sig)
    chosen = _positions(nav, key)
    flat, order = chosen.reshape(-1), None
    if not (flat[1:] > flat[:-1]).all():
        flat, order = np.unique(flat, return_inverse=True)
    if not flat.size:
        begins = [start for start, _ in dataset._engine.positions_with_data]
        dtype = _pick(dataset, np.array(begins[:1])).dtype if begins else dataset.dtype
        return np.empty((*chosen.shape, *sig), dtype=dtype)
    missing = flat[~_have_data(dataset, flat)]
    if missing.size:
        first = tuple(int(i) for i in np.unravel_index(missing[0], nav))
        raise InvalidArgumentError(
            f"there is no frame at {missing.size} of the selected positions, the first of which is "
            f"{first}; ds.valid_mask says where there are frames, and ds[ds.valid_mask] gives them"
        )
    frames = _pick(dataset, flat)
    if order is not None:
        frames = frames[order]
    return frames.reshape((*chosen.shape, *sig))


def _positions(nav: tuple[int, ...], key: Any) -> npt.NDArray[np.intp]:
    """The flat positions that an index of the navigation axes selects, in its shape.

    Takes no more memory than these, whatever the size of the scan.
    """
    refuse_masked("the index", key, "use filled(False) for positions that are left out")
    flat: Any = 0
    try:
        for part, length in zip(_along_axes(nav, key), nav, strict=True):
            flat = flat * length + part
        return np.asarray(flat, dtype=np.intp)
    except (IndexError, OverflowError) as error:
        raise IndexError(
            f"the index does not fit a scan of shape {nav}: {error}; ds[…] takes navigation axes "
            f"alone, and gives frames, which can be indexed further"
        ) from None
    except MemoryError:
        raise LimitError(
            f"there is no memory for the positions that the index selects of a scan of shape {nav}"
        ) from None


def _along_axes(nav: tuple[int, ...], key: Any) -> list[Any]:
    """For each axis, the coordinates of what an index selects, as arrays that broadcast."""
    parts = list(key) if isinstance(key, tuple) else [key]
    where = next((i for i, part in enumerate(parts) if part is Ellipsis), None)
    if where is None:
        where = len(parts)
        parts.append(Ellipsis)
    parts[where : where + 1] = [slice(None)] * (len(nav) - len(parts) + 1)
    if len(parts) == len(nav) and all(map(_is_plain, parts)):
        # NumPy names the axis, and makes arrays of what is none of its own, as those of Dask.
        with suppress(IndexError, TypeError, ValueError):
            ranges = [range(length)[part] for part, length in zip(parts, nav, strict=True)]
            axes = [np.arange(r.start, r.stop, r.step) for r in ranges if isinstance(r, range)]
            grid = iter(np.ix_(*axes))
            return [next(grid) if isinstance(r, range) else r for r in ranges]
    # NumPy's own indexing, of arrays that repeat the numbers along one axis over all others.
    coordinates = np.ix_(*map(np.arange, nav))
    return [np.broadcast_to(along, nav)[key] for along in coordinates]


def _is_plain(part: Any) -> bool:
    """Whether it is an integer or a slice."""
    return isinstance(part, slice) or (
        hasattr(part, "__index__") and not isinstance(part, bool | np.bool_ | np.ndarray)
    )


def _have_data(dataset: DataSet, positions: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Which of some flat positions have data."""
    ranges = np.array([(-1, -1), *dataset._engine.positions_with_data])
    before = np.searchsorted(ranges[:, 0], positions, side="right") - 1
    return np.asarray(positions < ranges[before, 1])


def _pick(
    dataset: DataSet,
    positions: npt.NDArray[np.intp],
    corrections: CorrectionSet | None = None,
) -> npt.NDArray[Any]:
    """The frames at ascending flat positions."""
    return _result(_plan(dataset, positions, corrections), 0)[0]


def all_frames(dataset: DataSet, copy: bool | None) -> npt.NDArray[Any]:
    """All frames in the shape of the data set; see :meth:`DataSet.__array__`."""
    if copy is False:
        raise ValueError(
            f"{dataset!r} cannot be an array without a copy; leave copy=False out, or use "
            f"dataset.data if it is in memory"
        )
    try:
        return frames_at(dataset, ...)
    except LimitError as error:
        raise LimitError(
            f"{dataset!r} is too large to be one array; take a part of it, dataset[…], or run a "
            f"function over it, Context.run_udf: {error}"
        ) from None


def sum_of_frames(dataset: DataSet) -> tuple[npt.NDArray[Any], int]:
    """The sum of all frames that there are, and how many: on all cores, in any memory."""
    total, n_merged = _result(_plan(dataset, None, None, ("sum", "SumUDF")), None)
    return total, n_merged


def _result(plan: _engine.Plan, threads: int | None) -> tuple[npt.NDArray[Any], int]:
    """The only result of a plan, and from how many frames it is."""
    driver = _engine.Driver(plan, threads)
    try:
        driver.run()
        lists, valid = driver.take()
        ((_, _, _, values),) = lists[0]
        n_frames = int(np.count_nonzero(valid))
    finally:
        driver.close()
    return np.asarray(values), n_frames


def _plan(
    dataset: DataSet,
    positions: npt.NDArray[np.intp] | None,
    corrections: CorrectionSet | None,
    kernel: tuple[str, str] = ("pick", "dataset[…]"),
) -> _engine.Plan:
    """That of a run of a built-in function, which stands above: of its kernel, under a name."""
    dataset._check_files()
    _, frames = dataset._corrected(corrections, positions)
    udf = _engine.NativeUdf(*kernel, {}, tuple(dataset.shape.sig))
    return _engine.Plan(frames, [udf], positions)


def partitions_of(dataset: DataSet) -> Iterator[Partition]:
    """See :meth:`DataSet.get_partitions`."""
    # Those of a function whose results are small: what is read is up to who loops over them.
    plan = _plan(dataset, None, None, ("sum_sig", "SumSigUDF"))
    for number, (start, stop) in enumerate(plan.partitions()):
        yield Partition(dataset, number, start, stop)


class DataTile(np.ndarray[Any, Any]):
    """An array that knows where it is from.

    Attributes
    ----------
    tile_slice : Slice
        Its place: the first axis counts frames, those of the ROI alone if there is one.
    scheme_idx : int
        The number of its part of the frame.
    """

    tile_slice: Slice
    scheme_idx: int

    @classmethod
    def of(cls, array: npt.NDArray[Any], tile_slice: Slice, scheme_idx: int) -> DataTile:
        """An array as a tile."""
        tile = array.view(cls)
        tile.tile_slice, tile.scheme_idx = tile_slice, scheme_idx
        return tile

    @property
    def data(self) -> npt.NDArray[Any]:  # type: ignore[override]
        """The plain array."""
        return self.view(np.ndarray)

    @property
    def flat_data(self) -> npt.NDArray[Any]:
        """Shape ``(frames, pixels)``."""
        return self.data.reshape((len(self), -1))

    @property
    def c_contiguous(self) -> bool:
        """Whether it lies in C order in memory."""
        return self.flags.c_contiguous


class Partition:
    """A run of frames of a data set; made by :meth:`DataSet.get_partitions`.

    Parameters
    ----------
    dataset, number
        Which one of which data set.
    start, stop
        Its positions of the flattened scan.
    """

    def __init__(self, dataset: DataSet, number: int, start: int, stop: int) -> None:
        self._dataset, self._number = dataset, number
        self._start, self._stop = start, stop
        self._corrections: CorrectionSet | None = None

    @property
    def shape(self) -> Shape:
        """Number of frames, and shape of a frame."""
        sig = tuple(self._dataset.shape.sig)
        return Shape((self._stop - self._start, *sig), sig_dims=len(sig))

    @property
    def slice(self) -> Slice:
        """Its place in the data set with a flattened scan."""
        return Slice((self._start, *(0 for _ in self._dataset.shape.sig)), self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the pixels."""
        return self._dataset.dtype

    @property
    def meta(self) -> Any:
        """That of the data set."""
        return self._dataset.meta

    def get_ident(self) -> str:
        """A name."""
        return f"part-{self._number}"

    def get_locations(self) -> None:
        """None: any worker will do."""

    def get_frame_count(self, roi: npt.NDArray[np.bool_] | None = None) -> int:
        """How many frames there are, within a boolean array of shape ``nav`` if one is given."""
        return len(self._positions(roi))

    def set_corrections(self, corrections: CorrectionSet | None) -> None:
        """What is applied to frames; None for the data set's own corrections."""
        self._corrections = corrections

    def get_tiles(
        self,
        tiling_scheme: TilingScheme | None = None,
        dest_dtype: npt.DTypeLike | None = None,
        roi: npt.NDArray[np.bool_] | None = None,
    ) -> Iterator[DataTile]:
        """Read it, tile by tile; no more than 32 MiB of pixels, or one frame, at a time.

        Parameters
        ----------
        tiling_scheme
            How it is cut; whole frames, about 1 MiB of them, if None.
        dest_dtype
            The dtype of tiles, which has to hold the pixels; fractions are cut off in integers. If
            None, float32, and for complex pixels complex64, or complex128 where they are.
        roi
            Boolean, of shape ``nav``: which frames to read; all if None.

        Yields
        ------
        DataTile
            Arrays of shape ``(frames, *sig)``, or a part of ``sig``. Positions without data are
            left out; no tile reaches over them.

        Raises
        ------
        InvalidArgumentError
            If ``dest_dtype`` is not complex where pixels are, or does not hold one of them.
        LimitError
            If a frame or the frames of a tile take more than 1 GiB, or there is no memory for them.
        """
        sig = tuple(self._dataset.shape.sig)
        dtype = self._dtype_of_tiles(dest_dtype)
        frame_bytes = prod(sig) * max(dtype.itemsize, self.dtype.itemsize)
        scheme = tiling_scheme
        if scheme is None:
            scheme = TilingScheme(sig, self._dataset.shape, max(1, TILE_BYTES // frame_bytes))
        positions = self._positions(roi)
        # How tiles count frames: the selected ones if there is a ROI.
        if roi is None:
            numbers = positions
        else:
            selected = np.flatnonzero(np.asarray(roi, dtype=bool))
            numbers = np.searchsorted(selected, positions)
        tiles_at_once = max(1, BLOCK_BYTES // frame_bytes // scheme.depth)
        for begin, end in _runs(numbers, scheme.depth * tiles_at_once):
            try:
                frames = _pick(self._dataset, positions[begin:end], self._corrections)
            except LimitError as error:
                if self._picked_bytes() <= MOST_BYTES:
                    raise
                raise LimitError(
                    f"{self._dataset!r}: its frames are too large for tiles that are taken by "
                    f"hand; run a function over it, Context.run_udf: {error}"
                ) from None
            for first in range(0, end - begin, scheme.depth):
                stack = frames[first : first + scheme.depth]
                for number, part in scheme.slices:
                    tile = stack[(slice(None), *part.get())]
                    origin = (int(numbers[begin + first]), *part.origin)
                    place = Slice(origin, Shape(tile.shape, sig_dims=len(sig)))
                    tile = np.ascontiguousarray(_converted(tile, dtype))
                    yield DataTile.of(tile, place, number)

    def _picked_bytes(self) -> int:
        """What one frame takes as it is picked."""
        corrections, _ = self._dataset._corrected(self._corrections, None)
        dtype = self.dtype if corrections is None else np.result_type(self.dtype, np.float32)
        return prod(self._dataset.shape.sig) * dtype.itemsize

    def get_macrotile(
        self,
        dest_dtype: npt.DTypeLike | None = None,
        roi: npt.NDArray[np.bool_] | None = None,
    ) -> DataTile:
        """All of it in one array, shape ``(frames, *sig)``; parameters as for :meth:`get_tiles`."""
        sig = tuple(self._dataset.shape.sig)
        positions = self._positions(roi)
        frames = np.empty((len(positions), *sig), dtype=self._dtype_of_tiles(dest_dtype))
        begin = 0
        for tile in self.get_tiles(None, dest_dtype, roi):
            frames[begin : begin + len(tile)] = tile
            begin += len(tile)
        start = self._start if roi is None else int(np.count_nonzero(np.ravel(roi)[: self._start]))
        origin = (start, *(0 for _ in sig))
        return DataTile.of(frames, Slice(origin, Shape(frames.shape, sig_dims=len(sig))), 0)

    def _dtype_of_tiles(self, asked: npt.DTypeLike | None) -> np.dtype[Any]:
        if asked is None and self.dtype.kind == "c":
            return np.result_type(self.dtype, np.complex64)  # in native byte order
        dtype = np.dtype("float32") if asked is None else as_dtype("dest_dtype", asked)
        if self.dtype.kind == "c" and dtype.kind in "iuf":
            raise InvalidArgumentError(
                f"pixels have dtype {self.dtype}, and {dtype} holds no imaginary parts; pass a "
                f"complex dest_dtype, or none"
            )
        return dtype

    def _positions(self, roi: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.intp]:
        """Flat positions of the frames that there are."""
        positions = np.arange(self._start, self._stop)
        if roi is not None:
            nav = tuple(self._dataset.shape.nav)
            if np.shape(roi) != nav:
                raise InvalidArgumentError(
                    f"the ROI has shape {np.shape(roi)}, but the scan has shape {nav}"
                )
            positions = positions[np.asarray(roi, dtype=bool).reshape(-1)[positions]]
        return positions[_have_data(self._dataset, positions)]

    def __repr__(self) -> str:
        return f"<Partition [{self._start}:{self._stop}] of {self._dataset!r}>"


def _converted(tile: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Pixels in another dtype, which has to hold them; floats become integers as NumPy makes them.

    Raises
    ------
    InvalidArgumentError
        If it does not.
    """
    lost = None if dtype.kind == "b" else first_lost(tile, dtype, fractions=False)
    if lost is not None:
        raise InvalidArgumentError(
            f"a pixel is {lost!r}, which {dtype} cannot hold; pass a wider dest_dtype"
        )
    return tile.astype(dtype, copy=False)


def _runs(numbers: npt.NDArray[np.intp], longest: int) -> Iterator[tuple[int, int]]:
    """Pieces of ascending numbers without gaps."""
    edges = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
    for begin, end in pairwise(edges):
        for first in range(begin, end, longest):
            yield first, min(first + longest, end)
