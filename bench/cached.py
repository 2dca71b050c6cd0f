"""Data larger than the cache that lie in it all the same: the same memory, mapped again and again.

What a loop takes there is its arithmetic; what it takes more elsewhere is waiting for memory. On
Linux only.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import numpy as np

MAP_FIXED, MAP_POPULATE = 0x10, 0x8000


def again(block: Any, times: int) -> Any:
    """An array of ``times`` times ``block``, which is in memory once; it is never unmapped."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]

    def mapped(where: int | None, size: int, protection: int, flags: int, file: int) -> int:
        address = libc.mmap(where, size, protection, flags, file, 0)
        if address in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), "cannot map memory")
        return int(address)

    size = block.nbytes
    if size % mmap.PAGESIZE:
        raise ValueError(f"a block of {size} bytes is not one of whole pages")
    file = os.memfd_create("block")
    try:
        with open(file, "wb", closefd=False) as stream:
            stream.write(block.tobytes())
        # Addresses in a row that nothing else has.
        start = mapped(None, size * times, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
        for number in range(times):
            flags = mmap.MAP_SHARED | MAP_FIXED | MAP_POPULATE
            mapped(start + number * size, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, file)
    finally:
        os.close(file)
    buffer = (ctypes.c_char * (size * times)).from_address(start)
    return np.frombuffer(buffer, block.dtype).reshape(times, *block.shape)
