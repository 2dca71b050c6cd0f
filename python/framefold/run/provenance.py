"""What a run is, in words: where its results are from, and whether another run is the same."""

from __future__ import annotations

import base64
import datetime
import json
import platform
import zlib
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from framefold import _engine
from framefold.common._paths import as_words
from framefold.exceptions import UnsupportedError
from framefold.run.described import described, digest, shown
from framefold.udf.base import UDF

if TYPE_CHECKING:
    from framefold.run.plan import Run


def provenance(run: Run) -> dict[str, Any]:
    """Where the results of a run are from: texts and lists of texts, as attributes of a file."""
    dataset, selected = run.dataset, run.plan.n_selected
    positions = dataset.shape.nav.size
    roi = "all positions"
    if run.roi is not None:
        roi = f"{selected} of {positions} positions, {digest(np.packbits(run.roi).tobytes())}"
    about = {
        "creator": f"framefold {_engine.__version__}",
        "numpy": np.__version__,
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "data_set": [as_words(path) for path in dataset.paths] or ["memory"],
        "data_set_format": dataset.format,
        "data_set_shape": str(tuple(dataset.shape)),
        "data_set_dtype": str(dataset.dtype),
        "roi": roi,
    }
    if dataset._changes:
        about["data_set_changes"] = [f"{name}: {shown(what)}" for name, what in dataset._changes]
    if run.corrections is not None and run.corrections.have_corrections():
        about["corrections"] = shown(run.corrections.__getstate__())
    return about


def of_udf(udf: UDF) -> dict[str, Any]:
    """What a UDF is: its class, and its parameters as a JSON object of texts."""
    parameters = {name: shown(value) for name, value in udf._kwargs.items()}
    return {
        "udf": f"{type(udf).__module__}.{type(udf).__qualname__}",
        "parameters": json.dumps(parameters, ensure_ascii=False),
    }


def identity(run: Run) -> dict[str, str]:
    """What has to be the same of two runs for the same results, bit for bit, part by part.

    Raises
    ------
    UnsupportedError
        If something of it cannot be compared; names it.
    """
    dataset, corrected = run.dataset, run.corrections
    frames = zlib.crc32(np.fromiter(chain.from_iterable(run.partitions), "<u8").tobytes())
    parts = {
        "version of framefold": _engine.__version__,
        "version of NumPy": np.__version__,
        "version of Python": platform.python_version(),
        "data set": described((dataset.format, tuple(dataset.shape), dataset._opened_with)),
        "class of the data set": _compared("class of the data set", type(dataset)),
        "changes of the data set": _compared("changes of the data set", dataset._changes),
        "ROI": described(run.roi),
        "corrections": described(corrected and corrected.__getstate__()),
        "plan": f"{digest(run.plan.explain().encode())}, frames {frames:08x}",
    }
    for number, udf in enumerate(run.udfs):
        name = type(udf).__name__ + (f" (number {number})" if len(run.udfs) > 1 else "")
        parts[f"code of {name}"] = _compared(f"code of {name}", type(udf))
        for key, value in udf._kwargs.items():
            what = f"parameter {key!r} of {name}"
            parts[what] = _compared(what, value)
    return parts


def stamps(run: Run) -> str:
    """What the files of the data set are, for :func:`check_files`."""
    return base64.b64encode(run.dataset._engine.stamps).decode()


def check_files(run: Run, known: str) -> None:
    """Compare the files of the data set with those that :func:`stamps` described.

    Raises
    ------
    BadFileError
        If one is another file, or was written to; names it.
    """
    run.dataset._engine.check_same_since(base64.b64decode(known))


def _compared(what: str, value: Any) -> str:
    """A value as text; if it cannot be compared, says what it is."""
    try:
        return described(value)
    except UnsupportedError as error:
        raise UnsupportedError(
            f"the {what} cannot be compared with that of another run: {error}"
        ) from None
