"""Which workers take part in a run, and what UDFs get on those with a CUDA device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from framefold.arrays import formats
from framefold.arrays.formats import Formats
from framefold.common.backend import _configured, _variable
from framefold.common.udf import (
    CPU_BACKENDS,
    CUDA_BACKENDS,
    CUPY_BACKENDS,
    CUPY_SCIPY_CSR,
    SCIPY_CSR,
)
from framefold.exceptions import InvalidArgumentError, MissingLibraryError, UnsupportedError
from framefold.udf.engine.declarations import processing_method, stack_wishes, tiling_wishes
from framefold.utils import devices as system

if TYPE_CHECKING:
    from framefold.arrays.cuda.resident import Resident
    from framefold.arrays.cuda.tiles import DeviceTiles
    from framefold.arrays.sparse_tiles import SparseTiles
    from framefold.udf.engine.bridge import Bridge

INSTALL = "install the package for your version of CUDA, such as cupy-cuda12x"

#: The size of a tile on a device, in the dtype of the UDF, but not less than four bytes a pixel.
TILE_BYTES = 64 << 20
#: The same of one that is resident, and read in place.
IN_PLACE_BYTES = 512 << 20
#: Runs over resident frames have so many partitions at most, of so many bytes at least: each of
#: them takes the host about a millisecond. Reductions read gigabytes in that time.
RESIDENT_PARTITIONS = 16
RESIDENT_PARTITION_BYTES = 64 << 20
REDUCED_PARTITION_BYTES = 4 << 30

#: The largest frame that comes as a whole where parts would do, in the same measure.
FRAME_BYTES = 256 << 20

#: So many threads copy faster than any link.
MOST_READERS = 16

#: The option of an executor: so many devices, these devices, or None for all there are.
Gpus = int | tuple[int, ...] | None


class Workers(NamedTuple):
    """The workers of a run."""

    #: Whether workers on the CPU take part.
    cpus: bool = True
    #: One worker for each entry, the number of its device.
    devices: tuple[int, ...] = ()
    #: Why there are no devices, for messages.
    why_none: str = ""
    #: Whether they are other processes, which may have other libraries.
    elsewhere: bool = False
    #: What each UDF in Python gets on devices, if that is known already.
    formats: Formats = ()
    #: Whether workers on the CPU also take part where devices can do all that the run does.
    cpus_asked_for: bool = True


class OnDevice(NamedTuple):
    """What one UDF gets on workers with a device."""

    array_backend: str
    #: What makes tiles of a CuPy format.
    device_tiles: DeviceTiles | None
    #: What makes tiles of another format of the engine's sparse rows.
    sparse_tiles: SparseTiles | None

    @property
    def on_cupy(self) -> bool:
        """Whether the format is one of CuPy's."""
        return self.array_backend in CUPY_BACKENDS

    def max_depth(self, frames: bool, sig: tuple[int, ...]) -> int | None:
        """The most frames that a tile may have, so that what UDFs share of it fits the memory."""
        tiles = self.sparse_tiles if self.device_tiles is None else self.device_tiles
        return None if tiles is None else tiles.max_depth(self.array_backend, frames, sig)


def find_workers(
    wishes: Sequence[Formats],
    gpus: Gpus = None,
    devices_only: bool = False,
    lost: Mapping[int, str] | None = None,
    cpus_asked_for: bool = True,
) -> Workers:
    """Who takes part in a run of UDFs that take these formats.

    Looks for devices only if a UDF takes a CUDA format. A UDF that takes nothing else keeps
    workers without a device out of the run, and so do ``devices_only`` and
    :func:`framefold.common.backend.set_use_cuda`.

    Devices in ``lost``, those of this process if it is None, do not take part. If none is left,
    UDFs that also take other formats run on the CPU.

    Raises
    ------
    DeviceError
        If a UDF takes formats of CUDA only, and all devices are lost.
    """
    takes = {format_ for wish in wishes for format_ in wish} & CUDA_BACKENDS
    if not takes:
        return Workers()
    asked_for, ask_cpu = _configured()
    chosen = gpus is None and asked_for is not None
    if chosen and asked_for is not None:
        gpus = (asked_for,)
    if gpus == 0 or gpus == ():
        return Workers(why_none="the executor was made with gpus=0")
    if gpus is None and ask_cpu is not None:
        return Workers(why_none="this process is set to use the CPU, see set_use_cpu")
    if takes <= CUPY_BACKENDS and gpus is None and not system.cupy_installed():
        return Workers(why_none=f"CuPy is not installed; {INSTALL}")
    found = system.cuda_ids()
    there = picked(found, gpus, _variable()[0] if chosen else "")
    if not there:
        return Workers(why_none=system.why_no_device() or "there is no CUDA device")
    if takes <= CUPY_BACKENDS and not system.has_cupy():
        return Workers(why_none=f"CuPy cannot be imported; {INSTALL}")
    devices = _left(there, system.lost if lost is None else lost, needs_devices(wishes))
    if not devices:
        return Workers(why_none="all CUDA devices are lost")
    cpus = not (needs_devices(wishes) or chosen or devices_only)
    return Workers(cpus, devices, cpus_asked_for=cpus_asked_for)


