"""Loads the frames of a data set into the memory of a device: an ordinary run that keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from framefold.arrays.cuda.placement import INSTALL, Workers, find_workers, picked
from framefold.arrays.cuda.resident import Resident
from framefold.common._integers import whole
from framefold.common._roi import roi_mask
from framefold.common.buffers import BufferDeclaration
from framefold.common.udf import CUPY
from framefold.exceptions import InvalidArgumentError, MissingLibraryError, UnsupportedError
from framefold.io.corrections.corrset import CorrectionSet
from framefold.run.plan import Run, plan_run
from framefold.run.progress import RunProgress, progress_reporter
from framefold.run.steps import ResultGenerator
from framefold.udf.base import UDF
from framefold.utils import devices as system

if TYPE_CHECKING:
    import numpy.typing as npt

    from framefold.arrays.cuda.worker import CpuWorker, DeviceWorker
    from framefold.io.dataset.base import DataSet


def load(dataset: DataSet, device: int | None, roi: Any, budget: int | None, progress: Any) -> Any:
    """See :meth:`framefold.io.dataset.base.DataSet.to_device`."""
    reporter = progress_reporter(progress)
    budget = None if budget is None else whole("budget", budget, 0)
    device = _chosen(device)
    source = dataset._plain()
    if source._engine.layout == "csr":
        raise UnsupportedError(
            f"{source._name}: its frames are sparse, and resident frames are dense arrays; write a "
            f"dense copy with Context.export_dataset, and open that, or run without to_device()"
        )
    are_corrected = dataset.resident is not None and dataset.resident.are_corrected
    if source.get_correction_data().have_corrections():
        # What corrections make of frames is resident, so that there are none left to apply.
        source, are_corrected = source.pipe(CorrectionSet()), True
    mask = roi_mask(roi, tuple(source.shape.nav))
    n_frames = source.shape.nav.size if mask is None else int(np.count_nonzero(mask))
    shape = n_frames, *source.shape.sig
    resident = Resident(source._name, device, shape, source.dtype, mask, budget, are_corrected)
    try:
        workers = Workers(cpus=False, devices=(device,))
        run = plan_run(source, _Keeping(resident), mask, None, None, None, lambda _: workers)
        run.executor = _Places()  # type: ignore[assignment]
        with ResultGenerator(run, RunProgress(reporter, run.partitions)) as steps:
            steps.run_to_end()
    except BaseException:
        resident.close()
        raise
    return source._with_resident(resident)


def _chosen(device: int | None) -> int:
    """The device to use: the one that runs use first, if none is named.

    Raises
    ------
    InvalidArgumentError
        If there is no such device, or ``device`` is no number.
    MissingLibraryError, UnsupportedError
        If there is no CuPy, or no device at all.
    """
    if device is None:
        workers = find_workers([(CUPY,)])
        if not workers.devices:
            raise UnsupportedError(
                f"frames cannot be brought to a CUDA device: {workers.why_none}; run over the data "
                f"set as it is"
            )
        return workers.devices[0]
    if isinstance(device, bool):  # True would be device 1
        raise InvalidArgumentError(
            f"device={device} is not the number of a CUDA device, as 0 is; leave it out to use the "
            f"one that runs use first"
        )
    (found,) = picked(system.cuda_ids(), (whole("device", device, 0),))
    if not system.has_cupy():
        raise MissingLibraryError(f"to_device() needs CuPy, which cannot be imported; {INSTALL}")
    return found


class _Keeping(UDF):
    """Writes tiles to where they stay."""

    def __init__(self, resident: Resident) -> None:
        super().__init__(resident=resident)

    def get_backends(self) -> tuple[str, ...]:
        """Dense arrays of CuPy."""
        return (self.BACKEND_CUPY,)

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The dtype of the data."""
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """None."""
        return {}

    def process_tile(self, tile: Any) -> None:
        """Copy."""
        part = self.meta.slice
        assert part is not None
        self.params.resident.array[part.get()] = tile

    def postprocess(self) -> None:
        """Wait until all is there, for the streams of others: errors show here."""
        self.xp.cuda.get_current_stream().synchronize()


class _Places:
    """An executor, as far as runs need one: the device, on a thread of its own."""

    def crew(self, run: Run) -> None:
        """The engine's threads alone."""

    def places(self, run: Run) -> list[DeviceWorker | CpuWorker]:
        """The device."""
        return run.places()
