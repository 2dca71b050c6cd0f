"""UDFs of which the methods that process data are compiled.

What is compiled for a run is made of the UDF as partitions would get it: its parameters and task
data in a block of memory, and the views of results that the engine passes.
"""

from __future__ import annotations

import ctypes
import inspect
import itertools
import pickle
import threading
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common._user_code import names_in
from framefold.common.udf import NUMPY, SCIPY_CSR, SCIPY_CSR_ARRAY
from framefold.compilation.marks import NO_NUMBA, numba_is_installed, options_of
from framefold.compilation.names import functions_of
from framefold.compilation.plan import (
    HAS_ROI,
    N_RESERVED,
    POSITIONS,
    Buffer,
    Member,
    Wanted,
)
from framefold.compilation.values import Block, is_number
from framefold.exceptions import UDFError, UnsupportedError
from framefold.udf.base import PROCESS_METHODS, UDF
from framefold.udf.data import UDFData
from framefold.udf.engine.declarations import checked_task_data
from framefold.udf.engine.memory import allocate, views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from framefold.udf.engine.bridge import Bridge, RunDescription
    from framefold.udf.engine.changes import Version

#: The array formats that compiled code gets.
FORMATS = (NUMPY, SCIPY_CSR, SCIPY_CSR_ARRAY)


def to_compile(udf: UDF, method: str) -> Any:
    """What processes the data, if it is marked.

    Raises
    ------
    UDFError
        If other methods that workers call are marked and it is not, or the other way round.
    """
    name = type(udf).__name__
    process = udf._marked_function(method)
    hooks = {hook: getattr(type(udf), hook) for hook in ("postprocess", "merge", "cleanup")}
    if process is None:
        for hook, function in hooks.items():
            if options_of(function) is not None:
                raise UDFError(
                    f"{name}.{hook} is marked with @ff.compiled, and {PROCESS_METHODS[method]}, "
                    f"which processes the data, is not; mark both or none"
                )
        return None
    for hook in ("postprocess", "cleanup"):
        if hooks[hook] is not getattr(UDF, hook) and options_of(hooks[hook]) is None:
            raise UDFError(
                f"{name}.{hook} must be compiled as well as {process.__name__}, as workers call "
                f"both without the interpreter; mark it with @ff.compiled"
                + (", or leave it out" if hook == "cleanup" else "")
            )
    if options_of(hooks["cleanup"]) is not None:
        raise UDFError(f"{name}.cleanup cannot be compiled; leave it out")
    return process


