"""One UDF at work on one partition on a device: its tiles, and result buffers that stay there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from framefold.arrays.cuda.resident import ResidentTiles
from framefold.udf.engine.cut_buffers import DeviceCuts
from framefold.udf.engine.memory import allocate

if TYPE_CHECKING:
    from framefold.arrays.cuda.placement import OnDevice
    from framefold.common.buffers import BufferDeclaration
    from framefold.udf.engine.bridge import RunDescription
    from framefold.udf.engine.declarations import Buffers

Array = npt.NDArray[Any]


class DevicePartition:
    """What a partition does differently on a device."""

    def __init__(self, run: RunDescription, gets: OnDevice, start: int) -> None:
        self._run = run
        self._gets = gets
        self._start = start
        self._views: dict[str, Any] = {}
        #: Result buffers on the device by name, and the kind of each.
        self._buffers: dict[str, tuple[Any, str]] = {}
        self._cuts: dict[str, DeviceCuts] = {}
        #: Buffers that user code has as a whole, of which it sees parts as they are.
        self.held: set[str] = set()

    def allocate(self, buffers: Buffers, n_frames: int) -> dict[str, Any]:
        """Zeroed arrays, as :func:`framefold.udf.engine.memory.allocate`.

        Those that are declared to be on the device are there, and take no memory of the host.
        """
        shape = self._run.bridge.shape
        there = {name: decl for name, decl in buffers.items() if self._moves(decl)}
        here = {name: decl for name, decl in buffers.items() if name not in there}
        arrays: dict[str, Any] = allocate(here, shape, n_frames)
        for name, decl in there.items():
            import cupy

            array = cupy.zeros(decl.flat_shape(shape, n_frames), dtype=decl.dtype)
            self._buffers[name] = array, decl.kind
            self._cuts[name] = DeviceCuts(name, array)
            arrays[name] = array
        return {name: arrays[name] for name in buffers if name in arrays}

    def _moves(self, decl: BufferDeclaration) -> bool:
        # There are numbers on the device, none of them longer than a double, and nothing else.
        numbers = decl.dtype.char in "?bBhHiIlLqQefdFD"
        on_device = self._gets.on_cupy and decl.where == "device"
        return on_device and numbers and decl.use != "result_only"

    @property
    def array_backend(self) -> str:
        """The array format that the UDF gets."""
        return self._gets.array_backend

    def is_moved(self, name: str) -> bool:
        """Whether the buffer is on the device."""
        return name in self._buffers

    def giver(
        self, views: dict[str, Any], frames: bool, slice_shapes: Sequence[tuple[int, ...]]
    ) -> tuple[Callable[..., Any] | None, Callable[..., Any] | None]:
        """What makes tiles of the engine's ones, and of those in staging memory.

        None to take those of the engine as they are; none of the others come then.

        Parameters
        ----------
        views
            Where the parts of result buffers are shown that belong to each tile.
        frames
            Whether the UDF processes frames.
        slice_shapes
            The shape of each signal slice.
        """
        gets, self._views = self._gets, views
        if gets.device_tiles is not None:
            gets.device_tiles.clear()
            if isinstance(gets.device_tiles, ResidentTiles):
                return gets.device_tiles.giver_of(self._run, gets.array_backend, frames, self._show)
            bridge = self._run.bridge
            return gets.device_tiles.giver(
                gets.array_backend,
                frames,
                bridge.input_dtype,
                slice_shapes,
                bridge.corrections,
                bridge.is_twin,
                self._show,
            )
        if gets.sparse_tiles is not None:
            gets.sparse_tiles.clear()
            return gets.sparse_tiles.giver(gets.array_backend, frames, slice_shapes), None
        return None, None

    def end(self) -> None:
        """Let go of the current tile, and finish the buffers."""
        for cuts in self._cuts.values():
            cuts.end()
        if self._gets.device_tiles is not None:
            self._gets.device_tiles.clear()
        if self._gets.sparse_tiles is not None:
            self._gets.sparse_tiles.clear()

    def check_kept(self) -> None:
        """Raise an error if user code wrote to parts of buffers when the buffers were finished."""
        for cuts in self._cuts.values():
            cuts.check()

    def export(self, arrays: Mapping[str, Any]) -> dict[str, Array]:
        """``arrays``, all of them on the host. Waits for the device."""
        return {
            name: array.get() if name in self._buffers else array for name, array in arrays.items()
        }

    def _show(self, start: int, stop: int, index: int) -> None:
        """Show the parts of buffers on the device that belong to these frames and that slice."""
        for name, (array, kind) in self._buffers.items():
            if kind == "nav":
                part = array[start - self._start : stop - self._start]
                # One number per frame shows as an array of one, as on the CPU.
                single = stop - start == 1 and self._frames and part.ndim > 1
                self._views[name] = part[0] if single else part
            elif kind == "sig" and not self._frames:
                sig = self._run.tiling_scheme[index]
                box = zip(sig.origin, sig.shape, strict=True)
                part = tuple(slice(o, o + n) for o, n in box)
                self._views[name] = None  # who has the previous one now is who kept it
                cuts = self._cuts[name]
                self._views[name] = array[part] if name in self.held else cuts.part(index, part)

    @property
    def _frames(self) -> bool:
        return self._run.bridge.method == "frame"
