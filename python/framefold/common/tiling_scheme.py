"""How frames are cut into tiles, as UDFs see it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Literal

import numpy as np

from framefold.common.shape import Shape
from framefold.common.slice import Slice

#: Whether tiles are parts of frames, whole frames, or whole partitions.
Intent = Literal["tile", "frame", "partition"]


class TilingScheme:
    """The signal slices of a run and the depth of its tiles.

    Parameters
    ----------
    tile_shape
        The shape of an inner slice; those at the far borders may be smaller.
    dataset_shape
        The shape of the data set.
    depth
        The largest number of frames in a tile.
    intent
        What tiles are for, if that is known: ``'tile'``, ``'frame'`` or ``'partition'``.
    """

    def __init__(
        self,
        tile_shape: tuple[int, ...],
        dataset_shape: Shape,
        depth: int,
        intent: Intent | None = None,
    ) -> None:
        self._tile_shape = tuple(tile_shape)
        self._dataset_shape = dataset_shape
        self._depth = depth
        self._intent = intent
        sig = tuple(dataset_shape.sig)
        grid = tuple(-(-length // tile) for length, tile in zip(sig, tile_shape, strict=True))
        self._slices = []
        for cell in product(*map(range, grid)):
            origin = tuple(i * tile for i, tile in zip(cell, tile_shape, strict=True))
            extent = tuple(
                min(tile, length - start)
                for tile, length, start in zip(tile_shape, sig, origin, strict=True)
            )
            self._slices.append(Slice(origin, Shape(extent, sig_dims=len(extent))))

    @classmethod
    def make_for_shape(
        cls, tileshape: Shape, dataset_shape: Shape, intent: Intent | None = None
    ) -> TilingScheme:
        """The scheme for tiles of a shape: number of frames, then signal axes."""
        return cls(tuple(tileshape.sig), dataset_shape, tileshape[0], intent)

    @property
    def slices(self) -> list[tuple[int, Slice]]:
        """Number and signal slice of each tile."""
        return list(enumerate(self._slices))

    @property
    def slices_array(self) -> np.ndarray[tuple[int, int, int], np.dtype[np.int_]]:
        """Origin and shape of each slice, shape ``(n_slices, 2, sig_dims)``."""
        return np.array([(part.origin, tuple(part.shape)) for part in self._slices])

    @property
    def shape(self) -> Shape:
        """Depth and shape of an inner slice."""
        return Shape((self._depth, *self._tile_shape), sig_dims=len(self._tile_shape))

    @property
    def dataset_shape(self) -> Shape:
        """The shape of the data set."""
        return self._dataset_shape

    @property
    def depth(self) -> int:
        """The largest number of frames in a tile."""
        return self._depth

    @property
    def intent(self) -> Intent | None:
        """How the UDF processes the data: ``'tile'``, ``'frame'`` or ``'partition'``.

        ``process_frames`` gets frames, too. None if the scheme was not made for a UDF.
        """
        return self._intent

    def __getitem__(self, index: int) -> Slice:
        return self._slices[index]

    def __len__(self) -> int:
        return len(self._slices)

    def __iter__(self) -> Iterator[Slice]:
        return iter(self._slices)

    def __repr__(self) -> str:
        return f"<TilingScheme depth={self._depth} shape={self._tile_shape} len={len(self)}>"
