"""Where the functions of a run work, on the CPU or on devices, and which arrays they get there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from framefold.common.udf import CUDA_BACKENDS, CUPY, CUPY_BACKENDS, NUMPY
from framefold.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from framefold.arrays.cuda.placement import Workers
    from framefold.arrays.cuda.resident import Resident
    from framefold.io.dataset.base import DataSet
    from framefold.udf.base import UDF
    from framefold.udf.engine.bridge import Bridge

    #: Says who takes part in a run of UDFs that take these formats.
    FindWorkers = Callable[[Sequence[tuple[str, ...]]], Workers]


def resident_of(
    dataset: DataSet, allowed: tuple[str, ...] | None, find_workers: FindWorkers | None
) -> Resident | None:
    """The frames on a device that functions with CuPy arrays get; None if the run uses no device.

    Raises
    ------
    InvalidArgumentError
        If they are on another device than those that the run may use.
    """
    resident = dataset._resident
    if resident is None or (allowed is not None and CUPY_BACKENDS.isdisjoint(allowed)):
        return None
    from framefold.arrays.cuda import placement

    # A device that is lost is no error for those that can do without.
    workers = (find_workers or placement.find_workers)([(CUPY, NUMPY)])
    if not workers.devices:
        return None
    if resident.device not in workers.devices:
        raise InvalidArgumentError(
            f"{dataset._name}: its frames are on CUDA device {resident.device}, and this run may "
            f"use {', '.join(map(str, workers.devices))}; make a context with "
            f"gpus=[{resident.device}], or bring the frames there with "
            f"to_device({workers.devices[0]})"
        )
    return resident


def assign_formats(
    udfs: Sequence[UDF],
    bridges: Sequence[Bridge | None],
    native: tuple[str, ...],
    allowed: tuple[str, ...] | None,
    find_workers: FindWorkers | None,
    resident: Resident | None,
) -> Workers | None:
    """Tell each UDF in Python which array formats it gets; who takes part, if devices do."""
    in_python = [bridge for bridge in bridges if bridge is not None]
    on_kernels = [udf for udf, bridge in zip(udfs, bridges, strict=True) if bridge is None]
    if not in_python and allowed is None:
        return None
    from framefold.arrays.formats import assign, usable

    wishes = [bridge.asked_for for bridge in in_python]
    if allowed is not None:
        wishes += [_asked_of_kernel(udf, allowed) for udf in on_kernels]
        wishes = [tuple(f for f in wish if f in allowed) for wish in wishes]
    workers = None
    if not CUDA_BACKENDS.isdisjoint(f for wish in wishes for f in wish):
        from framefold.arrays.cuda import placement
        from framefold.utils.devices import has_cupy

        workers = (find_workers or placement.find_workers)(wishes)
        if not CUPY_BACKENDS.isdisjoint(f for wish in wishes for f in wish) and resident:
            workers = placement.Workers(cpus=False, devices=(resident.device,))
        # Where one thread reads for a device, all cores are worth more than it.
        can_all = len(in_python) == len(udfs) and all(map(CUPY_BACKENDS.intersection, wishes))
        can_all = can_all and NUMPY in native and not workers.cpus_asked_for
        if workers.devices and can_all and has_cupy():
            workers = workers._replace(cpus=False)
    if allowed is not None:
        for udf in on_kernels:
            there = {"why_no_device": workers.why_none} if workers else {}
            asked = _asked_of_kernel(udf, allowed)
            on_device = workers is not None and bool(workers.devices)
            on_device = on_device and CUDA_BACKENDS.issuperset(set(asked) & set(allowed))
            elsewhere = workers is not None and workers.elsewhere
            kind = "cuda" if on_device else "cpu"
            usable(type(udf).__name__, asked, allowed, kind, **there, elsewhere=elsewhere)
    if not in_python:
        return None
    if workers is None:
        assign(in_python, native, allowed)
        return None
    placement.assign(in_python, native, allowed, workers, resident)
    return workers


def _asked_of_kernel(udf: UDF, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """The formats that a UDF on a kernel takes; CuPy's, too, where that can do its work."""
    from framefold.arrays.formats import asked_for

    formats = asked_for(udf)
    if CUPY not in formats and CUPY in allowed:
        from framefold.arrays.cuda.reductions import ROWS

        if udf._native_kernel in ROWS:
            return *formats, CUPY
    return formats
