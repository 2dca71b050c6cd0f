"""A Python UDF on the main side, as the engine calls it to merge partial results."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from framefold.common import _memory
from framefold.common._telling import tell
from framefold.common._user_code import signature_of
from framefold.common.buffers import ArrayWithMask, OverScan
from framefold.exceptions import UDFError
from framefold.udf.base import PROCESS_METHODS, UDF
from framefold.udf.data import MergeData, UDFData, set_role, values_of
from framefold.udf.engine import compiled, main_side
from framefold.udf.engine.declarations import declared_as_planned
from framefold.udf.engine.memory import Arrays, allocate, stand_ins, views
from framefold.udf.engine.results import final_results
from framefold.udf.engine.returned import MERGE, RETURNED, are_results, is_lost
from framefold.warnings import IgnoredReturnWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from framefold.udf.engine.bridge import RunDescription
    from framefold.udf.engine.changes import Version
    from framefold.udf.engine.preprocessed import MainSideState


class MergeTask:
    """The UDF on the main side: merges partial results and computes the final ones.

    Parameters
    ----------
    run
        Of which it is a part.
    main_state
        What the UDF learned in ``preprocess``, if that was called before.
    merges
        Whether it is to merge. Otherwise the engine does, and there are no result buffers here
        after ``preprocess``; until then, each has one row for all frames, which leads nowhere.
    """

    def __init__(
        self,
        run: RunDescription,
        main_state: MainSideState | None = None,
        *,
        merges: bool = True,
    ) -> None:
        bridge = run.bridge
        self.run = run
        self.bridge = bridge
        self.merged = _memory.zeros((bridge.n_selected,), bool)
        self._lock = threading.RLock()
        #: Whether the object shows what `get_results` was given, and may have changed.
        self._shows_copies = False
        values: Mapping[str, npt.NDArray[Any]] = {}
        if main_state is None:
            self.udf = bridge.take(self)
        else:
            self.udf, values = main_state.another(bridge.udf)
        bridge.main_side = weakref.ref(self)
        main_side.enter(
            self.udf,
            params={**bridge.udf._kwargs, **bridge.aux_for(0, bridge.n_selected)},
            meta=bridge.meta(
                tiling_scheme=run.tiling_scheme, merged=self.merged, array_backend=None
            ),
        )
        set_role(self.udf.params, bridge.parameter_role)
        #: The parameters that the run began with.
        self._first_params = dict(self.udf.params.__dict__)
        self.buffers = declared_as_planned(self.udf, bridge.declared, "on the main side")
        allocated = allocate if merges else stand_ins
        self.arrays = allocated(self.buffers, bridge.shape, bridge.n_selected)
        roi = None if bridge.roi is None else bridge.roi.reshape(-1)
        place = {"dataset_shape": bridge.shape, "roi": roi, "valid": self.merged}
        #: What both sides of a merge are, and the results.
        self._role = bridge.result_role._replace(declared=self.buffers)
        self.udf.results = UDFData(self._role._replace(place=place), views(self.arrays))
        self._merge_by_name = _takes_names(self.udf.merge)
        if main_state is None:
            self.udf.preprocess()
            values_of(self.udf, "results")
            bridge.ending = self.udf._at_end()
        for name, value in values.items():
            self.arrays[name][...] = value
        if not merges:
            self.arrays = {}
            self.udf.results = UDFData(bridge.result_role._replace(declared={}))

    @property
    def has_ended(self) -> bool:
        """Whether the run is over; its results may still be asked for."""
        return self.bridge.has_ended

    def go_on_with_a_twin(self) -> None:
        """Go on with a twin of the object: another run begins with it."""
        with self._lock:
            self.udf = main_side.twin(self.udf)

    def update_parameters(self) -> None:
        """Go over to the latest parameters, for what is done from now on, and for runs to come."""
        with self._lock:
            self.udf._kwargs = self.bridge.udf._kwargs
            self._show_all()

    def _show_params(self, version: Version, start: int, stop: int) -> None:
        """Set parameters to what they are for these frames."""
        params, bridge = values_of(self.udf, "params"), self.bridge
        if version.changed or len(bridge.versions) > 1:
            names = bridge.versions.latest.changed
            first = {name: self._first_params.get(name) for name in names}
            params.update({**first, **version.changed})
        params.update(bridge.aux_for(start, stop, version.aux))

    def _show_all(self) -> None:
        """Set the views of results and AUX data to all selected frames."""
        self._shows_copies = False
        values_of(self.udf, "results").update(views(self.arrays))
        self._show_params(self.bridge.versions.latest, 0, self.bridge.n_selected)

    def direct(self) -> tuple[list[tuple[str, str, npt.NDArray[Any]]], npt.NDArray[Any]] | None:
        """Name, kind and array of each buffer, and which frames are merged.

        None if merging takes the interpreter: another function than one that is compiled, or the
        default for ``nav`` buffers.
        """
        own = type(self.udf).merge
        rows = own is UDF.merge and all(b.kind == "nav" for b in self.buffers.values())
        if "merge" in vars(self.udf) or not (rows or compiled.options_of(own)):
            return None
        arrays: list[tuple[str, str, npt.NDArray[Any]]] = [
            (name, self.buffers[name].kind, array) for name, array in self.arrays.items()
        ]
        return arrays, self.merged

    def note_merged(self, start: int, stop: int, partial: Arrays) -> None:
        """Know that the engine has merged the selected frames ``start`` to ``stop``."""
        self._without_returned(partial)
        self.merged[start:stop] = True

    def _without_returned(self, partial: Arrays) -> Arrays:
        """The buffers of a partial result; warns, once for a run, if results were returned."""
        if RETURNED not in partial:
            return partial
        self.tell_of_returned(f"returned {partial[RETURNED]}")
        return {name: array for name, array in partial.items() if name != RETURNED}

    def tell_of_returned(self, what: str) -> None:
        """Warn, once for a run, that results were returned."""
        if RETURNED not in self.bridge.warned:
            self.bridge.warned.add(RETURNED)
            who = f"{self.bridge.name}.{PROCESS_METHODS[self.bridge.method]}"
            where = f"self.results.{next(iter(self.buffers))}"
            if self.udf._is_of_functions:
                who, where = "fn", next(iter(self.buffers))
            tell(
                f"{who} {what}, which is ignored: write into result buffers, as in {where}[:] = …",
                IgnoredReturnWarning,
            )

    def merge(self, start: int, stop: int, partial: Arrays) -> None:
        """Merge the partial result of the selected frames ``start`` to ``stop``."""
        part = slice(start, stop)
        parts = {
            name: array[part if self.buffers[name].kind == "nav" else ...]
            for name, array in self.arrays.items()
        }
        dest = MergeData(self._role, parts)
        src = MergeData(self._role, self._without_returned(partial))
        merge: Callable[..., Any] = self.udf.merge
        # Partial results are merged with the parameters that they were computed with.
        with self._lock:
            if self._shows_copies:
                self._show_all()
            self._show_params(self.bridge.versions.at(start), start, stop)
            returned = merge(dest=dest, src=src) if self._merge_by_name else merge(dest, src)
            if len(self.bridge.versions) > 1:  # at all other times, the object has the latest
                self._show_params(self.bridge.versions.latest, 0, self.bridge.n_selected)
        if returned is not None:
            self._look_at_returned(returned, (dest, *parts.values()))
        self.merged[part] = True

    def _look_at_returned(self, returned: Any, buffers: tuple[Any, ...]) -> None:
        """Warn once, or refuse, if ``merge`` returned results that are in none of the buffers."""
        if not (are_results(returned) and is_lost(returned, buffers)):
            return
        of_class = not self.udf._is_of_functions
        who = f"{self.bridge.name}.merge" if of_class else "merge"
        how = "dest.name[:] += src.name" if of_class else "dest['name'][:] += src['name']"
        text = (
            f"{who} returned a {type(returned).__name__}, and what it returns has no effect: "
            f"write into dest, as in {how}"
        )
        if isinstance(returned, Mapping):
            raise UDFError(f"{text}; merge_all returns a dict" if of_class else text)
        if MERGE not in self.bridge.warned:
            self.bridge.warned.add(MERGE)
            tell(text, IgnoredReturnWarning)

    def results(self) -> list[npt.NDArray[Any] | ArrayWithMask | OverScan]:
        """The public results, in the order of their declaration."""
        with self._lock:
            self._show_all()
            merged, is_twin, last = self.arrays, self.bridge.is_twin, self.bridge.is_last_look
            computes = self.udf._computes_results
            if computes and not is_twin:
                # What `get_results` changes in place is merged further, or looked at again.
                merged = {name: array.copy() for name, array in merged.items()}
                self.udf.results.__dict__.update(merged)
                self._shows_copies = True
            # That of the base class makes copies, as `final_results` does.
            computed = self.udf.get_results() if computes else {}
            values_of(self.udf, "results")
            if last:
                self.arrays = merged
            return final_results(
                self.bridge.name,
                self.buffers,
                merged,
                computed,
                self.bridge.shape,
                self.bridge.n_selected,
                self.bridge.roi,
                owned=last and (is_twin or not computes),
            )


def _takes_names(merge: Callable[..., None]) -> bool:
    """Whether arguments can be passed by name, so that their order does not matter."""
    code = getattr(getattr(merge, "__func__", None), "__code__", None)
    by_name = () if code is None else code.co_varnames[code.co_posonlyargcount : code.co_argcount]
    if {"dest", "src"}.issubset(by_name):
        return True  # `signature` says the same, and takes longer than all else that begins a run
    parameters = signature_of(merge).parameters
    kinds = {name: each.kind.name for name, each in parameters.items()}
    if set(kinds.values()) == {"VAR_KEYWORD"}:
        return True
    return all(kinds.get(name, "POSITIONAL_ONLY") != "POSITIONAL_ONLY" for name in ("dest", "src"))
