"""Named arrays and values as attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from warnings import warn

import numpy as np

from framefold.common.buffers import BufferDeclaration, BufferWrapper
from framefold.exceptions import UDFError
from framefold.warnings import UseDiscouragedWarning

_NOTHING: Mapping[str, Any] = {}


class Role(NamedTuple):
    """What the values of one or several :class:`UDFData` are."""

    #: For messages.
    what: str
    #: Of what was warned; each object warns for itself if None.
    said: set[str] | None = None
    #: Buffers; those that have no array yet read as None.
    declared: Mapping[str, BufferDeclaration] = _NOTHING
    #: What else :class:`BufferWrapper` takes: where in a data set the arrays belong.
    place: Mapping[str, Any] = _NOTHING


PARAMETERS, RESULTS, TASK_DATA = Role("parameter"), Role("result buffer"), Role("task data")


class UDFData:
    """Named values, reached as attributes: ``self.results.intensity``.

    Values live in the instance's ``__dict__``: reading one costs no more than reading any
    attribute, and the engine exchanges views there without calling Python. Assigning to a
    name that holds an array writes into the array.
    """

    __slots__ = ("__dict__", "__role")
    __role: Role

    def __init__(self, role: Role, values: Mapping[str, Any] | None = None) -> None:
        set_role(self, role)
        if values:
            self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self.__role.declared:
            return None
        known = ", ".join(self.__dict__) or "none"
        raise AttributeError(f"there is no {self.__role.what} {name!r}; there are: {known}")

    def __reduce__(self) -> tuple[type[UDFData], tuple[Role, dict[str, Any]]]:
        # The usual way sets attributes one by one, which __setattr__ refuses.
        return type(self), (Role(self.__role.what), dict(self.__dict__))

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            present = self.__dict__[name]
        except KeyError:
            known = ", ".join(self.__dict__) or "none"
            raise AttributeError(
                f"there is no {self.__role.what} {name!r} to assign to; there are: {known}"
            ) from None
        if present is value:
            return  # the end of an in-place operation: `results.x += y`
        if not isinstance(present, np.ndarray) and not hasattr(present, "__cuda_array_interface__"):
            raise AttributeError(f"{self.__role.what} {name!r} cannot be replaced")
        present[...] = value

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{self.__role.what} {name!r} cannot be deleted")

    def __getitem__(self, name: str) -> Any:
        self._discourage(name)
        if name in self.__role.declared:
            array = self.__dict__.get(name)
            if isinstance(array, np.ndarray):  # there are arrays that NumPy does not know
                return _Item.of(array, self.get_buffer(name))
            return array
        try:
            return self.__dict__[name]
        except KeyError:
            known = ", ".join(self.__dict__) or "none"
            raise KeyError(f"there is no {self.__role.what} {name!r}; there are: {known}") from None

    def __setitem__(self, name: str, value: Any) -> None:
        self._discourage(name)
        setattr(self, name, value)

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def _discourage(self, name: str) -> None:
        said = self.__role.said
        if said is None:
            said = set()
            set_role(self, self.__role._replace(said=said))
        if self.__role.what in said:
            return
        said.add(self.__role.what)
        warn(
            f"use .{name} instead of [{name!r}] to reach a {self.__role.what}",
            UseDiscouragedWarning,
            stacklevel=3,
        )

    def __contains__(self, name: object) -> bool:
        return name in self.__dict__

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of that name, or ``default``."""
        return self.__dict__.get(name, default)

    def get_buffer(self, name: str) -> BufferWrapper:
        """The result buffer of that name with its declaration.

        In ``get_results``, ``data`` has the shape of the data set, as the results of a run
        have, and ``raw_data`` one entry per selected frame. On a worker, both are what the
        attribute of that name shows.

        Raises
        ------
        KeyError
            If no such buffer is declared.
        """
        if name not in self.__role.declared:
            known = ", ".join(self.__role.declared) or "none"
            raise KeyError(f"there is no {self.__role.what} {name!r}; there are: {known}")
        decl = self.__role.declared[name]
        about = decl.kind, decl.extra_shape, decl.dtype, decl.where, decl.use
        return BufferWrapper(*about, raw=self.__dict__.get(name), **self.__role.place)

    def keys(self) -> Any:
        """The names."""
        return self.__dict__.keys()

    def items(self) -> Any:
        """Names and values."""
        return self.__dict__.items()

    def values(self) -> Any:
        """The values."""
        return self.__dict__.values()

    def as_dict(self) -> dict[str, Any]:
        """A dict of names and values."""
        return dict(self.__dict__)

    def __repr__(self) -> str:
        return f"<UDFData: {self.__dict__}>"


# Functions and not methods: a value can have any name, and is found before a method of that name.
# Assigning to an attribute assigns to an array; these are quicker than `object.__setattr__`.
set_role: Callable[[UDFData, Role], None] = UDFData.__dict__["_UDFData__role"].__set__
role_of: Callable[[UDFData], Role] = UDFData.__dict__["_UDFData__role"].__get__


def copies_of(data: UDFData) -> dict[str, Any]:
    """Copies of all arrays by name, without those of private buffers."""
    declared = role_of(data).declared
    return {
        name: array.copy()
        for name, array in data.__dict__.items()
        if name not in declared or declared[name].use != "private"
    }


def values_of(udf: Any, attribute: str) -> dict[str, Any]:
    """The values in ``udf.results``, or another attribute that the engine sets.

    Raises
    ------
    UDFError
        If user code assigned something else to that attribute.
    """
    data = getattr(udf, attribute)
    if isinstance(data, UDFData):
        return data.__dict__
    instead = "keep it in an attribute of another name"
    if attribute == "results":
        instead = f"write into result buffers, as in self.results.x[:] = …, and {instead}"
    raise UDFError(
        f"{type(udf).__name__} assigned a {type(data).__name__} to self.{attribute}, which has no "
        f"effect; {instead}"
    )


class _Item(np.ndarray[Any, Any]):
    """What item access gives of a result buffer: its array, which is the buffer, too."""

    _wrapped: BufferWrapper | None = None

    @classmethod
    def of(cls, array: np.ndarray[Any, Any], wrapped: BufferWrapper) -> _Item:
        """``array``, of which ``wrapped`` knows where it belongs."""
        item = array.view(cls)
        item._wrapped = wrapped
        return item

    @property
    def data(self) -> Any:
        """As of :meth:`UDFData.get_buffer`; of what is computed from it, the array itself."""
        return np.asarray(self) if self._wrapped is None else self._wrapped.data

    @property
    def raw_data(self) -> Any:
        """As :attr:`data`."""
        return np.asarray(self) if self._wrapped is None else self._wrapped.raw_data


class MergeData(UDFData):
    """One side of a merge: ``dest`` or ``src``."""

    __slots__ = ()
