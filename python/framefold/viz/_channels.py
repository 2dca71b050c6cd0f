"""What a plot shows: finding channels, and getting their numbers out of results.

The numbers of a channel are one of these, where ``n``, ``y`` and ``x`` are larger than one
(see :class:`Look`):

======================  =========================================================
shape                   drawn as
======================  =========================================================
``(y, x)``              an image; complex numbers as hue (phase) and saturation
``(y, x, 2)``, vectors  hue and saturation; the UDF says so: ``buffer(…, vector=True)``
``(y, x, 3)`` or ``4``  RGB or RGBA colours, as they are: of uint8, or from a function
``(n,)``                a curve; real and imaginary part of complex numbers as two
``(n, 2)``, a vector    two curves
======================  =========================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold.common.axes import Axis
from framefold.common.buffers import BufferWrapper
from framefold.exceptions import InvalidArgumentError
from framefold.results.colours import is_coloured, n_placed
from framefold.run.results import UDFResultDict

Buffers = Mapping[str, BufferWrapper]
ChannelSpec = (
    str
    | tuple[str, int]
    | tuple[str, Callable[[npt.NDArray[Any]], Any]]
    | Callable[[Buffers, npt.NDArray[np.bool_]], tuple[Any, Any]]
    | None
)


#: Results with so many entries per position are that many pictures, and those with more are none.
MOST_ENTRIES = 4


class Look(Enum):
    """How the numbers of a channel are drawn."""

    IMAGE = "image"
    VECTORS = "vectors"
    COLOURS = "colours"
    CURVES = "curves"


def get_plottable_2D_channels(buffers: Buffers) -> list[str]:  # noqa: N802 - the public name
    """The names of the results that can be plotted as they are.

    These are the numeric ones with two axes, or one, after axes of length one are left out. If
    there is none, those of vectors. Of others with several entries per position, one entry is a
    picture: :func:`all_channels` has these, too.

    Parameters
    ----------
    buffers
        The results of one UDF, empty ones are enough.

    Returns
    -------
    list of str
        In the order of declaration; empty if nothing can be plotted.
    """
    numeric = {name: buffer for name, buffer in buffers.items() if buffer.dtype.kind in "biufc"}
    scalars = [
        name
        for name, buffer in numeric.items()
        if is_coloured(buffer)
        or (
            not (_is_vector(buffer) or entries(buffer))
            and sum(length > 1 for length in buffer.shape) in (1, 2)
        )
    ]
    return scalars or [
        name
        for name, buffer in numeric.items()
        if _is_vector(buffer) and sum(length > 1 for length in buffer.shape[:-1]) in (1, 2)
    ]


def entries(buffer: BufferWrapper) -> range:
    """The entries of a result's last axis that are a picture each; none if it is one itself."""
    n = buffer.extra_shape[-1] if len(buffer.extra_shape) == 1 else 0
    is_picture = sum(length > 1 for length in buffer.shape[:-1]) in (1, 2)
    several = 1 < n <= MOST_ENTRIES and buffer.kind != "single" and buffer.dtype.kind in "biufc"
    is_one = _is_vector(buffer) or is_coloured(buffer)
    return range(n if several and is_picture and not is_one else 0)


def all_channels(buffers: Buffers, names: list[ChannelSpec] | None = None) -> list[ChannelSpec]:
    """Everything that can be plotted, or ``names`` with an entry each of what is several pictures.

    Parameters
    ----------
    buffers
        The results of one UDF, empty ones are enough.
    names
        Channels; all results if None.
    """
    known = set(get_plottable_2D_channels(buffers))
    chosen = [name for name in buffers if name in known or entries(buffers[name])]
    found: list[ChannelSpec] = []
    for channel in chosen if names is None else names:
        if isinstance(channel, str) and channel in buffers and entries(buffers[channel]):
            found += [(channel, entry) for entry in entries(buffers[channel])]
        else:
            found.append(channel)
    return found


class View(NamedTuple):
    """What to draw.

    Attributes
    ----------
    data
        The numbers, masked where there are none yet; in one of the shapes above.
    damage
        Where there are some; shape ``(y, x)`` or ``(n,)``.
    look
        What the numbers are.
    """

    data: np.ma.MaskedArray[Any, Any]
    damage: npt.NDArray[np.bool_]
    look: Look


