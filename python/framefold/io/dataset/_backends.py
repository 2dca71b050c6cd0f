"""The reference's classes for ways to read files, as values of ``io_backend``."""

from __future__ import annotations

from typing import ClassVar


class IOBackend:
    """A way to read files; :class:`MMapBackend` or :class:`BufferedBackend`."""

    #: The engine's name for it.
    name: ClassVar[str]


class MMapBackend(IOBackend):
    """Files are mapped into memory: ``io_backend="mmap"``.

    ``enable_readahead_hints`` is of no effect.
    """

    name = "mmap"

    def __init__(self, enable_readahead_hints: bool = False) -> None:
        self.enable_readahead_hints = enable_readahead_hints


class BufferedBackend(IOBackend):
    """Files are read piece by piece: ``io_backend="buffered"``.

    ``max_buffer_size`` is of no effect.
    """

    name = "buffered"

    def __init__(self, max_buffer_size: int = 16 << 20) -> None:
        self.max_buffer_size = max_buffer_size


class DirectBackend(BufferedBackend):
    """The same as :class:`BufferedBackend`: the cache of the system is not passed by."""
