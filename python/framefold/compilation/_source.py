"""The functions that compiled code is entered by, as source text, made for each kind of run.

They read the structs of ``framefold.h``, make what stands for ``self`` of them, and call the user's
function once per frame or tile. All numbers in them are offsets in bytes. What they call first, if
it is given, does nothing: it adds to what is made of them.
"""

from __future__ import annotations

import re
from typing import Any

import numba
from numba.np.numpy_support import from_dtype

from framefold.compilation import _types
from framefold.compilation._lowering import HELPER
from framefold.compilation.marks import Options, options_of
from framefold.compilation.plan import (
    FIRST,
    HAS_ROI,
    N_FRAMES,
    POSITIONS,
    Buffer,
    Member,
    Wanted,
)
from framefold.compilation.values import Spec

nt: Any = numba.types

#: Offsets of members of ``ff_tile``, ``ff_rows``, ``ff_view`` and ``ff_host``.
TILE = {"data": 8, "depth": 24, "sig_origin": 48, "sig_shape": 56, "first": 64}
ROWS = {"starts": 8, "columns": 16, "values": 24, "depth": 40, "sig_origin": 56, "sig_shape": 64}
ROWS["first"] = 72
STRIDE = 32
VIEW_SIZE, VIEW_DATA, VIEW_SHAPE, VIEW_STRIDES = 40, 0, 24, 32
HOST_FRAME = 48

#: What is said where a name is not known in ``self``.
ABOUT_SELF = (
    ", and methods that are marked with @ff.compiled; pass other values to the constructor and on "
    "to super().__init__, and use self.params"
)


class Entry:
    """One function under construction."""

    def __init__(self, wanted: Wanted, first: Any = None) -> None:
        self.wanted = wanted
        self.lines: list[str] = []
        self.known: dict[str, Any] = {"load": _types.load_int, "store": _types.store_int}
        self.indent = 1
        if first is not None:
            self.line(f"{self.give(first, 'first')}()")

    def line(self, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.indent + text)

    def give(self, value: Any, stem: str) -> str:
        """A name for something that the function uses."""
        name = f"{stem}_{len(self.known)}"
        self.known[name] = value
        return name

    def function(self, name: str, arguments: str) -> Any:
        """The function."""
        self._leave_out_unused()
        text = f"def {name}({arguments}):\n" + "\n".join(self.lines) + "\n    return 0\n"
        scope = dict(self.known)
        exec(compile(text, f"<framefold: {name} of {self.wanted.udf}>", "exec"), scope)
        return scope[name]

    def _leave_out_unused(self) -> None:
        """Without numbers that are read and not used: Numba takes its time for each."""
        for index in reversed(range(len(self.lines))):
            name, _, value = self.lines[index].strip().partition(" = ")
            used = re.compile(rf"\b{re.escape(name)}\b")
            if value.startswith("load(") and not any(map(used.search, self.lines[index + 1 :])):
                del self.lines[index]

    def view(
        self, array: Any, address: str, shape: list[str], strides: list[str] | None = None
    ) -> str:
        """An expression for an array."""
        make = self.give(_types.make_view(array), "view")
        gaps = f", {_tuple(strides)}" if strides is not None else ""
        return f"{make}({address}, {_tuple(shape)}{gaps})"

    def members(self, kind: Any, values: dict[str, str]) -> str:
        """An expression for a struct of members, each an expression."""
        make = self.give(_types.make_members(kind), "make")
        return f"{make}({_tuple(list(values.values()))})"

    def value(self, spec: Spec, slot: int) -> tuple[Any, str]:
        """Type and expression of a value in the block."""
        if spec.kind == "number":
            kind = from_dtype(_dtype(spec.dtype))
            load = self.give(_types.load_number(kind), "number")
            return kind, f"{load}(block, {8 * slot})"
        if spec.kind == "array":
            array = _types.array_type(_dtype(spec.dtype), spec.ndim, writeable=spec.writeable)
            shape = [f"load(block, {8 * (slot + 1 + axis)})" for axis in range(spec.ndim)]
            return array, self.view(array, f"load(block, {8 * slot})", shape)
        if spec.kind == "tuple":
            kinds, expressions = [], []
            for item in spec.items:
                kind, expression = self.value(item, slot)
                slot += item.n_slots
                kinds.append(kind)
                expressions.append(expression)
            return nt.Tuple(tuple(kinds)), _tuple(expressions)
        if spec.kind == "function" and spec.function is not None:
            options = options_of(spec.function) or Options()
            kind = nt.Dispatcher(_types.dispatcher(spec.function, options))
            return kind, f"{self.give(_types.make_constant(kind), 'function')}()"
        if spec.kind == "text":
            return nt.unicode_type, repr(spec.text)
        return nt.none, "None"


