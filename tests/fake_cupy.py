"""A stand-in for CuPy that shows who forgets to wait.

Long because: it is one library, and worker processes import it as one module.

Arrays are NumPy's underneath. What is queued on a stream is not done before a thread waits for
it: copies read the host's memory as late as they may, and what is computed is computed when its
result is asked for. With ``machine.early``, transfers happen at once instead, unless their
stream has to wait. So a wait that is missing gives wrong numbers in one of the two.

Memory begins as garbage. Arrays of one device cannot be used on another, and none of them turns
into a NumPy array by itself.

``machine.fail`` makes what is to come fail as it does with CuPy: work that was queued fails when
a thread waits for it. After an error that is sticky, all that is asked of the device fails.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import sys
import threading
import time
import types
import weakref
from collections import deque

import fake_cupy_kernels
import host_decoder
import numpy as np
from fake_cuda_errors import CUDARuntimeError, Fault, OutOfMemoryError

GARBAGE = 0x55


#: What is asked for, by what is done later.
CALLS = {"kernel": "launch", "copy": "set"}


class Machine:
    """The devices, and what happened to them."""

    def __init__(self, early=False, limit=None, n_devices=8):
        self.n_devices = n_devices
        self.early = early
        self.limit = limit
        self.lock = threading.RLock()
        self.local = threading.local()
        #: What was asked for, in order: ("copy", stream), ("kernel", stream), ("wait", …), …
        self.log = []
        self.memory = weakref.WeakSet()
        self.streams = weakref.WeakSet()
        #: Streams and events that were destroyed when their device was broken.
        self.n_destroyed_broken = 0
        #: Addresses stay what they are, also where nothing refers to them any more.
        self.addresses = []
        #: Weak references to all pinned memory.
        self.pinned = []
        self.n_kernels_done = 0
        self.freed_pools = []
        #: The bytes of each transfer to a device, while they are counted.
        self.transfers = None
        #: How long it takes, by what is done.
        self.seconds = {}
        self.faults = []
        #: The error of devices that are broken.
        self.broken = {}
        #: How often something was asked of a broken device, other than whether it works.
        self.n_refused = 0

    @property
    def device(self):
        return getattr(self.local, "device", 0)

    @property
    def stream(self):
        stream = getattr(self.local, "stream", None)
        if stream is None:
            stream = self.local.stream = Stream()
        return stream

    @contextlib.contextmanager
    def counting_transfers(self):
        self.transfers = []
        yield self.transfers
        self.transfers = None

    def live_bytes(self):
        return sum(memory.size for memory in self.memory)

    def fail(self, kind, status=700, n_before=0, *, sticky=True, device=0):
        """Have something fail, or the device ``"now"``.

        A ``"kernel"`` or ``"copy"`` fails when it is done, and such errors are sticky. An
        ``"alloc"``, a ``"pinned"`` allocation, a ``"launch"`` of a kernel and a ``"set"``, which
        begins a copy, fail when they are asked for.
        """
        assert sticky or kind not in CALLS, "errors of what is queued are sticky"
        if kind == "now":
            self.breaks(device, status)
        else:
            self.faults.append(Fault(kind, status, n_before, sticky, device))

    def breaks(self, device, status):
        """Nothing that was queued on the device is done any more."""
        with self.lock:
            self.broken[device] = status
            for stream in list(self.streams):
                if stream.device == device:
                    stream.ops.clear()

    def meets(self, kind, device):
        """Raise if that is to fail."""
        for fault in list(self.faults):
            if (fault.kind, fault.device) != (kind, device):
                continue
            if fault.n_before:
                fault.n_before -= 1
                continue
            self.faults.remove(fault)
            if fault.sticky:
                self.breaks(device, fault.status)
            raise CUDARuntimeError(fault.status)

    def check(self, device=None):
        """Raise if the current device is broken, as all calls of CUDA do then."""
        device = self.device if device is None else device
        if device in self.broken:
            self.n_refused += 1
            raise CUDARuntimeError(self.broken[device])


def visible_devices():
    """How many devices a process sees that looks now."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return 8 if visible is None else len([entry for entry in visible.split(",") if entry])


