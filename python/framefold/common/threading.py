"""How many threads libraries may use."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

__all__ = ["Limit", "allowed_threads", "set_num_threads"]

_allowed = threading.local()


def allowed_threads() -> int:
    """How many threads user code on this thread may use by itself: 1, if nothing else is said."""
    number: int = getattr(_allowed, "number", 1)
    return number


def set_num_threads(n: int) -> AbstractContextManager[None]:
    """So many threads for libraries while it is entered: ``with set_num_threads(4): …``."""
    return Limit(n).active()


class Limit:
    """A number of threads, for user code and the libraries that it calls.

    Those that :mod:`threadpoolctl` knows, if it is installed, such as BLAS and OpenMP; Numba and
    pyFFTW, if they are imported when it is entered.

    Parameters
    ----------
    number
        How many.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._pools: Any = None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Set it; what was set before is set again afterwards."""
        before = _allowed.__dict__.copy()
        _allowed.number = self.number
        try:
            with ExitStack() as undone:
                self._limit(undone)
                yield
        finally:
            _allowed.__dict__.clear()
            _allowed.__dict__.update(before)

    def close(self) -> None:
        """Do nothing: there is nothing to be released."""

    def _limit(self, undone: ExitStack) -> None:
        if self._pools is None:
            try:
                from threadpoolctl import ThreadpoolController
            except ImportError:
                self._pools = False
            else:
                self._pools = ThreadpoolController()
        if self._pools:
            undone.enter_context(self._pools.limit(limits=self.number))
        numba = sys.modules.get("numba")
        if numba is not None:
            undone.callback(numba.set_num_threads, numba.get_num_threads())
            numba.set_num_threads(min(self.number, numba.config.NUMBA_NUM_THREADS))
        pyfftw = sys.modules.get("pyfftw")
        if pyfftw is not None:
            undone.callback(setattr, pyfftw.config, "NUM_THREADS", pyfftw.config.NUM_THREADS)
            pyfftw.config.NUM_THREADS = self.number
