"""Everything on the calling thread."""

from __future__ import annotations

from collections.abc import Iterable

from framefold.executor.base import JobExecutor, checked_gpus, refuse_main_process_gpu


class InlineJobExecutor(JobExecutor):
    """Processes one partition after the other on the calling thread: for debugging.

    Parameters
    ----------
    debug, inline_threads
        Of no effect: UDFs are checked by every executor that has to pickle them, and libraries
        keep the number of threads that they have.
    main_process_gpu
        Only None or False: partial results are merged on the CPU.
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
        refuse_main_process_gpu(main_process_gpu)
        self.gpus = checked_gpus(gpus)