def _dtype(name: str) -> Any:
    import numpy as np

    return np.dtype(name)


def _tuple(expressions: list[str]) -> str:
    return "(" + "".join(f"{each}, " for each in expressions) + ")"


def process_entry(wanted: Wanted, first: Any = None) -> Any:
    """What is called once per tile."""
    entry = Entry(wanted, first)
    at = ROWS if wanted.sparse else TILE
    entry.line(f"depth = load(tile, {at['depth']})")
    entry.line(f"first = load(tile, {at['first']})")
    if not wanted.sparse:
        entry.line(f"data = load(tile, {at['data']})")
        entry.line(f"stride = load(tile, {STRIDE})")
    for axis in range(wanted.n_sig):
        entry.line(f"s{axis} = load(load(tile, {at['sig_shape']}), {8 * axis})")
        entry.line(f"o{axis} = load(load(tile, {at['sig_origin']}), {8 * axis})")
    one = wanted.method == "frame"
    results = _result_members(entry, wanted.buffers, "frame" if one else "tile")
    common = _self_members(entry, wanted)
    if one:
        entry.line(f"counter = load(host, {HOST_FRAME})")
        entry.line("for i in range(depth):")
        entry.indent += 1
        entry.line("store(counter, i)")
    frame = _rows(entry, wanted, one) if wanted.sparse else _pixels(entry, wanted, one)
    process = entry.give(_types.dispatcher(wanted.process, wanted.options), "process")
    if wanted.makes_frames:
        entry.line(f"instance = {_instance(entry, wanted, None, common, None, None)}")
        out = results[wanted.buffers[0].name][1]
        entry.line(f"{process}(instance, {frame}, {out})")
        return entry.function("process", "block, tile, views, n, host")
    instance = _instance(
        entry, wanted, results, common, "i" if one else "0", "1" if one else "depth"
    )
    entry.line(f"instance = {instance}")
    entry.line(f"{process}(instance, {frame})")
    return entry.function("process", "block, tile, views, n, host")


def end_entry(wanted: Wanted, first: Any = None) -> Any:
    """What is called at the end of a partition."""
    assert wanted.postprocess is not None
    entry = Entry(wanted, first)
    entry.line(f"first = load(block, {8 * FIRST})")
    for axis in range(wanted.n_sig):
        slot = wanted.shape_slot + wanted.n_nav + axis
        entry.line(f"o{axis}, s{axis} = 0, load(block, {8 * slot})")
    results = _result_members(entry, wanted.buffers, "tile")
    n_frames = f"load(block, {8 * N_FRAMES})"
    instance = _instance(entry, wanted, results, _self_members(entry, wanted), "0", n_frames)
    entry.line(f"instance = {instance}")
    options = options_of(wanted.postprocess) or Options()
    entry.line(f"{entry.give(_types.dispatcher(wanted.postprocess, options), 'end')}(instance)")
    return entry.function("end", "block, tile, views, n, host")


def merge_entry(wanted: Wanted, first: Any = None) -> Any:
    """What folds a partition into the result."""
    assert wanted.merge is not None
    entry = Entry(wanted, first)
    sides = []
    for side, writeable in (("views", True), ("tile", False)):
        members = _result_members(entry, wanted.buffers, "tile", side, writeable=writeable)
        title = "dest" if writeable else "src"
        kind = _types.Members(title, {name: made[0] for name, made in members.items()})
        entry.line(f"{title} = {entry.members(kind, {n: m[1] for n, m in members.items()})}")
        sides.append(title)
    instance = _instance(entry, wanted, None, _self_members(entry, wanted), None, None)
    entry.line(f"instance = {instance}")
    options = options_of(wanted.merge) or Options()
    merge = entry.give(_types.dispatcher(wanted.merge, options), "merge")
    arguments = list(wanted.merge.__code__.co_varnames[1:3])
    if arguments == ["src", "dest"]:
        sides.reverse()
    entry.line(f"{merge}(instance, {', '.join(sides)})")
    return entry.function("merge", "block, tile, views, n, host")