def formats_of(name: str, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the array formats that compiled code can get.

    Raises
    ------
    UnsupportedError
        If there is none.
    """
    formats = tuple(each for each in asked if each in FORMATS)
    if not formats:
        raise UnsupportedError(
            f"{name} is compiled and takes {', '.join(map(repr, asked))}; compiled functions get "
            f"'numpy', or 'scipy.sparse.csr_matrix' for sparse data: name one in get_backends"
        )
    return formats


class Code:
    """The machine code of a run and its data, of which there may be others from some frame on.

    It does not keep the run, which keeps it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: _engine.CompiledCode | None = None
        #: Where it is from: ``compiled``, ``cache`` or ``memory``.
        self.origin = ""
        #: The type of what the function returns that processes the data; empty for None.
        self.returns = ""

    def get(self, run: RunDescription) -> _engine.CompiledCode:
        """What partitions run."""
        with self._lock:
            if self._made is None:
                self._made = self.make(run, run.bridge.versions[0])
                self._follow(run)
            return self._made

    def renew(self, run: RunDescription) -> None:
        """Go over to all changes of parameters that there are now."""
        with self._lock:
            if self._made is not None:
                self._follow(run)

    def _follow(self, run: RunDescription) -> None:
        changes = run.bridge.versions[1:]
        if changes:
            assert self._made is not None
            self._made.replace([(each.first, self.make(run, each)) for each in changes])

    def make(self, run: RunDescription, version: Version) -> _engine.CompiledCode:
        """Machine code with these parameters."""
        from framefold.compilation import store

        bridge = run.bridge
        wanted, block, initial = _wanted(run, version)
        loaded = store.load(wanted)
        self.origin, self.returns = loaded.origin, loaded.returns
        addresses = tuple(loaded.addresses.get(name, 0) for name in ("process", "end", "merge"))
        slots = block.finished()
        return _engine.CompiledCode(
            bridge.name,
            addresses,
            wanted.sparse,
            wanted.method != "frame",
            slots.tolist(),
            block.private,
            [(array.ctypes.data, array.nbytes) for array in initial],
            (loaded, block, initial),
        )


def _wanted(run: RunDescription, version: Version) -> tuple[Wanted, Block, list[npt.NDArray[Any]]]:
    """What to compile for a run, its data, and what buffers begin with if that is not zeros."""
    bridge = run.bridge
    n_selected = bridge.n_selected
    aux = bridge.aux_for(0, n_selected, version.aux)
    meta = run.meta(bridge.array_backend, 0, n_selected)
    udf = bridge.copy_with(meta, aux, version.udf)
    process = to_compile(udf, bridge.method)
    assert process is not None
    cls, name = type(udf), bridge.name
    postprocess: Any = None if cls.postprocess is UDF.postprocess else cls.postprocess
    merge: Any = cls.merge if options_of(cls.merge) is not None else None
    _check(bridge)
    functions = [f for f in (process, postprocess, merge) if f is not None]
    methods, names = functions_called(cls, functions)

    block = Block(N_RESERVED)
    if bridge.positions is not None:
        positions = np.ascontiguousarray(bridge.positions, np.int64)
        block.kept.append(positions)
        block.slots[POSITIONS], block.slots[HAS_ROI] = positions.ctypes.data, 1
    nav, sig = tuple(bridge.shape.nav), tuple(bridge.shape.sig)
    shape_slot = block.add_int(*nav, *sig)
    udf.task_data = UDFData(bridge.task_data_role, checked_task_data(udf))
    gaps = run.tile_shape[1:] != sig[1:]
    params = []
    for key, value in sorted(udf.params.__dict__.items()):
        if key not in names:
            continue
        kind = version.aux[key][0] if key in version.aux else ""
        spec, slot = block.add(np.asarray(value) if kind else value)
        params.append(Member(key, spec, slot, kind if spec.kind == "array" else "", gaps))
    used = {k: value for k, value in sorted(udf.task_data.__dict__.items()) if k in names}
    _check_apart(name, used)
    task_data = [Member(key, *block.add(value, private=True)) for key, value in used.items()]

    initial: list[npt.NDArray[Any]] = []
    if "preprocess" in vars(udf) or cls.preprocess is not UDF.preprocess:
        arrays = allocate(bridge.declared, bridge.shape, n_selected)
        udf.results = UDFData(bridge.result_role, views(arrays))
        udf.preprocess()
        initial = list(arrays.values())
    buffers = tuple(
        Buffer(key, decl.kind, decl.dtype.name, len(decl.extra_shape))
        for key, decl in bridge.declared.items()
        if decl.use != "result_only"
    )
    wanted = Wanted(
        udf=name,
        method=bridge.method,
        sparse=bridge.array_backend != NUMPY,
        input_dtype=bridge.input_dtype.name,
        dataset_dtype=bridge.dtype.name if is_number(bridge.dtype) else "",
        n_nav=len(nav),
        n_sig=len(sig),
        buffers=buffers,
        params=tuple(params),
        task_data=tuple(task_data),
        shape_slot=shape_slot,
        process=process,
        postprocess=postprocess,
        merge=merge,
        methods=methods,
        names=names,
    )
    return wanted, block, initial


def _check_apart(udf: str, task_data: dict[str, Any]) -> None:
    """Refuse arrays that share memory: compiled code gets a copy of each.

    What is read-only stays the same in all copies.
    """
    arrays = [(key, array) for key, value in task_data.items() for array in _arrays_in(value)]
    for (one, array), (other, another) in itertools.combinations(arrays, 2):
        if (array.flags.writeable or another.flags.writeable) and _share_memory(array, another):
            where = f"an array twice in {one!r}"
            if one != other:
                where = f"{one!r} and {other!r}, which share memory"
            raise UDFError(
                f"get_task_data of {udf}, which is compiled, returns {where}; compiled code gets a "
                f"copy of each array, so what it writes into one is not in the other: return one "
                f"array and take its parts in the method, or return a copy, or arrays that are "
                f"read-only (array.flags.writeable = False)"
            )


def _share_memory(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    try:
        return np.shares_memory(one, other, max_work=10**6)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:  # as good as certain: they are interlaced in many axes
        return True


def _arrays_in(value: Any) -> Iterator[npt.NDArray[Any]]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _arrays_in(each)


def _check(bridge: Bridge) -> None:
    """Refuse what compiled code cannot compute with."""
    if not is_number(bridge.input_dtype):
        raise UDFError(
            f"{bridge.name} is compiled and gets {bridge.input_dtype} data, with which compiled "
            f"code does not compute; return another dtype from get_preferred_input_dtype, such as "
            f"float32"
        )
    for name, decl in bridge.declared.items():
        if decl.use != "result_only" and not is_number(decl.dtype):
            what = "a structured dtype" if decl.dtype.names else f"dtype {decl.dtype}"
            raise UDFError(
                f"{bridge.name} is compiled, and its buffer {name!r} has {what}, which compiled "
                f"code cannot write; declare buffers of numbers, one for each field, or leave out "
                f"@ff.compiled"
            )


def functions_called(
    cls: type, functions: list[FunctionType]
) -> tuple[tuple[tuple[str, FunctionType], ...], frozenset[str]]:
    """The marked methods that these may call, and all names in the code."""
    methods: dict[str, FunctionType] = {}
    names: set[str] = set()
    waiting = list(functions)
    while waiting:
        for function in functions_of(waiting.pop()):
            names |= names_in(function.__code__)
        for name in sorted(names - methods.keys()):
            found = getattr(cls, name, None)
            if isinstance(found, FunctionType) and options_of(found) is not None:
                if isinstance(inspect.getattr_static(cls, name), staticmethod):
                    raise UDFError(
                        f"{cls.__name__}.{name} is a static method, which compiled code cannot "
                        f"call; make it a method with self, or a function outside of the class"
                    )
                methods[name] = found
                waiting.append(found)
    return tuple(sorted(methods.items())), frozenset(names)


def explain_failure(
    run: RunDescription,
    partition: tuple[int, int, int],
    given: dict[str, Any],
    frame: int | None,
    arrays: dict[str, npt.NDArray[Any]],
    address: int,
) -> None:
    """Raise what the user is to see of a failure of compiled code.

    The frame, or the tile, is processed again in the interpreter, with copies of its pixels and of
    the buffers as they were left.

    Parameters
    ----------
    run
        What all partitions share.
    partition
        Its number, its first frame, and where it ends.
    given
        The pixels and where they lie; empty at the end of a partition.
    frame
        The frame of the tile, if it is known.
    arrays
        The buffers of the partition.
    address
        Of Numba's description of the exception.
    """
    raise_failure(address, lambda: _run_again(run, partition, given, frame, arrays))


def raise_failure(address: int, run_again: Callable[[], None]) -> None:
    """Raise what the user is to see of a failure of compiled code.

    Parameters
    ----------
    address
        Of Numba's description of the exception.
    run_again
        Does in the interpreter what failed.
    """
    raised = _exception_at(address)
    if isinstance(raised, MemoryError):
        # Not once more: the interpreter may get memory that the system does not have.
        raised.add_note("compiled code asked for more memory than there is")
        raise raised
    run_again()
    if raised is None:
        raise UDFError(
            "the compiled function failed, and the interpreter raises nothing for the same data: "
            "where the two differ, the page 'Make it fast' of the guide says"
        )
    raised.add_note(
        "raised by the compiled function; the interpreter raises nothing for the same data: where "
        "the two differ, the page 'Make it fast' of the guide says"
    )
    raise raised


def merge_failed(address: int) -> None:
    """Raise what a compiled ``merge`` raised; it is not run again, as results have changed."""
    raised = _exception_at(address)
    raise UDFError("the compiled merge failed") if raised is None else raised


def _run_again(
    run: RunDescription,
    partition: tuple[int, int, int],
    given: dict[str, Any],
    frame: int | None,
    arrays: dict[str, npt.NDArray[Any]],
) -> None:
    bridge = run.bridge
    index, start, stop = partition
    task = run.partition(index, start, stop)
    udf = task.udf
    for name, array in arrays.items():
        task.arrays[name][...] = array
    if not given:
        udf.results.__dict__.update({name: array[...] for name, array in task.arrays.items()})
        udf.postprocess()
        return
    first, last = given["frames"]
    in_partition = given["in_partition"][0]
    one = bridge.method == "frame"
    if one:
        offset = frame or 0
        first, in_partition = first + offset, in_partition + offset
        last = first + 1
    box = tuple(
        slice(origin, origin + length)
        for origin, length in zip(given["origin"], given["shape"], strict=True)
    )
    rows = slice(in_partition, in_partition + last - first)
    udf.results.__dict__.update(
        {
            name: _part(array, task.buffers[name].kind, rows, box, one)
            for name, array in task.arrays.items()
        }
    )
    udf.params.__dict__.update(
        {
            name: _part(array, bridge.aux[name][0], rows, box, one)
            for name, array in bridge.aux_for(start, stop).items()
        }
    )
    udf.meta = run.meta(bridge.array_backend, start, stop)
    cursor: Any = SimpleNamespace(start=first, stop=last, slice_index=given["slice_index"])
    udf.meta._cursor = cursor
    getattr(udf, PROCESS_METHODS[bridge.method])(
        _pixels(bridge, given, frame if one else None, one)
    )


def _part(
    array: npt.NDArray[Any], kind: str, rows: slice, box: tuple[slice, ...], one: bool
) -> npt.NDArray[Any]:
    if kind == "nav":
        part = array[rows]
        return part if not one or part.ndim == 1 else part[0]
    return array[box].copy() if kind == "sig" else array


def _pixels(bridge: Bridge, given: dict[str, Any], frame: int | None, one: bool) -> Any:
    shape = tuple(given["shape"])
    if "pixels" in given:
        pixels = np.frombuffer(given["pixels"], bridge.input_dtype).reshape((-1, *shape))
        return pixels[frame or 0] if one else pixels
    from scipy import sparse

    values = np.frombuffer(given["values"], bridge.input_dtype)
    starts, columns = np.asarray(given["starts"]), np.asarray(given["columns"], np.int32)
    begin, end = int(starts[0]), int(starts[-1])
    parts = values[begin:end], columns[begin:end], starts - begin
    make = sparse.csr_array if bridge.array_backend == SCIPY_CSR_ARRAY else sparse.csr_matrix
    rows = make(parts, shape=(len(starts) - 1, int(np.prod(shape))))
    return rows[[frame or 0]] if one else rows


def _exception_at(address: int) -> BaseException | None:
    """The exception that Numba describes at an address: it keeps class and arguments, pickled."""
    if not address:
        return None

    class Description(ctypes.Structure):
        _fields_ = (
            ("data", ctypes.c_void_p),
            ("size", ctypes.c_int32),
            ("more", ctypes.c_void_p),
            ("unwrap", ctypes.c_void_p),
            ("n_arguments", ctypes.c_int32),
        )

    described = Description.from_address(address)
    if not described.data or described.n_arguments > 0:
        return None
    try:
        cls, arguments, *where = pickle.loads(ctypes.string_at(described.data, described.size))
        raised = cls(*(arguments or ()))
    except Exception:
        return None
    if not isinstance(raised, BaseException):
        return None
    if where and where[0] is not None:
        function, file, line = where[0]
        raised.add_note(f'in {function}, file "{file}", line {line}')
    return raised


__all__ = [
    "NO_NUMBA",
    "Code",
    "explain_failure",
    "formats_of",
    "functions_called",
    "merge_failed",
    "numba_is_installed",
    "options_of",
    "raise_failure",
    "to_compile",
]