class Channel:
    """One thing to plot.

    Parameters
    ----------
    spec
        As given by the user: None for the first that can be plotted, the name of a result, a
        name and a function of its data, or a function of all results and the damage.
    udf
        The name of the UDF, for messages.
    buffers
        Its results, empty ones are enough.

    Attributes
    ----------
    name : str or None
        The result that is plotted; None for a function of all.
    label : str
        What to call it in a title.

    Raises
    ------
    InvalidArgumentError
        If there is no such channel, or nothing that can be plotted.
    """

    def __init__(self, spec: ChannelSpec, udf: str, buffers: Buffers) -> None:
        self._udf = udf
        self.name: str | None = None
        self._function: Callable[..., Any] | None = None
        self._vectors = False
        self._coloured = False
        self._is_entry = False
        spec = self._first(buffers) if spec is None else spec
        if isinstance(spec, str):
            self.name = self.label = spec
        elif isinstance(spec, tuple):
            chosen: Any = spec[1] if len(spec) == 2 else None
            # A truth value would be entry 0 or 1.
            self._is_entry = isinstance(chosen, int | np.integer) and not isinstance(chosen, bool)
            if not (self._is_entry or callable(chosen)) or not isinstance(spec[0], str):
                raise InvalidArgumentError(
                    f"{udf}: the channel {spec!r} is no pair of a result's name and a function "
                    f"of its data, or an entry of it; write ('name', function) or ('name', 0)"
                )
            self.name = spec[0]
            if self._is_entry:
                self._function = _Entry(int(chosen))
                self.label = f"{self.name}[{chosen}]"
            else:
                self._function = chosen
                self.label = f"{_function_name(chosen)}({self.name})"
        elif callable(spec):
            self._function = spec
            self.label = _function_name(spec)
        else:
            raise InvalidArgumentError(
                f"{udf}: the channel {spec!r} is a {type(spec).__name__}; use the name of a "
                f"result, a pair ('name', function), or a function of (results, damage)"
            )
        if self.name is not None and self.name not in buffers:
            raise InvalidArgumentError(
                f"{udf}: there is no result {self.name!r} to plot; "
                f"there are: {', '.join(buffers) or 'none'}"
            )
        if self.name is not None and self._function is None:
            self._check_plottable(self.name, buffers)
        if self.name is not None and isinstance(self._function, _Entry):
            extra = buffers[self.name].extra_shape
            if len(extra) != 1 or not -extra[0] <= self._function.entry < extra[0]:
                raise InvalidArgumentError(
                    f"{udf}: the result {self.name!r} has entries of shape {extra}, of which "
                    f"{self._function.entry} is none"
                )

    @property
    def is_computed(self) -> bool:
        """Whether a function of the user's makes the picture."""
        return not (self._function is None or self._is_entry)

    def axes(self, buffers: Buffers) -> tuple[Axis, ...]:
        """The axes of the picture; none if a function makes it."""
        if self.name is None or self.is_computed:
            return ()
        buffer = buffers[self.name]
        own = buffer.axes[: n_placed(buffer.axes)]
        shown = tuple(axis for axis in own if axis.size > 1)
        n_extra = sum(length > 1 for length in buffer.extra_shape)
        is_picture = self._is_entry or self._vectors or self._coloured or not n_extra
        return shown if is_picture else ()

    def extract(self, buffers: Buffers, damage: npt.NDArray[np.bool_]) -> View:
        """What to draw.

        Parameters
        ----------
        buffers
            Results so far.
        damage
            Which positions of the scan they cover; shape ``nav``.

        Raises
        ------
        InvalidArgumentError
            If a function gives something that cannot be plotted. Exceptions in a function come
            back as themselves.
        """
        if self.name is None:
            data, usable = self._from_all(buffers, damage)
        else:
            data, usable = self._from_one(buffers[self.name], damage)
        data, usable, look = self._arrange(data, usable & ~np.ma.getmaskarray(data))
        mask = ~usable.reshape(usable.shape + (1,) * (data.ndim - usable.ndim))
        masked = np.ma.MaskedArray(np.ma.getdata(data), mask=np.broadcast_to(mask, data.shape))
        return View(masked.copy(), usable, look)  # plots may write into what they draw

    def _from_one(
        self, buffer: BufferWrapper, damage: npt.NDArray[np.bool_]
    ) -> tuple[Any, npt.NDArray[np.bool_]]:
        """The data of one result, with a function applied to it if there is one."""
        original, valid = np.asarray(buffer.data), np.asarray(buffer.valid_mask)
        # What has an element for each position or pixel in front.
        places = valid.shape[: valid.ndim - len(buffer.extra_shape)]
        if isinstance(self._function, _Entry):
            data, valid = self._function(original), self._function(valid)
        elif self._function is None:
            data = original
        else:
            data = np.ma.asanyarray(self._function(original.copy()))  # it may write into that
        is_placed = bool(places) and data.shape[: len(places)] == places
        each = places + (1,) * (data.ndim - len(places))
        if data.shape != valid.shape:
            further = tuple(range(len(places), valid.ndim))
            valid = np.asarray(valid.all(axis=further).reshape(each) if is_placed else True)
        is_scan = buffer.kind == "nav" and is_placed and places == damage.shape
        usable = valid & (damage.reshape(each) if is_scan else damage.any())
        return data, np.broadcast_to(usable, data.shape)

    def _from_all(
        self, buffers: Buffers, damage: npt.NDArray[np.bool_]
    ) -> tuple[Any, npt.NDArray[np.bool_]]:
        """What a function of all results gives."""
        assert self._function is not None
        given = self._function(_own(buffers), damage.copy())
        if not isinstance(given, tuple) or len(given) != 2:
            raise InvalidArgumentError(
                f"{self._udf}: the channel {self.label} returned {type(given).__name__}, "
                f"expected a pair (data, damage): what to draw, and which part of it is new or "
                f"valid, as a boolean array or True"
            )
        data = given[0]
        data = data if isinstance(data, np.ma.MaskedArray) else np.asarray(data)
        usable = np.asarray(given[1])
        picture = data.shape[:2]
        is_flat = usable.ndim == 1 and usable.size == np.prod(picture)
        if is_flat or (usable.ndim and _long_axes(usable.shape) == _long_axes(picture)):
            usable = usable.reshape(picture)
        usable = usable.reshape(usable.shape + (1,) * (data.ndim - usable.ndim))
        try:
            return data, np.broadcast_to(usable, data.shape).astype(bool)
        except ValueError:
            raise InvalidArgumentError(
                f"{self._udf}: the channel {self.label} returned data of shape {data.shape} and "
                f"a damage of shape {np.shape(given[1])}; expected the same shape, or True"
            ) from None

    def _arrange(
        self, data: Any, usable: npt.NDArray[np.bool_]
    ) -> tuple[Any, npt.NDArray[np.bool_], Look]:
        """Leave out axes of length one, and find out what the others mean."""
        shape = data.shape
        if data.dtype.kind not in "biufc":
            raise InvalidArgumentError(
                f"{self._udf}: the channel {self.label} gives data of dtype {data.dtype}, "
                f"expected numbers; convert them with a pair ('name', function)"
            )
        made = self._function is not None and not self._is_entry and len(shape) == 3
        if made and shape[-1] in (3, 4) and data.dtype.kind == "c":
            raise InvalidArgumentError(
                f"{self._udf}: the channel {self.label} gives data of shape {shape} and dtype "
                f"{data.dtype}, expected real numbers for colours: uint8, or floats from 0 to 1"
            )
        if self._coloured or (made and shape[-1] in (3, 4)):
            return data, np.asarray(usable.all(axis=-1)), Look.COLOURS
        vectors = self._vectors or (made and shape[-1] == 2)
        base = shape[:-1] if vectors else shape
        singles = tuple(axis for axis, length in enumerate(base) if length == 1)
        n_axes = len(base) - len(singles)
        if n_axes not in (1, 2) or data.size == 0:
            raise InvalidArgumentError(
                f"{self._udf}: the channel {self.label} gives data of shape {shape}, which is "
                f"no picture; expected (y, x), (n,), (y, x, 2) for vectors or (y, x, 3) for "
                f"colours; select a part of it with a pair ('name', function)"
            )
        usable = np.asarray(usable.all(axis=-1)) if vectors else usable
        usable = np.asarray(np.squeeze(usable, singles))
        data = np.squeeze(data, singles)
        if n_axes == 1:
            return data, usable, Look.CURVES
        two_components = vectors or data.dtype.kind == "c"
        return data, usable, Look.VECTORS if two_components else Look.IMAGE

    def _first(self, buffers: Buffers) -> ChannelSpec:
        plottable = get_plottable_2D_channels(buffers) or all_channels(buffers)
        if not plottable:
            raise InvalidArgumentError(
                f"{self._udf} has no result that can be plotted as it is; results are: "
                f"{_shapes(buffers)}; pass a channel ('name', function) that makes a picture"
            )
        return plottable[0]

    def _check_plottable(self, name: str, buffers: Buffers) -> None:
        buffer = buffers[name]
        if entries(buffer):
            choice = " or ".join(f"({name!r}, {entry})" for entry in entries(buffer))
            raise InvalidArgumentError(
                f"{self._udf}: the result {name!r} of shape {buffer.shape} is "
                f"{len(entries(buffer))} pictures; choose one: {choice}. If it holds vectors, "
                f"declare it with vector=True"
            )
        self._vectors, self._coloured = _is_vector(buffer), is_coloured(buffer)
        if self._coloured:
            return
        shape = buffer.shape[:-1] if self._vectors else buffer.shape
        n_axes = sum(length > 1 for length in shape)
        if buffer.dtype.kind in "biufc" and n_axes in (1, 2):
            return
        raise InvalidArgumentError(
            f"{self._udf}: the result {name!r} of shape {buffer.shape} and dtype {buffer.dtype} "
            f"cannot be plotted as it is; pass ({name!r}, function) with a function that makes "
            f"a picture, or one of: {', '.join(get_plottable_2D_channels(buffers)) or 'none'}"
        )


