"""Named arrays and values as attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any
from warnings import warn

import numpy as np

from framefold.common.buffers import BufferDeclaration, BufferWrapper
from framefold.exceptions import UDFError
from framefold.warnings import UseDiscouragedWarning

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class UDFData:
    """Named values, reached as attributes: ``self.results.intensity``.

    Values live in the instance's ``__dict__``: reading one costs no more than reading any
    attribute, and the engine exchanges views there without calling Python. Assigning to a
    name that holds an array writes into the array.
    """

    __slots__ = ("__declared", "__dict__", "__place", "__said", "__what")
    __what: str
    __said: set[str]
    __declared: Mapping[str, BufferDeclaration]
    __place: Mapping[str, Any]

    def __init__(
        self, what: str, values: Mapping[str, Any] | None = None, said: set[str] | None = None
    ) -> None:
        _set_what(self, what)
        _set_said(self, set() if said is None else said)
        _set_declared(self, _NOTHING)
        if values:
            self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self.__declared:
            return None
        known = ", ".join(self.__dict__) or "none"
        raise AttributeError(f"there is no {self.__what} {name!r}; there are: {known}")

    def __reduce__(self) -> tuple[type[UDFData], tuple[str, dict[str, Any]]]:
        # The usual way sets attributes one by one, which __setattr__ refuses.
        return type(self), (self.__what, dict(self.__dict__))

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            present = self.__dict__[name]
        except KeyError:
            known = ", ".join(self.__dict__) or "none"
            raise AttributeError(
                f"there is no {self.__what} {name!r} to assign to; there are: {known}"
            ) from None
        if present is value:
            return  # the end of an in-place operation: `results.x += y`
        if not isinstance(present, np.ndarray) and not hasattr(present, "__cuda_array_interface__"):
            raise AttributeError(f"{self.__what} {name!r} cannot be replaced")
        present[...] = value

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{self.__what} {name!r} cannot be deleted")

    def __getitem__(self, name: str) -> Any:
        self._discourage(name)
        if name in self.__declared:
            array = self.__dict__.get(name)
            if isinstance(array, np.ndarray):  # there are arrays that NumPy does not know
                return _Item.of(array, self.get_buffer(name))
            return array
        try:
            return self.__dict__[name]
        except KeyError:
            known = ", ".join(self.__dict__) or "none"
            raise KeyError(f"there is no {self.__what} {name!r}; there are: {known}") from None

    def __setitem__(self, name: str, value: Any) -> None:
        self._discourage(name)
        setattr(self, name, value)

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def _discourage(self, name: str) -> None:
        if self.__what in self.__said:
            return
        self.__said.add(self.__what)
        warn(
            f"use .{name} instead of [{name!r}] to reach a {self.__what}",
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
        if name not in self.__declared:
            known = ", ".join(self.__declared) or "none"
            raise KeyError(f"there is no {self.__what} {name!r}; there are: {known}")
        decl = self.__declared[name]
        about = decl.kind, decl.extra_shape, decl.dtype, decl.where, decl.use
        return BufferWrapper(*about, raw=self.__dict__.get(name), **self.__place)

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


# Assigning to an attribute assigns to an array; these are quicker than `object.__setattr__`.
_set_what, _set_said, _set_declared, _set_place = (
    UDFData.__dict__[f"_UDFData__{name}"].__set__ for name in ("what", "said", "declared", "place")
)
_declared = UDFData.__dict__["_UDFData__declared"].__get__


# Functions and not methods: a value can have any name, and is found before a method of that name.
def share(data: UDFData, said: set[str]) -> None:
    """Have ``data`` warn of nothing that others have warned of who know the same set."""
    _set_said(data, said)


def declare(data: UDFData, buffers: Mapping[str, BufferDeclaration], **place: Any) -> None:
    """Let ``data`` know all declared buffers; those that have no array yet read as None.

    Parameters
    ----------
    data
        Arrays by the names of the buffers.
    buffers
        The declarations.
    place
        What else :class:`BufferWrapper` takes: where in a data set the arrays belong.
    """
    _set_declared(data, buffers)
    _set_place(data, place)


def declarations_of(data: UDFData) -> Mapping[str, BufferDeclaration]:
    """The buffers that :func:`declare` set for ``data``."""
    declared: Mapping[str, BufferDeclaration] = _declared(data)
    return declared


def copies_of(data: UDFData) -> dict[str, Any]:
    """Copies of all arrays by name, without those of private buffers."""
    declared = _declared(data)
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