def devices_by_default() -> tuple[int, ...]:
    """The devices to start workers for where none are given; none without CuPy."""
    asked_for, ask_cpu = _configured()
    if ask_cpu is not None or not system.cupy_installed():
        return ()
    found = system.cuda_ids()
    return tuple(found) if asked_for is None else picked(found, (asked_for,), _variable()[0])


def needs_devices(wishes: Sequence[Formats]) -> bool:
    """Whether any UDF takes formats of CUDA only."""
    return any(wish and not CPU_BACKENDS.intersection(wish) for wish in wishes)


def picked(found: list[int], gpus: Gpus, variable: str = "") -> tuple[int, ...]:
    """The devices of those found that are asked for; an error if there are fewer.

    ``variable``: that of the environment which asks for them, if one does.
    """
    if gpus is None:
        return tuple(found)
    there = ", ".join(map(str, found)) or f"none ({system.why_no_device()})"
    if isinstance(gpus, int):
        if gpus > len(found):
            raise InvalidArgumentError(
                f"gpus is {gpus}, and CUDA devices there are: {there}; ask for fewer, or leave "
                f"gpus out to use what there is"
            )
        return tuple(found[:gpus])
    for device in gpus:
        if device not in found:
            asks, unset = "", ""
            if variable:
                asks = f", which {variable}={device} or set_use_cuda({device}) asks for"
                unset = f", or unset {variable}"
            raise InvalidArgumentError(
                f"there is no CUDA device {device}{asks}; there are: {there}; choose among "
                f"them{unset}"
            )
    return gpus


def _left(devices: tuple[int, ...], lost: Mapping[int, str], are_needed: bool) -> tuple[int, ...]:
    """The devices without those that are lost; a warning tells of these, or an error."""
    missing = {device: lost[device] for device in devices if device in lost}
    if not missing:
        return devices
    from framefold.arrays.cuda import errors

    left = tuple(device for device in devices if device not in missing)
    if are_needed and not left:
        raise errors.is_lost(*next(iter(missing.items())))
    errors.tell_lost(missing)
    return left


def assign(
    bridges: Sequence[Bridge],
    native: Formats,
    allowed: Formats | None,
    workers: Workers,
    resident: Resident | None = None,
) -> None:
    """Tell the UDFs of a run what they get on workers with a device, and without one.

    The engine makes tiles of one layout for each UDF, dense or rows: that of the format on the
    CPU, if the CPU takes part. Otherwise that of the data, where it is for CuPy: the device makes
    the other one in less time.

    Frames that are ``resident`` on the device are given from there.
    """
    if workers.cpus:
        formats.assign(bridges, native, allowed, why_no_device=workers.why_none)
    if not workers.devices:
        return
    chosen = workers.formats
    if not chosen:
        there = (*native, CUPY_SCIPY_CSR) if SCIPY_CSR in native else native
        chosen = formats.choose(there, [_wish(bridge, allowed, workers) for bridge in bridges])
    if not workers.cpus:
        for bridge, format_ in zip(bridges, chosen, strict=True):
            bridge.array_backend = format_
            bridge.crosses = formats.layout(format_) not in map(formats.layout, native)
            bridge.layout = formats.layout(native[0]) if format_ in CUPY_BACKENDS else None
    layouts = [bridge.layout or formats.layout(bridge.array_backend) for bridge in bridges]
    of_rows = [
        format_ if how == "csr" and format_ not in CUPY_BACKENDS else None
        for format_, how in zip(chosen, layouts, strict=True)
    ]
    sparse = formats.sparse_tiles(bridges, of_rows)
    on_device = _device_tiles(bridges, chosen, layouts, resident)
    for bridge, format_, how, tiles in zip(bridges, chosen, layouts, on_device, strict=True):
        from_rows = how == "csr" and format_ not in CUPY_BACKENDS
        bridge.on_device = OnDevice(format_, tiles, sparse if from_rows else None)


