"""What a worker process has to know of a run, and what it makes of it."""

from __future__ import annotations

import contextlib
import pickle
import sys
import zlib
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from framefold import _engine
from framefold.common._paths import absolute
from framefold.common._roi import packed_roi
from framefold.exceptions import UnsupportedError
from framefold.executor._wire import code
from framefold.executor._wire.code import packed
from framefold.executor._wire.failures import cannot_be_sent
from framefold.run.plan import Run, plan_run
from framefold.udf.engine.changes import Version, Versions

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet
    from framefold.udf.base import UDF
    from framefold.udf.engine.bridge import Bridge

#: Of framefold, where runs are sent from.
VERSION = _engine.__version__

T = TypeVar("T")

#: For each UDF what its copies are made of by their first frames; None for no changes.
Changes = Sequence[Sequence[Version] | None]
#: The same, as it is sent.
Recipes = list[list[tuple[int, Any]] | None]


def ship(run: Run, dataset: Any, pack: Callable[[dict[str, Any]], T]) -> T:
    """A run as it is sent elsewhere, where :func:`plan` takes it.

    Parameters
    ----------
    dataset
        What to send of its data set.
    pack
        Pickles it.

    Raises
    ------
    InvalidArgumentError
        If something of it cannot be pickled; names it.
    UnsupportedError
        If it uses frames in the memory of a device, which are nowhere else.
    """
    if run.dataset.resident is not None:
        raise UnsupportedError(
            f"{run.dataset._name}: its frames are in memory of this process, on CUDA device "
            f"{run.dataset.resident.device}, which other processes do not see; use "
            f"make_with('threads'), or the data set that it was made from"
        )
    versions = [
        Version(0, udf, aux, {}) if bridge is None else bridge.versions[0]
        for udf, aux, bridge in zip(run.udfs, run.kernel_aux, run.own_bridges, strict=True)
    ]
    # The parameters of a run that has begun can have changed.
    changes = [None if bridge is None else bridge.versions[1:] for bridge in run.own_bridges]
    try:
        main_states = [
            None
            if bridge is None or bridge.main_state is None
            else bridge.main_state.for_others(version.udf)
            for version, bridge in zip(versions, run.own_bridges, strict=True)
        ]
        held: dict[int, Any] = {}
        contents = {
            "dataset": dataset,
            "udfs": [recipe(version, held) for version in versions],
            "roi": packed_roi(run.roi),
            "corrections": run.corrections,
            "backends": run.backends,
            "cuts": run.cuts,
            "to_sink": run.to_sink,
            "workers": run.workers,
            "orders": [None if b is None else list(b.declared) for b in run.own_bridges],
            "main_states": main_states,
            "changes": _recipes(changes, held),
        }
        return pack(contents)
    except (MemoryError, OSError):
        raise
    except Exception as error:
        raise cannot_be_sent(list(run.udfs), dataset, error) from error


class Shipment(NamedTuple):
    """A run as one value, with what its plan has to be."""

    #: Of framefold, where the run was sent from; it has to be the same where it is planned.
    version: str
    #: Where modules are found there.
    environment: tuple[list[str], bool]
    fingerprint: str
    #: Pickles of the data set, and of what else :func:`plan` takes.
    dataset: bytes
    rest: bytes

    @classmethod
    def of(cls, run: Run, dataset: Any, rest: bytes | None = None) -> Shipment:
        """What to send of a run, as :func:`ship`; ``rest`` if that is pickled already."""

        def pack(contents: dict[str, Any]) -> tuple[bytes, bytes]:
            return packed(contents.pop("dataset")), packed(contents) if rest is None else rest

        pickled = ship(run, dataset, pack)
        return cls(VERSION, environment(), fingerprint(run), *pickled)

    def opened(self) -> DataSet:
        """The data set, here."""
        enter_environment(*self.environment)
        dataset: DataSet = pickle.loads(self.dataset)
        return dataset

    def planned(self, dataset: DataSet) -> tuple[Run, str | None]:
        """The run, planned again, and how its plan differs, if it does."""
        run = plan({**pickle.loads(self.rest), "dataset": dataset})
        found = fingerprint(run)
        return run, None if found == self.fingerprint else difference(self.fingerprint, found)


def pickle_rest(run: Run) -> bytes:
    """What :meth:`Shipment.of` sends beside the data set."""

    def pack(contents: dict[str, Any]) -> bytes:
        del contents["dataset"]
        return packed(contents)

    return ship(run, None, pack)


