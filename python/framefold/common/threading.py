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
#: Keeps what undoes something.
Keep = Callable[[Callable[[], Any]], Any]


class OfProcess:
    """A number that the whole process has, and that several who come and go set.

    That of the last one to come counts. What was set before all of them is set again when none is
    left.

    It is set through something, such as the module that has it: ``through``. They may know of
    different libraries, so what each one finds first is kept.
    """

    def __init__(self) -> None:
        # The collector may end one of them on a thread that is just here.
        self._lock = threading.RLock()
        #: What sets the numbers of those that have not ended, the last of which counts.
        self._entered: list[Callable[[], Any]] = []
        self._undo: dict[Any, Callable[[], Any]] = {}

    def enter(self, through: Any, set_number: Callable[[Keep], Any], undone: ExitStack) -> None:
        """Set a number until ``undone``.

        ``set_number`` is called with what keeps a function that sets the number before again.
        """
        set_it = partial(set_number, partial(self._undo.setdefault, through))
        with self._lock:
            self._entered.append(set_it)
            undone.callback(self._leave, set_it)
            set_it()

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
            libraries = tuple(each["filepath"] for each in pools.info())
            _POOLS.enter(libraries, partial(_set_pools, pools, self.number), undone)
            undone.enter_context(pools.limit(limits=self.number))  # for OpenMP, of each thread
        numba = sys.modules.get("numba")
        if numba is not None:
            undone.callback(numba.set_num_threads, numba.get_num_threads())
            numba.set_num_threads(min(self.number, numba.config.NUMBA_NUM_THREADS))
        pyfftw = sys.modules.get("pyfftw")
        if pyfftw is not None:
            _PYFFTW.enter("pyfftw", partial(_set_pyfftw, pyfftw.config, self.number), undone)


def _set_pyfftw(config: Any, number: int, keep: Keep) -> None:
    keep(partial(setattr, config, "NUM_THREADS", config.NUM_THREADS))
    config.NUM_THREADS = number


def _set_pools(pools: Any, number: int, keep: Keep) -> None:
    def limit() -> None:
        keep(partial(_on_a_thread, pools.limit(limits=number).restore_original_limits))

    _on_a_thread(limit)


def _on_a_thread(call: Callable[[], Any]) -> None:
    """Call a function on a thread that ends then, and wait for it, after Ctrl-C, too.

    While a thread that has set a number of BLAS goes on, threadpoolctl lets no other one set it.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends
        call()
        return
    try:
        thread.join()
    except BaseException:
        thread.join()
        raise
    if raised:
        raise raised[0]
