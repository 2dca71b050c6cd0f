"""How many threads libraries may use."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

__all__ = ["Limit", "allowed_threads", "set_num_threads"]

_allowed = threading.local()


class OfProcess:
    """A number that the whole process has, and that several who come and go set.

    That of the last one to come counts. What was set before all of them is set again when none is
    left.

    It is set through something, such as the module that has it: ``through``. They may know of
    different libraries, so what each one finds first is kept.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: What sets the numbers of those that have not ended, the last of which counts.
        self._entered: list[Callable[[], Any]] = []
        self._undo: dict[Any, Callable[[], Any]] = {}

    def enter(
        self, through: Any, set_number: Callable[[], Callable[[], Any]], undone: ExitStack
    ) -> None:
        """Set a number until ``undone``. ``set_number`` gives what sets the one before again."""
        with self._lock:
            self._undo.setdefault(through, set_number())
            self._entered.append(set_number)
        undone.callback(self._leave, set_number)

    def _leave(self, set_number: Callable[[], Any]) -> None:
        with self._lock:
            self._entered.remove(set_number)
            if self._entered:
                self._entered[-1]()
            else:
                while self._undo:
                    self._undo.popitem()[1]()  # the first one last


_POOLS, _PYFFTW = OfProcess(), OfProcess()


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
            pools = self._pools
            _POOLS.enter(pools, lambda: _set_pools(pools, self.number), undone)
            undone.enter_context(pools.limit(limits=self.number))  # for OpenMP, of each thread
        numba = sys.modules.get("numba")
        if numba is not None:
            undone.callback(numba.set_num_threads, numba.get_num_threads())
            numba.set_num_threads(min(self.number, numba.config.NUMBA_NUM_THREADS))
        pyfftw = sys.modules.get("pyfftw")
        if pyfftw is not None:
            config = pyfftw.config
            _PYFFTW.enter("pyfftw", lambda: _set_pyfftw(config, self.number), undone)


def _set_pyfftw(config: Any, number: int) -> Callable[[], Any]:
    undo = partial(setattr, config, "NUM_THREADS", config.NUM_THREADS)
    config.NUM_THREADS = number
    return undo


def _set_pools(pools: Any, number: int) -> Callable[[], Any]:
    limited = _on_a_thread(lambda: pools.limit(limits=number))
    return lambda: _on_a_thread(limited.restore_original_limits)


def _on_a_thread(call: Callable[[], Any]) -> Any:
    """What a function returns on a thread that ends then.

    While a thread that has set a number of BLAS goes on, threadpoolctl lets no other one set it.
    """
    returned: list[Any] = []
    thread = threading.Thread(target=lambda: returned.append(call()))
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends
        return call()
    thread.join()
    return returned[0]