def _result_members(
    entry: Entry,
    buffers: tuple[Buffer, ...],
    part: str,
    views: str = "views",
    *,
    writeable: bool = True,
) -> dict[str, tuple[Any, str]]:
    """Type and expression of each view of a result buffer."""
    members = {}
    n_sig = entry.wanted.n_sig
    for index, buffer in enumerate(buffers):
        view = VIEW_SIZE * index
        own = {"nav": 1, "sig": n_sig, "single": 0}[buffer.kind]
        n_dims = own + buffer.n_extra or 1
        stem = f"{views}{index}"
        entry.line(f"{stem}_data = load({views}, {view + VIEW_DATA})")
        entry.line(f"{stem}_shape = load({views}, {view + VIEW_SHAPE})")
        shape = []
        for axis in range(n_dims):
            entry.line(f"{stem}_n{axis} = load({stem}_shape, {8 * axis})")
            shape.append(f"{stem}_n{axis}")
        address = f"{stem}_data"
        if part == "frame" and buffer.kind == "nav":
            entry.line(f"{stem}_step = load(load({views}, {view + VIEW_STRIDES}), 0)")
            address = f"{stem}_data + i * {stem}_step"
            shape = shape[1:] or ["1"]
        array = _types.array_type(_dtype(buffer.dtype), len(shape), writeable=writeable)
        members[buffer.name] = array, entry.view(array, address, shape)
    return members


def _self_members(entry: Entry, wanted: Wanted) -> dict[str, tuple[Any, str]]:
    """``self.params`` without AUX data, and ``self.task_data``: the same for a whole tile."""
    made = {}
    for title, members in (("params", wanted.params), ("task_data", wanted.task_data)):
        for member in members:
            if member.spec.kind == "bad" or member.aux:
                continue
            kind, expression = entry.value(member.spec, member.slot)
            name = f"{title}_{member.name}"
            entry.line(f"{name} = {expression}")
            made[f"{title}.{member.name}"] = kind, name
    return made


def _instance(
    entry: Entry,
    wanted: Wanted,
    results: dict[str, tuple[Any, str]] | None,
    common: dict[str, tuple[Any, str]],
    frame: str | None,
    n_frames: str | None,
) -> str:
    """An expression for ``self``."""
    members: dict[str, tuple[Any, str]] = {}

    def add(name: str, inner: dict[str, tuple[Any, str]], bad: dict[str, str], about: str) -> None:
        kind = _types.Members(
            f"self.{name}", {key: made[0] for key, made in inner.items()}, bad=bad, about=about
        )
        members[name] = kind, entry.members(kind, {key: made[1] for key, made in inner.items()})

    if results is not None:
        add("results", results, {}, "; declare it in get_result_buffers")
    for part, given in (("params", wanted.params), ("task_data", wanted.task_data)):
        inner = {}
        bad = {m.name: f"{m.spec.text}" for m in given if m.spec.kind == "bad"}
        for member in given:
            if member.aux:
                if frame is None or n_frames is None:
                    bad[member.name] = "AUX data, which is there while a partition is processed"
                    continue
                inner[member.name] = _aux(entry, wanted, member, frame, n_frames)
            elif member.name not in bad:
                inner[member.name] = common[f"{part}.{member.name}"]
        origin = "; pass it to the constructor" if part == "params" else "; get_task_data makes it"
        add(part, inner, bad, origin)
    if "meta" in wanted.names:
        members["meta"] = _meta(entry, wanted, frame, n_frames)
    if "xp" in wanted.names:
        import numpy as np

        module = nt.Module(np)
        members["xp"] = module, f"{entry.give(_types.make_constant(module), 'numpy')}()"
    methods = {}
    for name, function in wanted.methods:
        methods[name] = _types.dispatcher(function, options_of(function) or Options())
        _types.allow_method(name)
    kind = _types.Members("self", {k: m[0] for k, m in members.items()}, methods, about=ABOUT_SELF)
    return entry.members(kind, {key: made[1] for key, made in members.items()})


