"""Results as objects of xarray and HyperSpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from framefold.common.optional import require
from framefold.results.layout import (
    VALID,
    Labelled,
    all_labelled,
    dimensions,
    labelled,
    signal_last,
)

if TYPE_CHECKING:
    from framefold.common.axes import Axis
    from framefold.common.buffers import BufferWrapper


def to_xarray(buffer: BufferWrapper) -> Any:
    """One result as an ``xarray.DataArray``."""
    xarray = require("xarray", "to_xarray", "labelled arrays")
    result = labelled(buffer)
    (names,) = dimensions([result])
    array = _data_array(xarray, result, names)
    if result.valid is not None:
        array = array.assign_coords({"valid": (names, result.valid)})
    return array


def to_dataset(buffers: Mapping[str, BufferWrapper]) -> Any:
    """Several results as an ``xarray.Dataset``."""
    xarray = require("xarray", "to_xarray", "labelled arrays")
    results = all_labelled(buffers)
    variables: dict[str, Any] = {}
    for result, names in zip(results, dimensions(results), strict=True):
        variables[result.name] = _data_array(xarray, result, names)
        if result.valid is not None:
            variables[result.name + VALID] = (names, result.valid)
    udfs = {result.udf for result in results if result.udf}
    return xarray.Dataset(variables, attrs={"udf": ", ".join(sorted(udfs))} if udfs else {})


def to_hyperspy(buffer: BufferWrapper) -> Any:
    """One result as a signal of HyperSpy."""
    require("hyperspy", "to_hyperspy", "signals")
    signals = require("hyperspy.signals", "to_hyperspy", "signals")
    result = labelled(buffer)
    array, axes, n_signal = signal_last(result)
    kind = {1: "Signal1D", 2: "Signal2D"}[n_signal]
    if array.dtype.kind == "c":
        kind = f"Complex{kind}"
    described = [
        {
            "name": axis.name,
            "size": axis.size,
            "units": axis.unit or None,
            "scale": axis.scale,
            "offset": axis.offset,
            "navigate": i < len(axes) - n_signal,
        }
        for i, axis in enumerate(axes)
    ]
    about = {"General": {"title": result.title}, "Signal": {"quantity": _quantity(result)}}
    return getattr(signals, kind)(array.copy(), axes=described, metadata=about)


def coordinates(axis: Axis) -> tuple[Any, dict[str, str]] | None:
    """Values of an axis and what is said of them; None where positions are only counted."""
    if not axis.is_calibrated:
        return None
    return axis.values, {"units": axis.unit} if axis.unit else {}


def described(result: Labelled) -> dict[str, str]:
    """What is said of an array, by the names that xarray and NetCDF have for it."""
    known = {"long_name": result.title, "units": result.unit}
    return {name: text for name, text in known.items() if text}


def _data_array(xarray: Any, result: Labelled, names: tuple[str, ...]) -> Any:
    coords = {}
    for name, axis in zip(names, result.axes, strict=True):
        known = coordinates(axis)
        if known is not None:
            coords[name] = (name, *known)
    attributes = described(result)
    return xarray.DataArray(result.array.copy(), coords, names, result.name, attributes)


def _quantity(result: Labelled) -> str:
    return f"{result.name} ({result.unit})" if result.unit else result.name
