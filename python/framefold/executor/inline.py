"""Everything on the calling thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from framefold.common.threading import Limit
from framefold.exceptions import InvalidArgumentError
from framefold.executor.base import JobExecutor, Place, check_main_process_gpu, checked_gpus

if TYPE_CHECKING:
    from framefold.run.plan import Run


class InlineJobExecutor(JobExecutor):
    """Processes one partition after the other on the calling thread: for debugging.

    Parameters
    ----------
    debug
        Of no effect: UDFs are checked by every executor that has to pickle them.
    inline_threads
        How many threads UDFs may use by themselves, as ``meta.threads_per_worker`` tells them, and
        how many libraries use that they call, as far as :class:`framefold.common.threading.Limit`
        can tell these. Libraries keep what they have if None.
    main_process_gpu
        Accepted and of no effect: partial results are merged on the CPU.
    gpus
        Whether, or on which CUDA device UDFs run that take arrays of CUDA: a number of devices,
        or a list of them, of which the first is used. On the first there is if None.
    """

    threads = 0

    def __init__(
        self,
        debug: bool = False,
        inline_threads: int | None = None,
        main_process_gpu: int | bool | None = None,
        *,
        gpus: int | Iterable[int] | None = None,
    ) -> None:
        check_main_process_gpu(main_process_gpu)
        if inline_threads is not None and inline_threads < 1:
            raise InvalidArgumentError(f"inline_threads is {inline_threads}; use 1 or more")
        self.gpus = checked_gpus(gpus)
        self._limit = None if inline_threads is None else Limit(inline_threads)

    def places(self, run: Run) -> list[Place]:
        """The device, and how many threads libraries may use."""
        places: list[Place] = [run.place(run.devices[0], on_one_thread=True)] if run.devices else []
        return places if self._limit is None else [_Both(self._limit, places)]


class _Both(NamedTuple):
    """A number of threads, and the device, if there is one."""

    limit: Limit
    places: list[Place]

    @property
    def device(self) -> int | None:
        return self.places[0].device if self.places else None

    @contextmanager
    def active(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(self.limit.active())
            for place in self.places:
                stack.enter_context(place.active())
            yield

    def close(self) -> None:
        for place in self.places:
            place.close()
