"""What compiled code gets of parameters and task data: numbers and arrays in a block of memory.

A block is a row of slots of 8 bytes. A number takes one slot (a complex one two), an array one for
its address and one for the length of each axis. What kind of thing a name is, is compiled in; the
value is not.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold.compilation.marks import options_of

#: Kinds of NumPy's dtypes that compiled code can compute with.
NUMBERS = "biufc"


class Spec(NamedTuple):
    """What kind of thing a value is, as far as code is compiled for it."""

    #: ``number``, ``array``, ``tuple``, ``none``, ``text``, ``function``, or ``bad``.
    kind: str
    #: Of numbers and arrays.
    dtype: str = ""
    ndim: int = 0
    writeable: bool = False
    #: Of tuples.
    items: tuple[Any, ...] = ()
    #: Of texts, the text; of what cannot be used, the reason.
    text: str = ""
    #: Of functions.
    function: Any = None

    @property
    def n_slots(self) -> int:
        """How many slots it takes."""
        if self.kind == "number":
            return 2 if self.dtype == "complex128" else 1
        if self.kind == "array":
            return 1 + self.ndim
        return sum(item.n_slots for item in self.items)


def is_number(dtype: npt.DTypeLike) -> bool:
    """Whether compiled code can compute with values of a dtype."""
    dtype = np.dtype(dtype)
    return dtype.kind in NUMBERS and dtype.isnative and dtype not in NO_NUMBERS


#: Of the right kind, but Numba does not compute with them.
NO_NUMBERS = frozenset(np.dtype(each) for each in (np.float16, np.longdouble, np.clongdouble)) - {
    np.dtype(np.float64),
    np.dtype(np.complex128),
}


class Block:
    """A block that is being filled, and what it points to."""

    def __init__(self, n_reserved: int) -> None:
        self.slots: list[int] = [0] * n_reserved
        #: What has to live as long as the block.
        self.kept: list[Any] = []
        #: The slots of addresses of arrays of which each partition gets its own copy, and bytes.
        self.private: list[tuple[int, int]] = []

    def add_int(self, *values: int) -> int:
        """The slot of the first of these numbers."""
        self.slots.extend(int(value) for value in values)
        return len(self.slots) - len(values)

    def add(self, value: Any, *, private: bool = False) -> tuple[Spec, int]:
        """What a value is for compiled code, and its first slot."""
        start = len(self.slots)
        spec = self._add(value, private)
        return spec, start

    def _add(self, value: Any, private: bool) -> Spec:
        if value is None:
            return Spec("none")
        if isinstance(value, str):
            return Spec("text", text=str.__str__(value))  # of a subclass, too: its repr is code
        if isinstance(value, bool | int | float | complex | np.generic):
            return self._number(value)
        if isinstance(value, np.ndarray) and type(value) is np.ndarray:
            return self._array(value, private)
        if isinstance(value, tuple):
            items = tuple(self._add(item, private) for item in value)
            bad = next((item for item in items if item.kind == "bad"), None)
            return bad or Spec("tuple", items=items)
        if isinstance(value, FunctionType):
            if options_of(value) is None:
                return Spec("bad", text="a function that is not marked with @ff.compiled")
            return Spec("function", function=value)
        hint = "; use a NumPy array or a tuple" if isinstance(value, list | set | dict) else ""
        name = type(value).__name__
        article = "an" if name[:1].lower() in "aeiou" else "a"
        return Spec("bad", text=f"{article} {name}{hint}")

    def _number(self, value: Any) -> Spec:
        try:
            number = np.asarray(value)
            if isinstance(value, int) and not isinstance(value, bool | np.generic):
                number = np.asarray(value, np.int64)
        except OverflowError:
            signed = f"the number {value}, which does not fit into a signed integer of 64 bits"
            hint = f"; pass np.uint64({value})" if 0 < value < 1 << 64 else ""
            return Spec("bad", text=signed + hint)
        if not is_number(number.dtype):
            return Spec("bad", text=f"a value of dtype {number.dtype}")
        n_slots = 2 if number.dtype == np.complex128 else 1
        memory = np.zeros(n_slots, np.int64)
        memory.view(np.uint8)[: number.dtype.itemsize] = np.frombuffer(number.tobytes(), np.uint8)
        self.slots.extend(memory.tolist())
        return Spec("number", number.dtype.name)

    def _array(self, value: npt.NDArray[Any], private: bool) -> Spec:
        if value.dtype.names is not None:
            return Spec("bad", text="an array of a structured dtype; use one array for each field")
        if not value.dtype.isnative:
            value = value.astype(value.dtype.newbyteorder("="))
        if not is_number(value.dtype):
            return Spec("bad", text=f"an array of dtype {value.dtype}")
        array = np.ascontiguousarray(value).reshape(value.shape)
        self.kept.append(array)
        if private and array.nbytes:
            self.private.append((len(self.slots), array.nbytes))
        self.slots.extend((array.ctypes.data, *array.shape))
        return Spec("array", array.dtype.name, array.ndim, private)

    def finished(self) -> npt.NDArray[np.int64]:
        """All slots."""
        return np.array(
            [slot - (1 << 64) if slot >= 1 << 63 else slot for slot in self.slots], np.int64
        )
