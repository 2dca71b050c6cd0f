"""Everything on the calling thread."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from framefold.common.threading import Limit
from framefold.exceptions import InvalidArgumentError
from framefold.executor.base import (
    JobExecutor,
    Partials,
    check_main_process_gpu,
    checked_gpus,
)

if TYPE_CHECKING:
    from framefold._planning import Run


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

    def has_own_loop(self, run: Run) -> bool:
        """Whether libraries are told how many threads to use."""
        return self._limit is not None and any(bridge is not None for bridge in run.bridges)

    def partials(self, run: Run) -> Partials | None:
        """Partial results with a number of threads for libraries; None for the engine's loop."""
        return self._limited(run) if self.has_own_loop(run) else None

    def _limited(self, run: Run) -> Partials:
        assert self._limit is not None
        with ExitStack() as places:
            entered: list[Any] = [self._limit]
            if run.devices:
                entered += [places.enter_context(closing(place)) for place in run.places()][:1]
            for index in range(run.plan.n_partitions):
                with ExitStack() as active:
                    for place in entered:
                        active.enter_context(place.active())
                    partial = run.plan.run_partition(index)
                yield partial, 0