def _device_tiles(
    bridges: Sequence[Bridge],
    chosen: Formats,
    layouts: Sequence[str],
    resident: Resident | None,
) -> list[DeviceTiles | None]:
    """What makes tiles of CuPy's formats, one for all UDFs that can share them."""
    kinds = [
        (how, resident is not None and _reads_in_place(bridge))
        for bridge, how in zip(bridges, layouts, strict=True)
    ]
    tiles: dict[tuple[str, bool], DeviceTiles] = {}
    for how, in_place in set(kinds):
        takers = [
            (format_, bridge.method == "frame")
            for bridge, format_, kind in zip(bridges, chosen, kinds, strict=True)
            if format_ in CUPY_BACKENDS and kind == (how, in_place)
        ]
        if not takers:
            continue
        if resident is not None:
            from framefold.arrays.cuda.resident import ResidentTiles

            rows = resident.rows(bridges[0].roi)
            tiles[how, in_place] = ResidentTiles(takers, resident, rows, in_place)
        else:
            from framefold.arrays.cuda.tiles import DeviceTiles

            tiles[how, in_place] = DeviceTiles(takers, of_rows=how == "csr")
    return [
        tiles[kind] if format_ in CUPY_BACKENDS else None
        for format_, kind in zip(chosen, kinds, strict=True)
    ]


def n_readers(n_cores: int, n_devices: int, *, beside_cpus: bool) -> int:
    """How many threads read the tiles of each worker with a device.

    Three cores of four read, or half of them if there are workers without a device: a tile is late
    if a reader that has a part of it waits for a core.
    """
    share = n_cores // 2 if beside_cpus else n_cores * 3 // 4
    return max(2, min(share // max(1, n_devices), MOST_READERS))


def tile_depth(
    bridges: Sequence[Bridge], workers: Workers, *, resident: bool = False
) -> int | None:
    """How many whole frames the tiles of a run have; None to leave it to the planner.

    On devices each tile costs the same time to hand over, and nothing has to fit the cache of a
    core. Beside the CPU, whose tiles are the planner's, UDFs get several of them at a time there.
    """
    in_place = resident and all(map(_reads_in_place, bridges))
    depth = _depth_on_devices(bridges, IN_PLACE_BYTES if in_place else TILE_BYTES)
    if not workers.cpus:
        return depth
    for bridge in bridges:
        bridge.device_depth = depth
    return None


def _reads_in_place(bridge: Bridge) -> bool:
    """Whether it gets resident frames as they are: what does a kernel's work never writes."""
    return bridge.is_twin and bridge.corrections is None


def _depth_on_devices(bridges: Sequence[Bridge], tile_bytes: int) -> int | None:
    shape, dtype = bridges[0].shape, bridges[0].dtype
    frame_bytes = shape.sig.size * max(dtype.itemsize, 4)
    if frame_bytes > FRAME_BYTES or any(map(_wants_small_tiles, bridges)):
        return None
    if all(map(_stays_sparse, bridges)):
        return None  # the planner counts their entries
    return max(1, tile_bytes // frame_bytes)


def resident_cuts(bridges: Sequence[Bridge | None]) -> list[int] | None:
    """Where partitions of a run over resident frames begin; None to leave it to the planner.

    It is left to the planner where any UDF reads frames of the file, or gets partitions as a whole.
    """
    for bridge in bridges:
        if bridge is None or not bridge.gets_cupy or bridge.method == "partition":
            return None
    from framefold.arrays.cuda.reductions import OnCupy

    assert bridges[0] is not None
    n_frames, sig, dtype = bridges[0].n_selected, bridges[0].shape.sig, bridges[0].dtype
    frame_bytes = sig.size * dtype.itemsize
    udfs = [bridge.udf for bridge in bridges if bridge is not None]
    reduces = all(isinstance(udf, OnCupy) and udf.reduces(frame_bytes) for udf in udfs)
    least = REDUCED_PARTITION_BYTES if reduces else RESIDENT_PARTITION_BYTES
    n = max(1, min(RESIDENT_PARTITIONS, n_frames, n_frames * frame_bytes // least))
    return [n_frames * k // n for k in range(n)]


def _stays_sparse(bridge: Bridge) -> bool:
    how = bridge.layout or formats.layout(bridge.array_backend)
    return how == "csr" == formats.layout(bridge.array_backend)


def _wants_small_tiles(bridge: Bridge) -> bool:
    udf = bridge.copy_with(bridge.meta(), bridge.aux_for(0, bridge.n_selected))
    method = processing_method(udf)
    if method == "frames":
        return stack_wishes(udf) != (None, None)
    return method == "tile" and tiling_wishes(udf)[1] is not None


def _wish(bridge: Bridge, allowed: Formats | None, workers: Workers) -> Formats:
    """What a UDF takes on a device: CUDA formats, or what it gets on the CPU if it has none."""
    asked = bridge.asked_for
    fit = asked if allowed is None else tuple(format_ for format_ in asked if format_ in allowed)
    if CUDA_BACKENDS.intersection(fit):
        try:
            elsewhere = workers.elsewhere
            return formats.usable(bridge.name, asked, allowed, "cuda", elsewhere=elsewhere)
        except (UnsupportedError, MissingLibraryError):
            if not CPU_BACKENDS.intersection(fit):
                raise
    return (bridge.array_backend,) if workers.cpus else formats.usable(bridge.name, asked, allowed)
