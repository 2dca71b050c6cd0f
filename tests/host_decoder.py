"""The kernel that decodes chunks on devices, compiled for the host."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path

import numpy as np

#: None where there is no compiler.
COMPILER = shutil.which("cc")
HERE = Path(__file__).parent


@cache
def folder():
    return tempfile.TemporaryDirectory(prefix="framefold-decoder-")


_one_at_a_time = threading.Lock()


def library(size, **what):
    """The path of the compiled kernel for elements of ``size`` bytes."""
    with _one_at_a_time:
        return _library(size, **what)


@cache
def _library(size, *, descending=False, source=None, options=()):
    from framefold.arrays.cuda import decoding

    path = Path(folder().name) / f"decoder-{size}-{descending}-{hash((source, options))}.so"
    text = path.with_suffix(".cu")
    text.write_text(source or decoding.source())
    order = ["-DDESCENDING"] if descending else []
    defined = [f"-DSIZE={size}", f'-DKERNEL_SOURCE="{text}"', *order]
    strict = ["-Wall", "-Wextra", "-Werror"]
    made = ["-shared", "-fPIC", HERE / "decoder_on_host.c", "-o", path]
    subprocess.run([COMPILER, "-O1", *strict, *defined, *options, *made], check=True)
    return path


@cache
def loaded(path):
    """Kept, as making the object takes longer than most of what it is called for."""
    return ctypes.CDLL(path)


def run(path, n_rows, shared_mem, arguments):
    """Launch it; arrays are given by their addresses."""
    kinds = {8: ctypes.c_uint64, 4: ctypes.c_uint32}
    given = [
        kinds[argument.dtype.itemsize](int(argument))
        if isinstance(argument, np.generic)
        else ctypes.c_void_p(argument)
        for argument in arguments
    ]
    loaded(path).decode_all(ctypes.c_uint32(n_rows), ctypes.c_uint32(shared_mem), *given)


class RawKernel:
    """As CuPy's, of the one kernel that there is; for the stand-in for CuPy."""

    def __init__(self, code, name, options=()):
        (option,) = options
        assert name == "decode"
        assert option.startswith("-DSIZE=")
        self.code, self.size = code, int(option.removeprefix("-DSIZE="))

    def __call__(self, grid, block, args, *, shared_mem=0):
        import fake_cupy

        assert len(grid) == 1
        assert 0 < grid[0] < 2**31
        assert block == (32,)
        assert shared_mem <= 48 << 10
        bare = []
        for argument in args:
            if isinstance(argument, fake_cupy.ndarray):
                argument._check()
                assert argument.flags.c_contiguous
                argument = argument.np.ctypes.data
            else:
                assert isinstance(argument, np.uint32 | np.uint64)
            bare.append(argument)
        machine = fake_cupy.machine
        path = library(self.size, descending=machine.early, source=self.code)
        machine.stream.add("kernel", lambda: run(path, grid[0], shared_mem, bare))
