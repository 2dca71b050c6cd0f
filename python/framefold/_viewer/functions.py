"""Functions of the session as channels of the viewer."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold.exceptions import ArgumentTypeError, InvalidArgumentError
from framefold.run.inspecting import UDFRunner
from framefold.udf.base import UDF

if TYPE_CHECKING:
    from framefold.api import Context
    from framefold.common.buffers import BufferWrapper
    from framefold.io.dataset.base import DataSet
    from framefold.run.steps import ResultGenerator

#: Of a buffer with more entries for each position or pixel, so many are channels.
MOST_ENTRIES = 16

#: Names of planes, shape, values, and which part of the frames is in them.
Picture = tuple[list[str], list[int], npt.NDArray[np.float64], float]


class Channel(NamedTuple):
    """A picture that a function makes."""

    buffer: str
    kind: str
    #: Which of several entries; None if there is one.
    entry: int | None

    @property
    def name(self) -> str:
        """What clients call it."""
        return self.buffer if self.entry is None else f"{self.buffer}[{self.entry}]"


class Functions:
    """What the engine asks for: which functions there are, and runs of them.

    Parameters
    ----------
    context
        Where they run.
    dataset
        What they run over.
    udfs
        Functions by the names that clients see.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If there is another thing among them, or one that makes no picture.
    """

    def __init__(self, context: Context, dataset: DataSet, udfs: Mapping[str, UDF]) -> None:
        if not isinstance(udfs, Mapping):
            raise ArgumentTypeError(
                f"udfs is a {type(udfs).__name__}; pass a dict such as {{'sum': ff.SumUDF()}}"
            )
        for name, udf in udfs.items():
            if not isinstance(name, str) or not isinstance(udf, UDF):
                raise ArgumentTypeError(
                    f"udfs has {name!r}: {type(udf).__name__}; pass a dict of names and UDFs"
                )
        self._context = context
        self._udfs = dict(udfs)
        self._bind(dataset)
        for name, channels in self._channels.items():
            if not channels:
                raise InvalidArgumentError(
                    f"the function {name!r} has no result that is a picture: a buffer of kind "
                    f"'sig', or of kind 'nav' over a scan of one or two axes, with at most "
                    f"{MOST_ENTRIES} numbers for each pixel or position"
                )

    def over(self, dataset: DataSet) -> Functions:
        """The same functions over another data set; those that fail there make no picture of it."""
        other = copy(self)
        other._bind(dataset, may_fail=True)
        return other

    def _bind(self, dataset: DataSet, *, may_fail: bool = False) -> None:
        self._dataset = dataset
        self._channels: dict[str, dict[str, Channel]] = {}
        for name, udf in self._udfs.items():
            try:
                found = list(_channels(UDFRunner.inspect_udf(udf, dataset), dataset))
            except Exception:  # such as for AUX data of another shape
                if not may_fail:
                    raise
                found = []
            self._channels[name] = {channel.name: channel for channel in found}

    def describe(self) -> list[tuple[str, list[str], list[str]]]:
        """For each function its name, and those of its pictures of the scan and of frames."""
        return [
            (
                name,
                [c.name for c in channels.values() if c.kind == "nav"],
                [c.name for c in channels.values() if c.kind == "sig"],
            )
            for name, channels in self._channels.items()
            if channels
        ]

    def begin(self, name: str) -> ResultGenerator:
        """A run that has not begun."""
        return self._context.run_udf_iter(dataset=self._dataset, udf=self._udfs[name])

    def picture(self, run: ResultGenerator, name: str, channel: str) -> Picture:
        """A picture of what there is so far; NaN where that is nothing."""
        results = run.results_so_far()
        merged = np.asarray(results.damage.data)
        buffer, kind, entry = self._channels[name][channel]
        shape = self._dataset.shape.nav if kind == "nav" else self._dataset.shape.sig
        result = results.buffers[0][buffer]
        values, valid = (
            each.reshape((*shape, -1))[..., entry or 0] for each in (result.data, result.valid_mask)
        )
        values = np.abs(values) if np.iscomplexobj(values) else values
        values = values.astype(np.float64)
        values[~valid] = np.nan
        done = float(merged.mean()) if merged.size else 1.0
        return ["value"], [int(n) for n in shape], values.reshape(-1), done


def _channels(buffers: Mapping[str, BufferWrapper], dataset: DataSet) -> list[Channel]:
    found = []
    for name, buffer in buffers.items():
        n_entries = int(np.prod(buffer.extra_shape, dtype=np.int64))
        is_shown = buffer.kind == "sig" or (
            buffer.kind == "nav" and 1 <= len(dataset.shape.nav) <= 2
        )
        if not is_shown or buffer.use == "private" or not 1 <= n_entries <= MOST_ENTRIES:
            continue
        if not _is_numeric(buffer.dtype):
            continue
        several = tuple(buffer.extra_shape) not in ((), (1,))
        entries: list[int | None] = [*range(n_entries)] if several else [None]
        found += [Channel(name, buffer.kind, entry) for entry in entries]
    return found


def _is_numeric(dtype: Any) -> bool:
    return np.dtype(dtype).kind in "biufc"
