"""Values in the form in which they travel: a pickle, and large arrays in shared memory.

Shared memory is a file without a name. It is written once, by ``write``, and mapped by the process
that gets the descriptor; arrays on the other side lie in the mapping itself.
"""

from __future__ import annotations

import contextlib
import errno
import io
import mmap
import os
import pickle
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from types import CodeType
from typing import Any, ForwardRef

import numpy as np
import numpy.typing as npt

from framefold.common import _foreign
from framefold.exceptions import LimitError
from framefold.executor._processes.channels import CAN_SHARE

#: Arrays from this size on go into shared memory; below, a copy in the pipe costs less.
LARGE = 32 << 10
#: Arrays begin at multiples of this.
ALIGNMENT = 64

Bytes = npt.NDArray[np.uint8]
#: Where arrays are in a piece of shared memory: first byte and number of bytes of each.
Places = list[tuple[int, int]]


class OpenFilesError(LimitError):
    """No memory can be shared, as too many files are open: one process alone can do without."""


def dumps(value: Any, share: bool = CAN_SHARE) -> tuple[bytes, list[memoryview]]:
    """The pickle of a value, and its large arrays if they are to be shared."""
    try:
        return dumps_by(_Pickler, value, share)
    except Exception:
        # Classes of a script or notebook, and functions that have no name.
        return dumps_by_value(value, share)


def dumps_by_value(value: Any, share: bool = CAN_SHARE) -> tuple[bytes, list[memoryview]]:
    """The same, where what belongs to the main script is sent along."""
    return dumps_by(pickler_by_value(), value, share)


def packed(value: Any) -> bytes:
    """The pickle of a value, with all that belongs to it in one piece."""
    return dumps_by_value(value, share=False)[0]


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        return _reduced_array(value)


@cache
def pickler_by_value() -> Any:
    """The class of picklers for what goes to another process, main script included."""

    class Pickler(_foreign.pickler()):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, CodeType):
                return _reduced_code(value)
            for cls, reduce in reduced_by.items():
                if isinstance(value, cls):
                    return reduce(value)
            reduced = _reduced_array(value)
            return super().reducer_override(value) if reduced is NotImplemented else reduced

    return Pickler


#: How objects of some classes travel to other processes: modules above this one add theirs.
#: From Python 3.14 on, names in annotations that are not known hold the globals around them.
reduced_by: dict[type, Callable[[Any], Any]] = {
    ForwardRef: lambda value: (ForwardRef, (value.__forward_arg__,))
}


def _reduced_code(code: CodeType) -> tuple[Any, ...]:
    """Code with the name of its file, which cloudpickle leaves out.

    Tracebacks show it, and machine code that one process has kept is found by it in others.
    """
    return CodeType, (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_nlocals,
        code.co_stacksize,
        code.co_flags,
        code.co_code,
        code.co_consts,
        code.co_names,
        code.co_varnames,
        code.co_filename,
        code.co_name,
        code.co_qualname,
        code.co_firstlineno,
        code.co_linetable,
        code.co_exceptiontable,
        code.co_freevars,
        code.co_cellvars,
    )


def _reduced_array(value: Any) -> Any:
    """How an array is pickled that NumPy would copy, or bring into this machine's byte order.

    The latter where elements do not follow each other, with objects, and for subclasses; the former
    for files that are mapped, which become arrays.
    """
    if type(value) is np.memmap:
        plain = value.view(np.ndarray)
        reduced = _reduced_array(plain)
        return plain.__reduce_ex__(5) if reduced is NotImplemented else reduced
    if not isinstance(value, np.ndarray) or value.dtype.isnative:
        return NotImplemented
    if type(value) is not np.ndarray or value.dtype.hasobject:
        return _in_byte_order, (value.astype(value.dtype.newbyteorder("=")), value.dtype)
    return NotImplemented if value.flags.forc else value.copy("C").__reduce_ex__(5)


