"""A run in the form in which it goes to Dask workers."""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framefold import _engine
from framefold.executor._dask.buffers import machine
from framefold.executor._dask.feed import Shipment
from framefold.executor._dask.work import ShippedRun
from framefold.executor._tasks import POLL
from framefold.executor._wire import datasets, failures, pickles, runs
from framefold.run.plan import Run
from framefold.udf.base import UDF

if TYPE_CHECKING:
    from distributed import Client

    from framefold.io.dataset.base import DataSet

#: Of framefold; workers need the same.
VERSION = _engine.__version__


def ship(run: Run) -> Shipment:
    """A run as it is sent to workers.

    Raises
    ------
    InvalidArgumentError
        If something of it cannot be pickled; names it.
    """
    number = uuid.uuid4().hex[:12]
    contents = runs.contents(run)
    try:
        dataset, _ = pickles.dumps_by_value(datasets.sent(contents.pop("dataset")), share=False)
        rest, _ = pickles.dumps_by_value(contents, share=False)
    except MemoryError:
        raise
    except Exception as error:
        raise failures.cannot_be_sent(list(run.udfs), run.dataset, error) from error
    fingerprint = runs.fingerprint(run)
    checksum, here = runs.checksum(fingerprint), machine()
    shipped = ShippedRun(number, VERSION, dataset, rest, runs.environment(), checksum, here)
    data = pickle.dumps(shipped, 5)
    return Shipment(number, data, VERSION, fingerprint, runs.names(run))


def wait_for_held(dataset: DataSet, client: Client, check: Callable[[], None]) -> None:
    """Wait for what the cluster computes for a data set: workers would wait for themselves.

    Raises
    ------
    InvalidArgumentError
        If another cluster does so.
    """
    futures = dataset._held
    if not futures:
        return
    schedulers = {future.client.scheduler.address for future in futures}
    scheduler: Any = client.scheduler
    if schedulers != {scheduler.address}:
        raise failures.held_elsewhere()
    # Dask's own function for that asks the default client, which may be another or none.
    while not all(future.done() for future in futures):
        check()
        time.sleep(POLL)
    for future in futures:
        if future.status != "finished":
            future.result()  # which says why


def udfs_of(run: Run) -> list[UDF | None]:
    """The UDFs of a run as they are now; None for native kernels."""
    return [None if bridge is None else bridge.udf for bridge in run.bridges]


def ship_changes(udfs: list[UDF | None], known: list[UDF | None]) -> bytes | None:
    """Parameters that were changed as they are sent to workers; None if the workers know them.

    Raises
    ------
    InvalidArgumentError
        As :func:`ship`.
    """
    if all(udf is before for udf, before in zip(udfs, known, strict=True)):
        return None
    recipes = [None if udf is None else runs.recipe(udf) for udf in udfs]
    try:
        data, _ = pickles.dumps_by_value(recipes, share=False)
    except Exception as error:
        asked = [udf for udf in udfs if udf is not None]
        raise failures.cannot_be_sent(asked, None, error) from error
    return data
