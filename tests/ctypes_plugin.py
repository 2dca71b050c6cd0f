"""Functions of the C interface whose entries are functions in Python, to be as bad as tests want.

The kept binary is one that behaves; here, each entry can be replaced, crash, or never return.
"""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

import numpy as np

POINTER, SIZE, U64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64


class Text(ctypes.Structure):
    """``ff_text``."""

    _fields_ = (("data", POINTER), ("len", SIZE))


def text_of(said: bytes) -> Text:
    """A text that lives as long as it is held."""
    return Text(ctypes.cast(ctypes.c_char_p(said), POINTER), len(said))


class BufferDecl(ctypes.Structure):
    """``ff_buffer``."""

    _fields_ = (
        ("size", SIZE),
        ("name", Text),
        ("kind", U64),
        ("dtype", U64),
        ("n_extra", SIZE),
        ("extra_shape", ctypes.POINTER(SIZE)),
        ("use", U64),
    )


FAIL = ctypes.CFUNCTYPE(None, POINTER, Text)
DECLARE = ctypes.CFUNCTYPE(ctypes.c_int32, POINTER, ctypes.POINTER(BufferDecl))


class Host(ctypes.Structure):
    """``ff_host``."""

    _fields_ = (
        ("size", SIZE),
        ("minor", U64),
        ("ctx", POINTER),
        ("fail", FAIL),
        ("declare", DECLARE),
        ("cancelled", POINTER),
        ("frame", POINTER),
    )


class View(ctypes.Structure):
    """``ff_view``."""

    _fields_ = (
        ("data", POINTER),
        ("dtype", U64),
        ("n_dims", SIZE),
        ("shape", ctypes.POINTER(SIZE)),
        ("strides", POINTER),
    )


HOST, VIEWS = ctypes.POINTER(Host), ctypes.POINTER(View)
INT = ctypes.c_int32
REQUIREMENTS = ctypes.CFUNCTYPE(INT, POINTER, POINTER, POINTER, HOST)
BUFFERS = ctypes.CFUNCTYPE(INT, POINTER, POINTER, HOST)
PROCESS = ctypes.CFUNCTYPE(INT, POINTER, POINTER, VIEWS, SIZE, HOST)
MERGE = ctypes.CFUNCTYPE(INT, POINTER, VIEWS, VIEWS, SIZE, HOST)

NAV, SIG, SINGLE = range(3)
INT64 = ord("i") << 8 | 8


class Table(ctypes.Structure):
    """``ff_udf_v1``."""

    _fields_ = (
        ("size", SIZE),
        ("major", U64),
        ("minor", U64),
        ("name", Text),
        ("self", POINTER),
        ("requirements", REQUIREMENTS),
        ("buffers", BUFFERS),
        ("begin", POINTER),
        ("process", PROCESS),
        ("process_csr", POINTER),
        ("end", POINTER),
        ("drop_task", POINTER),
        ("merge", MERGE),
        ("results", POINTER),
        ("drop", POINTER),
    )


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = (POINTER, ctypes.c_char_p, POINTER)
NAME = ctypes.c_char_p(b"framefold.udf_v1")


class Plugin:
    """A compiled function with one buffer, into whose rows it writes the number of its process.

    Parameters
    ----------
    bad
        A function of this object and the host, called instead of ``process``; it may be in any
        process, and returns a status.
    kind, extra
        Those of the buffer.
    """

    called = b"in_ctypes"

    def __init__(self, bad: Any = None, kind: int = NAV, extra: tuple[int, ...] = ()) -> None:
        self.bad, self.kind, self.extra = bad, kind, extra

    def __reduce__(self) -> Any:
        return type(self), (self.bad, self.kind, self.extra)

    def _buffers(self, _this: Any, _job: Any, host: Any) -> int:
        extra = (SIZE * len(self.extra))(*self.extra)
        declared = BufferDecl(
            ctypes.sizeof(BufferDecl), text_of(b"pid"), self.kind, INT64, len(extra), extra, 0
        )
        return host.contents.declare(host.contents.ctx, declared)

    def _process(self, _task: Any, _tile: Any, views: Any, _n: int, host: Any) -> int:
        if self.bad is not None:
            return self.bad(self, host)
        view = views[0]
        shape = view.shape[: view.n_dims]
        n = int(np.prod(shape))
        if n:
            np.ctypeslib.as_array((ctypes.c_int64 * n).from_address(view.data))[:] = os.getpid()
        return 0

    def __framefold_udf__(self) -> Any:
        """A capsule; entries and table are kept by this object alone."""
        table = Table(size=ctypes.sizeof(Table), major=1, minor=0, name=text_of(self.called))
        table.requirements = REQUIREMENTS(lambda *_: 0)
        table.buffers = BUFFERS(self._buffers)
        table.process = PROCESS(self._process)
        if self.kind != NAV:
            table.merge = MERGE(lambda *_: 0)
        self.table = table
        return new_capsule(ctypes.addressof(table), NAME, None)


def crash(_plugin: Any, _host: Any) -> int:
    """Reads what is not there."""
    return ctypes.string_at(0)[0]


def never_return(_plugin: Any, _host: Any) -> int:
    """Works for ever."""
    while True:
        time.sleep(0.1)


def fail_with(data: bytes | None, length: int = 0) -> Any:
    """Says a text, or a null pointer that claims to have some length."""

    def bad(_plugin: Any, host: Any) -> int:
        said = Text(None, length) if data is None else text_of(data)
        host.contents.fail(host.contents.ctx, said)
        return 1

    return bad