def _aux(
    entry: Entry, wanted: Wanted, member: Member, frame: str, n_frames: str
) -> tuple[Any, str]:
    """The part of AUX data that belongs to the frame or the tile."""
    spec, slot = member.spec, member.slot
    dtype = _dtype(spec.dtype)
    shape = [f"load(block, {8 * (slot + 1 + axis)})" for axis in range(spec.ndim)]
    address = f"load(block, {8 * slot})"
    if member.aux == "nav":
        step = " * ".join([str(dtype.itemsize), *shape[1:]])
        shape = (shape[1:] or ["1"]) if frame == "i" else [n_frames, *shape[1:]]
        array = _types.array_type(dtype, len(shape), writeable=False)
        return array, entry.view(array, f"{address} + (first + {frame}) * {step}", shape)
    if member.aux == "sig" and wanted.method != "frame":
        strides = [str(dtype.itemsize)]
        for length in reversed(shape[1:]):
            strides.insert(0, f"{strides[0]} * {length}")
        offset = "".join(f" + o{axis} * {strides[axis]}" for axis in range(wanted.n_sig))
        part = [f"s{axis}" for axis in range(wanted.n_sig)] + shape[wanted.n_sig :]
        array = _types.array_type(dtype, spec.ndim, writeable=False, gaps=member.gaps)
        gaps = strides if member.gaps else None
        return array, entry.view(array, f"{address}{offset}", part, gaps)
    array = _types.array_type(dtype, spec.ndim, writeable=False)
    return array, entry.view(array, address, shape)


def _meta(entry: Entry, wanted: Wanted, frame: str | None, n_frames: str | None) -> tuple[Any, str]:
    """``self.meta``: what of it compiled code can know."""
    n_nav, n_sig = wanted.n_nav, wanted.n_sig
    numbers = nt.UniTuple(nt.intp, n_nav), nt.UniTuple(nt.intp, n_sig)
    nav = _tuple([f"load(block, {8 * (wanted.shape_slot + a)})" for a in range(n_nav)])
    sig = _tuple([f"load(block, {8 * (wanted.shape_slot + n_nav + a)})" for a in range(n_sig)])
    made: dict[str, tuple[Any, str]] = {}

    def part(title: str, inner: dict[str, tuple[Any, str]]) -> tuple[Any, str]:
        kind = _types.Members(title, {key: value[0] for key, value in inner.items()})
        return kind, entry.members(kind, {key: value[1] for key, value in inner.items()})

    for name, dtype in (
        ("input_dtype", wanted.input_dtype),
        ("dataset_dtype", wanted.dataset_dtype),
    ):
        if name in wanted.names and dtype:
            of_dtype = nt.DType(from_dtype(_dtype(dtype)))
            made[name] = of_dtype, f"{entry.give(_types.make_constant(of_dtype), 'dtype')}()"
    if "dataset_shape" in wanted.names:
        shape = {"nav": (numbers[0], nav), "sig": (numbers[1], sig)}
        made["dataset_shape"] = part("self.meta.dataset_shape", shape)
    of_partition = ""
    if frame is not None and n_frames is not None:
        of_partition = "coordinates, slice, sig_slice, partition_shape, "
        if "partition_shape" in wanted.names:
            shape = {
                "nav": (nt.UniTuple(nt.intp, 1), f"(load(block, {8 * N_FRAMES}),)"),
                "sig": (numbers[1], sig),
            }
            made["partition_shape"] = part("self.meta.partition_shape", shape)
        origin = _tuple([f"o{axis}" for axis in range(n_sig)])
        lengths = _tuple([f"s{axis}" for axis in range(n_sig)])
        if "sig_slice" in wanted.names:
            inner = {"origin": (numbers[1], origin), "shape": (numbers[1], lengths)}
            made["sig_slice"] = part("self.meta.sig_slice", inner)
        if "slice" in wanted.names:
            both = nt.UniTuple(nt.intp, 1 + n_sig)
            inner = {
                "origin": (both, f"(first + {frame}, {origin[1:]}"),
                "shape": (both, f"({n_frames}, {lengths[1:]}"),
            }
            made["slice"] = part("self.meta.slice", inner)
        if "coordinates" in wanted.names:
            array = nt.Array(nt.intp, 2, "C")
            made["coordinates"] = array, _coordinates(entry, wanted, nav, frame, n_frames)
    kind = _types.Members(
        "self.meta",
        {key: value[0] for key, value in made.items()},
        knows=f"{of_partition}dataset_shape, input_dtype and dataset_dtype",
    )
    return kind, entry.members(kind, {key: value[1] for key, value in made.items()})