def _in_byte_order(native: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return native.astype(dtype)


def dumps_by(pickler: Any, value: Any, share: bool) -> tuple[bytes, list[memoryview]]:
    """The same by another pickler."""
    large: list[memoryview] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < LARGE:
            return True
        large.append(raw)
        return False

    file = io.BytesIO()
    pickler(file, protocol=5, buffer_callback=stays if share else None).dump(value)
    return file.getvalue(), large


def layout(arrays: Iterable[memoryview]) -> tuple[Places, int]:
    """Where arrays go in a piece of shared memory, and how large it has to be."""
    places: Places = []
    end = 0
    for array in arrays:
        start = -(-end // ALIGNMENT) * ALIGNMENT
        end = start + array.nbytes
        places.append((start, array.nbytes))
    return places, end


def allocate(len_bytes: int) -> int:
    """A descriptor of so much memory.

    Raises
    ------
    LimitError
        If there is not so much.
    """
    check_available(len_bytes)
    descriptor = -1
    try:
        descriptor = os.memfd_create("framefold", os.MFD_CLOEXEC)
        os.truncate(descriptor, max(1, len_bytes))
    except OSError as error:  # such as the limits that `ulimit` sets
        if descriptor >= 0:
            os.close(descriptor)
        raise _too_much(len_bytes, error) from error
    return descriptor


def check_available(len_bytes: int) -> None:
    """See whether there is so much memory.

    Raises
    ------
    LimitError
        If not.
    """
    # Memory is only taken when it is written to, and where it ends then, so does some process.
    if len_bytes > available_memory():
        raise _too_much(len_bytes)


def _too_much(len_bytes: int, error: OSError | None = None) -> LimitError:
    if error is not None and error.errno in (errno.EMFILE, errno.ENFILE):
        return OpenFilesError(
            f"memory to share with other processes takes a file descriptor, and there is none left "
            f"({error.strerror}); raise the limit of open files (`ulimit -n`), or use the executor "
            f"'threads'"
        )
    reason = "" if error is None else f" ({error.strerror})"
    return LimitError(
        f"{len_bytes} bytes of memory to share with other processes cannot be had{reason}; use "
        f"smaller result buffers or more partitions, or the executor 'threads'"
    )


def available_memory() -> int:
    """How much memory there is for more processes, in bytes, as far as the system says."""
    with contextlib.suppress(OSError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def write(descriptor: int, arrays: Sequence[memoryview], places: Places) -> None:
    """Write arrays to their places."""
    for array, (start, _) in zip(arrays, places, strict=True):
        rest = array
        while rest.nbytes:
            written = os.pwrite(descriptor, rest[: 1 << 30], start)
            start += written
            rest = rest[written:]


def mapped(descriptor: int, len_bytes: int, *, private: bool, keep: bool = False) -> Bytes:
    """The memory behind a descriptor; ``private`` keeps changes to oneself.

    The descriptor is closed, unless it is to be kept and there was no error.

    Raises
    ------
    LimitError
        If there is no room for it.
    """
    try:
        access = mmap.ACCESS_COPY if private else mmap.ACCESS_WRITE
        memory = mmap.mmap(descriptor, max(1, len_bytes), access=access)
    except OSError as error:
        os.close(descriptor)
        raise _too_much(len_bytes, error) from error
    if not keep:
        os.close(descriptor)
    return np.frombuffer(memory, np.uint8)


def loads(data: bytes, memory: Bytes | None, places: Places) -> Any:
    """The value of a pickle; its large arrays lie in ``memory``."""
    if memory is None:
        return pickle.loads(data)
    return pickle.loads(data, buffers=[memory[start : start + n] for start, n in places])


class SharedPickle:
    """A pickle that goes to several processes; its large arrays are there once for all of them."""

    def __init__(self, data: bytes, large: list[memoryview]) -> None:
        places, size = layout(large)
        #: What :func:`load_shared` takes.
        self.message = (data, places, size)
        self.descriptors: list[int] = []
        if large:
            descriptor = allocate(size)
            self.descriptors.append(descriptor)
            # The memory is released with this object, also where `close` is never called.
            self._closing = weakref.finalize(self, _close, descriptor)
            write(descriptor, large, places)

    def close(self) -> None:
        """Close the descriptor; processes that have mapped the memory keep it."""
        if self.descriptors:
            self.descriptors.clear()
            self._closing()


def _close(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.close(descriptor)


def load_shared(message: tuple[bytes, Places, int], descriptors: list[int]) -> Any:
    """The value of a :class:`SharedPickle`, on the other side."""
    data, places, size = message
    memory = mapped(descriptors[0], size, private=True) if descriptors else None
    return loads(data, memory, places)