def ship_changes(run: Run, changes: Changes, pack: Callable[[Any], T]) -> T:
    """Changes of parameters as they are sent, where :func:`follow` takes them.

    Raises
    ------
    InvalidArgumentError
        As :func:`ship`.
    """
    try:
        return pack(_recipes(changes, {}))
    except Exception as error:
        udfs = [each.udf for versions in changes for each in versions or ()]
        raise cannot_be_sent(udfs, None, error) from error


def follow(run: Run, recipes: Recipes) -> None:
    """Go over to changed parameters: all since the run was sent that partitions still need."""
    for bridge, shipped in zip(run.bridges, recipes, strict=True):
        if bridge is None or shipped is None:
            continue
        if bridge.as_planned is None:
            bridge.as_planned = bridge.versions
        bridge.follow(Versions((*bridge.as_planned, *_versions(bridge, shipped))))
        bridge.renew_code()
        bridge.renew()


def _recipes(changes: Changes, held: dict[int, Any]) -> Recipes:
    return [
        None if versions is None else [(each.first, recipe(each, held)) for each in versions]
        for versions in changes
    ]


def _versions(bridge: Bridge, shipped: Sequence[tuple[int, Any]]) -> list[Version]:
    udfs = [(first, made(recipe)) for first, recipe in shipped]
    return [Version(first, udf, bridge.laid_out_aux(udf), {}) for first, udf in udfs]


def recipe(version: Version, held: dict[int, Any]) -> tuple[Any, dict[str, Any]]:
    """What a clean copy of a UDF is made of, once it was pickled.

    AUX data go as they are in this process: the array that they were given in may have been filled
    anew since. ``held`` has what other recipes of the same pickle hold.
    """
    kwargs = dict(version.udf._kwargs)
    for name, (_kind, data) in version.aux.items():
        kwargs[name] = held.setdefault(id(data), kwargs[name].holding(data))
    return code.sent(type(version.udf)), {key: code.sent(value) for key, value in kwargs.items()}


def made(udf: tuple[type[UDF], dict[str, Any]]) -> UDF:
    """The UDF of a recipe."""
    cls, kwargs = udf
    made = cls.new_for_partition(kwargs, None, None)
    # Its copies begin with what they begin with everywhere.
    made._kwargs = kwargs
    return made


def plan(shipped: dict[str, Any]) -> Run:
    """The same run, planned again."""
    udfs = [made(udf) for udf in shipped["udfs"]]
    rest = shipped["corrections"], shipped["backends"]
    cuts, workers = shipped["cuts"], shipped["workers"]
    known = None if workers is None else lambda _wishes: workers
    run = plan_run(
        shipped["dataset"],
        udfs,
        shipped["roi"],
        0,
        *rest,
        known,
        cuts,
        shipped["to_sink"],
        shipped["orders"],
    )
    for bridge, main_state in zip(run.bridges, shipped["main_states"], strict=True):
        if bridge is not None:
            bridge.main_state = main_state
    for bridge, changes in zip(run.bridges, shipped["changes"], strict=True):
        if bridge is not None and changes:
            bridge.follow(Versions((*bridge.versions, *_versions(bridge, changes))))
    return run


def fingerprint(run: Run) -> str:
    """What has to be the same on both sides, for people to read."""
    partitions = zlib.crc32(np.fromiter(chain.from_iterable(run.partitions), "<u8").tobytes())
    return f"{run.plan.explain()}frames      of partitions {partitions:08x}\n"


def difference(ours: str, theirs: str) -> str:
    """The first line in which two fingerprints differ."""
    for one, other in zip(ours.splitlines(), theirs.splitlines(), strict=False):
        if one != other:
            return f"{one.strip()!r} here, {other.strip()!r} there"
    return "one of the plans is longer"


def environment() -> tuple[list[str], bool]:
    """Where modules are found, and whether framefold stands in for LiberTEM."""
    alias = sys.modules.get("framefold.compat.as_libertem")
    stands_in = alias is not None and any(
        isinstance(finder, alias._Finder) for finder in sys.meta_path
    )
    return paths(), stands_in


def paths() -> list[str]:
    """What Python looks at of ``sys.path``, for those who have another current folder."""
    return [_absolute(entry) for entry in sys.path if isinstance(entry, str)]


def _absolute(entry: str) -> str:
    with contextlib.suppress(OSError):  # there may be none any more
        return absolute(entry)
    return entry


def enter_environment(path: list[str], stands_in: bool) -> None:
    """Find the same modules here."""
    sys.path += [entry for entry in path if entry not in sys.path]
    if stands_in:
        from framefold.compat.as_libertem import install_as_libertem

        install_as_libertem()


def names(run: Run) -> str:
    """The names of the UDFs, for messages."""
    return ", ".join(type(udf).__name__ for udf in run.udfs)