def _coordinates(entry: Entry, wanted: Wanted, nav: str, frame: str, n_frames: str) -> str:
    """An expression for the scan positions of the frames, one row each."""
    import numpy as np

    load = _types.load_int
    n_nav, where, has_roi = wanted.n_nav, 8 * POSITIONS, 8 * HAS_ROI

    @numba.njit(nogil=True, **HELPER)  # type: ignore[untyped-decorator]
    def coordinates(block: Any, first: Any, n: Any, nav: Any) -> Any:
        out = np.empty((n, n_nav), np.int64)
        for row in range(n):
            position = first + row
            if load(block, has_roi):
                position = load(load(block, where), 8 * position)
            for back in range(n_nav):
                axis = n_nav - 1 - back
                out[row, axis] = position % nav[axis]
                position //= nav[axis]
        return out

    name = entry.give(coordinates, "coordinates")
    return f"{name}(block, first + {frame}, {n_frames}, {nav})"


def _pixels(entry: Entry, wanted: Wanted, one: bool) -> str:
    """An expression for the pixels of a dense frame or tile."""
    sig = [f"s{axis}" for axis in range(wanted.n_sig)]
    shape = sig if one else ["depth", *sig]
    array = _types.array_type(_dtype(wanted.input_dtype), len(shape), writeable=False)
    return entry.view(array, "data + i * stride" if one else "data", shape)


def _rows(entry: Entry, wanted: Wanted, one: bool) -> str:
    """An expression for the entries of a sparse frame or tile, named as SciPy names them."""
    size = _dtype(wanted.input_dtype).itemsize
    entry.line(f"starts = load(tile, {ROWS['starts']})")
    entry.line(f"columns = load(tile, {ROWS['columns']})")
    entry.line(f"values = load(tile, {ROWS['values']})")
    entry.line(f"begin = load(starts, {'8 * i' if one else '0'})")
    entry.line(f"end = load(starts, 8 * {'(i + 1)' if one else 'depth'})")
    n_cells = " * ".join([f"s{axis}" for axis in range(wanted.n_sig)]) or "1"
    # Of a tile, starts count from the first entry of the tile's own arrays.
    base = "begin" if one else "0"
    data = _types.array_type(_dtype(wanted.input_dtype), 1, writeable=False)
    columns = _types.array_type(_dtype("int32"), 1, writeable=False)
    members = {
        "data": (data, entry.view(data, f"values + {base} * {size}", [f"end - {base}"])),
        "indices": (columns, entry.view(columns, f"columns + {base} * 4", [f"end - {base}"])),
        "shape": (nt.UniTuple(nt.intp, 2), f"({'1' if one else 'depth'}, {n_cells})"),
        "nnz": (nt.intp, "end - begin"),
    }
    if not one:
        starts = _types.array_type(_dtype("int64"), 1, writeable=False)
        members["indptr"] = starts, entry.view(starts, "starts", ["depth + 1"])
    kind = _types.RowsType(
        "the frame" if one else "the tile",
        {key: value[0] for key, value in members.items()},
        about="; it is sparse, as get_backends asks for",
    )
    return entry.members(kind, {key: value[1] for key, value in members.items()})


__all__ = ["FIRST", "end_entry", "merge_entry", "process_entry"]