def curves(data: npt.NDArray[Any]) -> dict[str, npt.NDArray[np.float64]]:
    """The curves of data that look like :attr:`Look.CURVES`.

    Returns
    -------
    dict
        What a curve is, ``''`` if there is but one, to its values: shape ``(n,)``, NaN where
        there are none.
    """
    if data.dtype.kind == "c":
        parts = {"real": data.real, "imaginary": data.imag}
    elif data.ndim == 2:
        parts = {"y": data[:, 0], "x": data[:, 1]}
    else:
        parts = {"": data}
    return {name: np.ma.filled(part.astype(np.float64), np.nan) for name, part in parts.items()}


def curve_rows(data: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The same curves, as rows of one array."""
    return np.array(list(curves(data).values()))


def picture_mask(data: npt.NDArray[Any], look: Look) -> npt.NDArray[np.bool_]:
    """Where data of a view are valid, without an axis for components."""
    valid: npt.NDArray[np.bool_] = ~np.ma.getmaskarray(data)
    n_axes = 1 if look is Look.CURVES else 2
    return np.asarray(valid.all(axis=-1)) if valid.ndim > n_axes else valid


def nav_damage(damage: Any, nav: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Damage in the shape of the navigation axes.

    Parameters
    ----------
    damage
        A bool, an array of shape ``nav`` or flat, or a result buffer of kind ``nav``.
    nav
        The navigation axes.
    """
    given = np.asarray(damage.data if isinstance(damage, BufferWrapper) else damage, dtype=bool)
    if given.ndim == 0:
        return np.full(nav, bool(given))
    if given.shape != nav:
        if given.ndim != 1 or given.size != np.prod(nav, dtype=int):
            raise InvalidArgumentError(
                f"the damage has shape {given.shape}, but the scan has shape {nav}; "
                f"use a boolean array of that shape, or True"
            )
        given = given.reshape(nav)
    return given


def _is_vector(buffer: BufferWrapper) -> bool:
    """Whether a result has two real components per position or pixel, as its UDF says."""
    return (
        buffer.about.vector
        and buffer.kind != "single"
        and tuple(buffer.extra_shape) == (2,)
        and buffer.dtype.kind in "iuf"
    )


class _OwnBuffer(BufferWrapper):
    """A result for a function that may write into it: a copy, made when it is looked at."""

    _is_own = False

    @property
    def raw_data(self) -> npt.NDArray[Any]:
        """A copy of that of the result."""
        if not self._is_own:
            self._raw, self._is_own = super().raw_data.copy(), True
        return super().raw_data


def _own(buffers: Buffers) -> dict[str, BufferWrapper]:
    """Results that a function of the user's may write into."""
    own = UDFResultDict(buffers)
    for name, buffer in buffers.items():
        if type(buffer) is BufferWrapper:
            own[name] = _OwnBuffer.__new__(_OwnBuffer)
            vars(own[name]).update(vars(buffer))
    return own


class _Entry:
    """Picks an entry of the last axis."""

    def __init__(self, entry: int) -> None:
        self.entry = entry

    def __call__(self, data: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return data[..., self.entry]


def _function_name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


def _long_axes(shape: tuple[int, ...]) -> list[int]:
    """A shape without its axes of length one."""
    return [length for length in shape if length > 1]


def _shapes(buffers: Buffers) -> str:
    return ", ".join(f"{name} {b.shape} {b.dtype}" for name, b in buffers.items()) or "none"
