"""Results as groups of arrays with attributes, which HDF5 and Zarr hold.

A group is ``(attributes, members)``, an array ``(attributes, array)``; attributes are texts,
numbers, truth values and lists of texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from framefold.results.exports import coordinates, described
from framefold.results.layout import VALID, Groups, Labelled, dimensions, numeric, signal_last

Attributes = dict[str, Any]
#: What is in a group, in order.
Members = list[tuple[str, Any]]
Group = tuple[Attributes, Members]


def nexus(groups: Groups) -> Group:
    """A group for each result as NeXus describes them: ``NXdata``, in ``NXentry`` for each UDF.

    Viewers of HDF5 such as h5web, silx and NeXpy show these as pictures with axes. The array is
    ``data``; an axis is an array of its values with the attribute ``units``.
    """
    members: Members = []
    for group, results in groups.items():
        inside = _nexus_data(results)
        if group:
            members.append((group, ({"NX_class": "NXentry", "default": inside[0][0]}, inside)))
        else:
            members += inside
    first = {"default": members[0][0]} if members else {}
    return {"NX_class": "NXroot", "creator": "framefold", **first}, members


def _nexus_data(results: list[Labelled]) -> Members:
    members: Members = []
    for result in results:
        (names,) = dimensions([result._replace(name="data")])
        about: Attributes = {
            "NX_class": "NXdata",
            "signal": "data",
            "axes": list(names),
            "title": result.title,
        }
        units = {"units": result.unit} if result.unit else {}
        inside: Members = [("data", (units, numeric(result, ".h5")))]
        for name, axis in zip(names, result.axes, strict=True):
            inside.append((name, ({"units": axis.unit} if axis.unit else {}, axis.values)))
            about[f"{name}_indices"] = names.index(name)
        if result.valid is not None:
            inside.append(("valid", ({}, result.valid)))
        members.append((result.name, (about, inside)))
    return members


def hyperspy(groups: Groups, ending: str) -> Group:
    """A signal for each result as HyperSpy writes them, version 3.3 of its format.

    It has no groups for signals: those of several UDFs have ``UDF.NAME`` as names.
    """
    signals: Members = []
    for group, results in groups.items():
        before = f"{group}." if group else ""
        signals += [(before + name, signal) for name, signal in _signals(results, ending)]
    about = {"file_format": "HyperSpy", "file_format_version": "3.3"}
    return about, [("Experiments", ({}, signals))]


def _signals(results: list[Labelled], ending: str) -> Members:
    signals: Members = []
    for result in results:
        array, axes, n_signal = signal_last(result._replace(array=numeric(result, ending)))
        inside: Members = [("data", ({}, np.ascontiguousarray(array)))]
        for i, axis in enumerate(axes):
            about: Attributes = {
                "_type": "UniformDataAxis",
                "name": axis.name,
                "units": axis.unit,
                "navigate": i < len(axes) - n_signal,
                "is_binned": False,
                "size": axis.size,
                "scale": float(axis.scale),
                "offset": float(axis.offset),
            }
            inside.append((f"axis-{i}", (about, [])))
        signal = {"signal_type": ""}
        if result.unit:
            signal["quantity"] = f"{result.name} ({result.unit})"
        inside += [
            ("attributes", ({"_lazy": False, "ragged": False}, [])),
            ("learning_results", ({}, [])),
            (
                "metadata",
                ({}, [("General", ({"title": result.title}, [])), ("Signal", (signal, []))]),
            ),
            ("original_metadata", ({}, [("framefold", ({"udf": result.udf}, []))])),
        ]
        signals.append((result.name, ({}, inside)))
        if result.valid is not None:
            mask = result._replace(
                name=result.name + VALID, array=result.valid, valid=None, unit="", udf=result.udf
            )
            signals += _signals([mask], ending)
    return signals


def labelled_arrays(groups: Groups, about: Mapping[str, Attributes] | None = None) -> Group:
    """Arrays beside each other as xarray has them, in a group for each UDF.

    Parameters
    ----------
    groups
        The results.
    about
        What is said of groups, by their names; of the root under ``""``.
    """
    about = about or {}
    members: Members = []
    for group, results in groups.items():
        arrays = _arrays(results)
        members += [(group, (about.get(group, {}), arrays))] if group else arrays
    return about.get("", {}), members


def _arrays(results: list[Labelled]) -> Members:
    """Results and coordinates, which have the names of their axes."""
    members: dict[str, Any] = {}
    for result, names in zip(results, dimensions(results), strict=True):
        about = {**described(result), "dimension_names": list(names)}
        members[result.name] = about, result.stored or numeric(result, ".zarr")
        if result.valid is not None:
            of_mask = {"dimension_names": list(names[: result.valid.ndim])}
            members[result.name + VALID] = of_mask, result.valid
        for name, axis in zip(names, result.axes, strict=True):
            known = coordinates(axis)
            if known is not None:
                members[name] = {**known[1], "dimension_names": [name]}, known[0]
    return list(members.items())