machine = Machine(n_devices=visible_devices())


def destroyed(device, of):
    """A stream or an event: with CuPy, a message to standard error where the device is broken.

    It may be one of an earlier test, and is looked up in the machine that it was made on.
    """
    if of is not None:  # as where it was refused
        of.n_destroyed_broken += device in of.broken


class Device:
    def __init__(self, number=0):
        self.id = number
        self._before = []

    def __enter__(self):
        self._before.append(machine.device)
        if self.id >= machine.n_devices:
            self._before.pop()
            raise CUDARuntimeError(101 if machine.n_devices else 100)
        machine.local.device = self.id
        return self

    def __exit__(self, *_):
        before, device = self._before.pop(), machine.device
        machine.local.device = before
        machine.check(device)


class Marker:
    def __init__(self, stream):
        self.stream, self.done = stream, False

    def force(self):
        while not self.done:
            machine.check(self.stream.device)
            self.stream.step()


class Event:
    def __init__(self, block=False, disable_timing=False):
        machine.check()
        self.marker, self.device, self.machine = None, machine.device, machine

    def __del__(self):
        destroyed(getattr(self, "device", 0), getattr(self, "machine", None))

    def record(self, stream=None):
        with machine.lock:
            machine.check()
            stream = stream or machine.stream
            self.marker = marker = Marker(stream)
            stream.add("record", lambda: setattr(marker, "done", True))

    def synchronize(self):
        with machine.lock:
            machine.log.append(("host waits", id(self)))
            machine.check()
            if self.marker is not None:
                self.marker.force()


