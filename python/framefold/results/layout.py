"""How a result lies in files: its array, its axes, and which of its elements are valid."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold.common.axes import Axis
from framefold.exceptions import UnsupportedError

if TYPE_CHECKING:
    from framefold.common.buffers import BufferWrapper

#: What is appended to the name of a result for the mask of its valid elements.
VALID = "_valid"

#: What names in files cannot have in them.
NO_NAME = re.compile(r"[/\\\x00-\x1f\x7f]")


class Stored(NamedTuple):
    """An array of which the data are in the file: one shard of uncompressed chunks.

    Attributes
    ----------
    shape, dtype
        Of the array.
    chunk
        The shape of a chunk; a run of the array in C order.
    shard
        The shape of all chunks together.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk: tuple[int, ...]
    shard: tuple[int, ...]


class Labelled(NamedTuple):
    """An array, and what is known of it.

    Attributes
    ----------
    name, udf, unit
        Of the result.
    array
        Its data.
    axes
        One for each axis of the array.
    valid
        Which elements are results; None for all. With the axes of the scan alone, whole rows.
    stored
        How the array lies in the file already; None if it is still to be written.
    """

    name: str
    udf: str
    unit: str
    array: npt.NDArray[Any]
    axes: tuple[Axis, ...]
    valid: npt.NDArray[np.bool_] | None
    stored: Stored | None = None

    @property
    def title(self) -> str:
        """What to call it: ``SumUDF: intensity``."""
        return ": ".join(part for part in (self.udf, self.name) if part)


def labelled(buffer: BufferWrapper) -> Labelled:
    """A result with what is known of it."""
    data, valid = buffer.data, buffer.valid_mask
    about = buffer.about
    mask = None if valid.all() else np.ascontiguousarray(valid)
    return Labelled(about.name or "data", about.udf, about.unit, data, buffer.axes, mask)


#: Results of several UDFs by the names of their groups; those of the group ``""`` are in none.
Groups = dict[str, list[Labelled]]


def all_labelled(buffers: Mapping[str, BufferWrapper], udf: str = "") -> list[Labelled]:
    """Several results, under the names that they have in the mapping.

    Parameters
    ----------
    buffers
        The results.
    udf
        What to call their UDF; by the name of its class by default.

    Raises
    ------
    UnsupportedError
        If a result has the name of another one's mask.
    """
    found = [labelled(buffer)._replace(name=name) for name, buffer in buffers.items()]
    if udf:
        found = [each._replace(udf=udf) for each in found]
    return with_masks_apart(found)


def with_masks_apart(found: list[Labelled]) -> list[Labelled]:
    """The same results.

    Raises
    ------
    UnsupportedError
        As :func:`all_labelled`.
    """
    masks = {each.name + VALID for each in found if each.valid is not None}
    for each in found:
        if each.name in masks:
            raise UnsupportedError(
                f"the result {each.name!r} has the name under which the valid elements of another "
                f"one are written; save them one by one: result['{each.name}'].save(…)"
            )
    return found


def numeric(result: Labelled, ending: str) -> npt.NDArray[Any]:
    """The array in C order and native byte order, of a dtype that files hold.

    Raises
    ------
    UnsupportedError
        If it is of another one, such as Python objects.
    """
    dtype = result.array.dtype
    if dtype.kind not in "biufc" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise UnsupportedError(
            f"the result {result.name!r} has dtype {dtype}, which {ending} does not hold; "
            f"save the others one by one, or convert it first"
        )
    return np.ascontiguousarray(result.array, dtype=dtype.newbyteorder("="))


def signal_last(result: Labelled) -> tuple[npt.NDArray[Any], tuple[Axis, ...], int]:
    """Array and axes as HyperSpy has them, and how many of the last axes are those of a signal.

    The axes of the scan or of frames are signal axes, two of them at most: images and lines.
    Others, such as one for each mask, navigate between these.
    """
    own = [i for i, axis in enumerate(result.axes) if axis.kind != "extra"]
    own = own or list(range(len(result.axes)))  # results of kind single
    signal = own[-2:]
    order = [i for i in range(len(result.axes)) if i not in signal] + signal
    axes = tuple(result.axes[i] for i in order)
    return result.array.transpose(order), axes, len(signal)


def dimensions(results: list[Labelled]) -> list[tuple[str, ...]]:
    """Names of the axes of all results: two axes have the same one only if they are the same.

    They are names in files and of folders: none has a slash in it, is that of a result or of a
    mask, or means a folder itself, the one that holds it, or what describes a Zarr group.
    """
    known: dict[str, Axis] = {}
    taken = {name for each in results for name in (each.name, each.name + VALID, "valid")}
    taken |= {"", ".", "..", "zarr.json"}
    found = []
    for result in results:
        names: list[str] = []
        for axis in result.axes:
            name = f"{result.name}_{axis.name}" if axis.kind == "extra" else axis.name
            first, number = NO_NAME.sub("_", name), 2
            name = first
            while name in names or name in taken or known.get(name, axis) != axis:
                name, number = f"{first}_{number}", number + 1
            known[name] = axis
            names.append(name)
        found.append(tuple(names))
    return found
