"""Named arrays and values as attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from warnings import warn

import numpy as np

from framefold.common.buffers import BufferWrapper
from framefold.warnings import UseDiscouragedWarning


class UDFData:
    """Named values, reached as attributes: ``self.results.intensity``.

    Values live in the instance's ``__dict__``: reading one costs no more than reading any
    attribute, and the engine exchanges views there without calling Python. Assigning to a
    name that holds an array writes into the array.
    """

    __slots__ = ("__declared", "__dict__", "__said", "__what")
    __what: str
    __said: set[str]
    __declared: Mapping[str, Callable[[Any], BufferWrapper]]

    def __init__(
        self, what: str, values: Mapping[str, Any] | None = None, said: set[str] | None = None
    ) -> None:
        object.__setattr__(self, "_UDFData__what", what)
        self._share(set() if said is None else said)
        self._declare({})
        self.__dict__.update(values or {})

    def _share(self, said: set[str]) -> None:
        """Warn of nothing that others have warned of who know the same set."""
        object.__setattr__(self, "_UDFData__said", said)

    def _declare(self, buffers: Mapping[str, Callable[[Any], BufferWrapper]]) -> None:
        """Know all declared buffers; each comes with what makes a result of its array, or of None.

        Those that have no array yet read as None.
        """
        object.__setattr__(self, "_UDFData__declared", buffers)

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

    def __getitem__(self, name: str) -> Any:
        self._discourage(name)
        if name in self.__declared:
            return _Item.of(self.__dict__.get(name), self.__declared[name])
        try:
            return self.__dict__[name]
        except KeyError:
            known = ", ".join(self.__dict__) or "none"
            raise KeyError(f"there is no {self.__what} {name!r}; there are: {known}") from None

    def __setitem__(self, name: str, value: Any) -> None:
        self._discourage(name)
        setattr(self, name, value)

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
        return self.__declared[name](self.__dict__.get(name))

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


class _Item(np.ndarray[Any, Any]):
    """What item access gives of a result buffer: its array, which is the buffer, too."""

    _wrapped: BufferWrapper | None = None

    @classmethod
    def of(cls, array: Any, wrap: Callable[[Any], BufferWrapper]) -> Any:
        """``array``, if NumPy has no such arrays."""
        if not isinstance(array, np.ndarray):
            return array
        item = array.view(cls)
        item._wrapped = wrap(array)
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