class Stream:
    def __init__(self, null=False, non_blocking=False):
        machine.check()
        self.ops = deque()
        self.device, self.machine = machine.device, machine
        machine.streams.add(self)
        self._before = []
        machine.streams.add(self)

    def __del__(self):
        destroyed(getattr(self, "device", 0), getattr(self, "machine", None))

    def add(self, kind, work):
        with machine.lock:
            machine.check()
            if kind in CALLS:
                machine.meets(CALLS[kind], self.device)
            machine.log.append((kind, id(self)))
            self.ops.append((kind, work))
            if machine.early and all(kind != "kernel" for kind, _ in self.ops):
                self.run()

    def step(self):
        machine.check(self.device)
        kind, work = self.ops[0]
        machine.meets(kind, self.device)
        if kind in machine.seconds:
            time.sleep(machine.seconds[kind])
        with np.errstate(all="ignore"):  # devices do not warn
            work()
        self.ops.popleft()  # not before: Ctrl-C may come here, and others wait for it
        machine.n_kernels_done += kind == "kernel"

    def run(self):
        while self.ops:
            self.step()

    def wait_event(self, event):
        marker = event.marker
        self.add("wait", lambda: marker.force() if marker is not None else None)

    def record(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def synchronize(self):
        with machine.lock:
            machine.log.append(("host waits", id(self)))
            machine.check()
            self.run()

    def __enter__(self):
        assert self.device == machine.device, "a stream of another device"
        self._before.append(getattr(machine.local, "stream", None))
        machine.local.stream = self
        return self

    def __exit__(self, *_):
        machine.local.stream = self._before.pop()


class Memory:
    def __init__(self, size):
        with machine.lock:
            machine.check()
            machine.meets("alloc", machine.device)
            if machine.limit is not None and machine.live_bytes() + size > machine.limit:
                raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes")
            self.buffer = np.full(size, GARBAGE, dtype=np.uint8)
            self.size, self.device_id = size, machine.device
            self.ptr = self.buffer.ctypes.data
            machine.memory.add(self)
            machine.addresses.append(self.buffer)


class MemoryOfDriver(Memory):
    """Not from the pool: freed with the last reference, which waits for the device."""

    def __del__(self):
        with machine.lock:
            for stream in list(machine.streams):
                stream.run()


class UnownedMemory:
    def __init__(self, ptr, size, owner, device_id=-1):
        self.ptr, self.size, self.owner, self.device_id = ptr, size, owner, device_id
        assert owner is not None


class MemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id


class PinnedMemory(bytearray):
    """Weakly referable."""


def alloc(size):
    return MemoryPointer(Memory(size), 0)


def alloc_pinned_memory(size):
    machine.check()
    machine.meets("pinned", machine.device)
    pinned = PinnedMemory(size)
    machine.pinned.append(weakref.ref(pinned))
    return pinned


@functools.cache
def bytes_type(n_bytes):
    """Kept, as making a class takes longer than most of what is done with its memory."""
    return ctypes.c_ubyte * n_bytes


def n_elements(shape):
    return math.prod(shape) if isinstance(shape, tuple | list) else int(shape)


def _numpy_at(pointer, shape, dtype):
    n, dtype = n_elements(shape), np.dtype(dtype)
    raw = bytes_type(n * dtype.itemsize).from_address(pointer.ptr)
    return np.frombuffer(raw, dtype=dtype, count=n).reshape(shape)


def owner(array):
    """What holds the memory of a NumPy array."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


class ndarray:
    __array_priority__ = 100

    def __init__(self, shape, dtype=float, memptr=None, *, view=None, base=None):
        self.base = base
        if memptr is None:
            memptr = alloc(max(1, n_elements(shape) * np.dtype(dtype).itemsize))
        self.data = memptr
        self.device_id = memptr.device_id
        self.np = _numpy_at(memptr, shape, dtype) if view is None else view

    shape = property(lambda self: self.np.shape)
    dtype = property(lambda self: self.np.dtype)
    ndim = property(lambda self: self.np.ndim)
    size = property(lambda self: self.np.size)
    nbytes = property(lambda self: self.np.nbytes)
    flags = property(lambda self: self.np.flags)
    T = property(lambda self: self._view(self.np.T))

    @property
    def __cuda_array_interface__(self):
        raise NotImplementedError("only asked for whether it is there")

    def __array__(self, *_args, **_kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __len__(self):
        return len(self.np)

    def _view(self, view):
        assert np.may_share_memory(view, self.np) or view.size == 0
        base = self if self.base is None else self.base
        return ndarray(view.shape, view.dtype, self.data, view=view, base=base)

    def _check(self):
        assert self.device_id == machine.device, "an array of another device"

    def set(self, host, stream=None):
        self._check()
        assert isinstance(host, np.ndarray)
        assert host.flags.c_contiguous
        assert (host.shape, host.dtype) == (self.shape, self.dtype)
        if machine.transfers is not None:
            machine.transfers.append(host.nbytes)
        # As on a device, work that is queued keeps no memory alive, or from being used again.
        to, at, holder = self.np, host.ctypes.data, weakref.ref(owner(host))

        def copy():
            n_bytes = to.nbytes
            is_there = holder() is not None
            pixels = ctypes.string_at(at, n_bytes) if is_there else bytes([GARBAGE]) * n_bytes
            to[...] = np.frombuffer(pixels, to.dtype).reshape(to.shape)

        (stream or machine.stream).add("copy", copy)

    def get(self):
        self._check()
        machine.stream.synchronize()
        return self.np.copy()

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        assert not any(isinstance(k, ndarray) for k in keys)
        if any(isinstance(k, np.ndarray) for k in keys):
            return compute(lambda a: a[key], self)
        return self._view(self.np[key])

    def __setitem__(self, key, value):
        assert not (isinstance(value, np.ndarray) and value.ndim), "a NumPy array"
        if isinstance(key, ndarray):
            _queue(lambda to, at, what: to.__setitem__(at, what), self, key, value)
            return
        if isinstance(key, tuple) and isinstance(key[-1], ndarray):
            lead = key[:-1]
            _queue(lambda to, at, what: to.__setitem__((*lead, at), what), self, key[-1], value)
            return
        if isinstance(value, ndarray) and value.np is self.np[key]:
            return
        _queue(lambda to, what: to.__setitem__(key, what), self, value)

    def reshape(self, *shape):
        shape = shape[0] if len(shape) == 1 else shape
        assert self.np.flags.c_contiguous
        return self._view(self.np.reshape(shape))

    def view(self, dtype):
        assert self.np.flags.c_contiguous
        return self._view(self.np.view(dtype))

    def astype(self, dtype, copy=True):
        if not copy and self.dtype == dtype:
            return self
        return compute(lambda a: a.astype(dtype), self)

    def copy(self):
        return compute(np.copy, self)

    def sum(self, axis=None, dtype=None, out=None, **_):
        assert out is None
        return compute(lambda a: a.sum(axis=axis, dtype=dtype), self)

    def max(self, axis=None, out=None, keepdims=False):
        return compute(lambda a: a.max(axis=axis, keepdims=keepdims), self)

    def min(self, axis=None, out=None, keepdims=False):
        return compute(lambda a: a.min(axis=axis, keepdims=keepdims), self)

    def var(self, axis=None, dtype=None):
        assert self.dtype.kind != "c", "not tried with CuPy"

        def var(a):
            # As CuPy: with a dtype, the mean is rounded to that of the numbers.
            mean = a.mean(axis=axis, keepdims=True)
            mean = mean if dtype is None else mean.astype(a.dtype)
            return ((a - mean) ** 2).mean(axis=axis, dtype=dtype)

        return compute(var, self)

    def conj(self):
        return self if self.dtype.kind != "c" else compute(np.conj, self)

    @property
    def real(self):
        return self if self.dtype.kind != "c" else compute(lambda a: a.real.copy(), self)

    @real.setter
    def real(self, value):
        _queue(lambda to, what: setattr(to, "real", what), self, value)

    @property
    def imag(self):
        return compute(lambda a: a.imag.copy(), self)

    @imag.setter
    def imag(self, value):
        _queue(lambda to, what: setattr(to, "imag", what), self, value)

    def __iadd__(self, other):
        _queue(lambda a, b: np.add(a, b, out=a, casting="same_kind"), self, other)
        return self

    def __isub__(self, other):
        _queue(lambda a, b: np.subtract(a, b, out=a, casting="same_kind"), self, other)
        return self

    def __imul__(self, other):
        _queue(lambda a, b: np.multiply(a, b, out=a, casting="same_kind"), self, other)
        return self

    def __itruediv__(self, other):
        _queue(lambda a, b: np.divide(a, b, out=a, casting="same_kind"), self, other)
        return self

    def __add__(self, other):
        return compute(np.add, self, other)

    def __mul__(self, other):
        return compute(np.multiply, self, other)

    def __sub__(self, other):
        return compute(np.subtract, self, other)

    def __rshift__(self, other):
        return compute(np.right_shift, self, other)

    def __and__(self, other):
        return compute(np.bitwise_and, self, other)

    def __neg__(self):
        return compute(np.negative, self)

    def __pow__(self, other):
        return compute(np.power, self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __matmul__(self, other):
        return compute(np.matmul, self, other)


ndarray.__module__ = "cupy"


def _queue(work, *arguments):
    """Queue ``work`` on the NumPy arrays behind the arguments."""
    for argument in arguments:
        if isinstance(argument, ndarray):
            argument._check()
        assert not (isinstance(argument, np.ndarray) and argument.ndim), "a NumPy array"
    bare = [a.np if isinstance(a, ndarray) else a for a in arguments]
    machine.stream.add("kernel", lambda: work(*bare))


def compute(function, *arguments):
    """The result of ``function``, which will be there when the stream gets to it."""
    like = [np.zeros(a.shape, a.dtype) if isinstance(a, ndarray) else a for a in arguments]
    with np.errstate(all="ignore"):
        result = np.asarray(function(*like))
    out = ndarray(result.shape, result.dtype)
    _queue(lambda to, *rest: to.__setitem__(..., function(*rest)), out, *arguments)
    return out


def zeros(shape, dtype=float):
    array = ndarray(shape, dtype)
    _queue(lambda to: to.fill(0), array)
    return array


def arange(stop, dtype=None):
    return asarray(np.arange(stop, dtype=dtype))


def searchsorted(sorted_, values, side="left"):
    return compute(lambda a, b: np.searchsorted(a, b, side), sorted_, values)


def maximum(one, other):
    return compute(np.maximum, one, other)


def log1p(array):
    return compute(np.log1p, array)


def take(array, places, axis=None):
    return compute(lambda a, at: np.take(a, at, axis=axis), array, places)


def conj(array):
    return compute(np.conj, array)


def flip(array, axis=None):
    return array._view(np.flip(array.np, axis))


def roll(array, shift, axis=None):
    return compute(lambda a: np.roll(a, shift, axis), array)


def einsum(subscripts, *operands):
    return compute(lambda *given: np.einsum(subscripts, *given), *operands)


def array(array, dtype=None):
    return array.copy() if isinstance(array, ndarray) else asarray(array, dtype)


def ascontiguousarray(array):
    return array if array.flags.c_contiguous else array.copy()


def asarray(array, dtype=None):
    if isinstance(array, ndarray):
        return array if dtype in (None, array.dtype) else array.astype(dtype)
    host = np.ascontiguousarray(array, dtype=dtype)
    there, source = ndarray(host.shape, host.dtype), host.copy()
    _queue(lambda to: to.__setitem__(..., source), there)
    return there


def device_synchronize():
    with machine.lock:
        broken = machine.broken.get(machine.device)
        if broken is not None:
            raise CUDARuntimeError(broken)
        for stream in list(machine.streams):
            if stream.device == machine.device:
                stream.run()


def mem_get_info():
    machine.check()
    total = 1 << 30 if machine.limit is None else machine.limit
    return total - machine.live_bytes(), total


class Pool:
    def __init__(self, name):
        self.name = name

    def free_all_blocks(self):
        machine.check()
        machine.freed_pools.append((self.name, machine.device))


# --- cupyx.scipy.sparse ---------------------------------------------------------------------


class _Sparse:
    kind = "csr"

    def __init__(self, given, shape=None):
        import scipy.sparse

        make = getattr(scipy.sparse, f"{self.kind}_matrix")
        if isinstance(given, ndarray):
            matrix = make(given.get())
        elif isinstance(given, tuple):
            parts = [part.get() for part in given]
            assert parts[1].dtype == parts[2].dtype == np.int32
            matrix = make(tuple(parts), shape=shape)
        else:
            matrix = make(given)
        if matrix.dtype.char not in "?fdFD":
            raise ValueError(f"Only bool, float and complex, not {matrix.dtype}")
        self.matrix = matrix

    shape = property(lambda self: self.matrix.shape)
    dtype = property(lambda self: self.matrix.dtype)
    nnz = property(lambda self: self.matrix.nnz)
    data = property(lambda self: asarray(self.matrix.data))

    def toarray(self):
        return asarray(self.matrix.toarray())

    def tocsr(self):
        return csr_matrix(self.matrix.tocsr())

    def tocsc(self):
        return csc_matrix(self.matrix.tocsc())

    def tocoo(self):
        return coo_matrix(self.matrix.tocoo())

    def reshape(self, *shape):
        return type(self)(self.matrix.reshape(*shape))

    def view(self, dtype):
        assert self.np.flags.c_contiguous
        return self._view(self.np.view(dtype))

    def astype(self, dtype):
        return type(self)(self.matrix.astype(dtype))

    def __matmul__(self, other):
        assert isinstance(other, ndarray), "another array than CuPy's"
        # In Fortran's order, as cuSPARSE gives products.
        return compute(lambda dense: (self.matrix @ dense).T, other).T

    def dot(self, other):
        return self @ other

    def sum(self, axis=None, dtype=None, out=None):
        return asarray(np.asarray(self.matrix.sum(axis=axis)))

    def __getitem__(self, key):
        assert not any(isinstance(k, ndarray) for k in (key if isinstance(key, tuple) else [key]))
        return type(self)(self.matrix[key])

    def __array__(self, *_args, **_kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


class csr_matrix(_Sparse):
    kind = "csr"


class csc_matrix(_Sparse):
    kind = "csc"


class coo_matrix(_Sparse):
    kind = "coo"


for _class in (csr_matrix, csc_matrix, coo_matrix):
    _class.__module__ = "cupyx.scipy.sparse"


# --- In the place of the real one -----------------------------------------------------------


def install(monkeypatch, n_devices=1, early=False, limit=None, with_cupy=True):
    """Put the stand-in where CuPy would be, with so many devices; returns the machine."""
    global machine
    machine = Machine(early, limit, n_devices)
    import framefold.arrays.cuda.errors as errors
    import framefold.arrays.cuda.staging as staging
    import framefold.utils.devices as devices

    monkeypatch.setattr(devices, "lost", {})
    monkeypatch.setattr(errors, "_told", set())
    monkeypatch.setattr(staging, "_spare", {})
    monkeypatch.setattr(devices, "cuda_ids", lambda: list(range(n_devices)))
    monkeypatch.setattr(devices, "why_no_device", lambda: "" if n_devices else "none in this test")
    if not with_cupy:
        monkeypatch.setattr(devices, "cupy_installed", lambda: False)
        return machine
    for name, module in modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    return machine


def install_for_processes(monkeypatch, folder, n_devices=1):
    """The same for worker processes, too, which find the stand-in in ``folder`` on the path."""
    source = "import sys, fake_cupy\nsys.modules.update(fake_cupy.modules())\n"
    for name in ("cupy", "cupyx"):
        (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(folder)
    return install(monkeypatch, n_devices)


def modules():
    """The modules of the stand-in by name."""
    cupy = types.ModuleType("cupy")
    cupy.cuda = types.ModuleType("cupy.cuda")
    for name in ("Device", "Stream", "Event", "alloc", "alloc_pinned_memory", "UnownedMemory",
                 "MemoryPointer"):  # fmt: skip
        setattr(cupy.cuda, name, globals()[name])
    cupy.cuda.Memory = MemoryOfDriver
    cupy.cuda.get_current_stream = lambda: machine.stream
    cupy.ReductionKernel = fake_cupy_kernels.ReductionKernel
    cupy.ElementwiseKernel = fake_cupy_kernels.ElementwiseKernel
    for name in ("ndarray", "zeros", "asarray", "ascontiguousarray", "arange", "searchsorted",
                 "maximum", "log1p", "take", "conj", "flip", "roll", "einsum",
                 "array"):  # fmt: skip
        setattr(cupy, name, globals()[name])
    pools = Pool("device"), Pool("pinned")
    cupy.get_default_memory_pool = lambda: pools[0]
    cupy.get_default_pinned_memory_pool = lambda: pools[1]
    ffts = {name: getattr(np.fft, name) for name in ("fft2", "rfft2")}
    cupy.fft = types.SimpleNamespace(
        **{name: lambda a, f=f: compute(f, a) for name, f in ffts.items()}
    )
    cupy.empty = ndarray
    cupy.RawKernel = host_decoder.RawKernel
    cupy.ones = lambda shape, dtype=float: asarray(np.ones(shape, dtype))
    cupy.abs = lambda a: compute(np.abs, a)
    sparse = types.ModuleType("cupyx.scipy.sparse")
    sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix = csr_matrix, csc_matrix, coo_matrix
    cupyx, scipy = types.ModuleType("cupyx"), types.ModuleType("cupyx.scipy")
    cupyx.scipy, scipy.sparse = scipy, sparse
    cupy.cuda.runtime = types.ModuleType("cupy.cuda.runtime")
    cupy.cuda.runtime.deviceSynchronize = device_synchronize
    cupy.cuda.runtime.memGetInfo = mem_get_info
    cupy.cuda.runtime.getDeviceProperties = lambda _device: {"name": b"a stand-in"}
    cupy.cuda.runtime.CUDARuntimeError = CUDARuntimeError
    cupy.cuda.memory = types.ModuleType("cupy.cuda.memory")
    cupy.cuda.memory.OutOfMemoryError = OutOfMemoryError
    backends = [types.ModuleType("cupy_backends")]
    for name in ("cuda", "api", "runtime"):
        backends.append(types.ModuleType(f"{backends[-1].__name__}.{name}"))
        setattr(backends[-2], name, backends[-1])
    backends[-1].CUDARuntimeError = CUDARuntimeError
    made = cupy, cupy.cuda, cupy.cuda.runtime, cupy.cuda.memory, cupyx, scipy, sparse, *backends
    return {module.__name__: module for module in made}
