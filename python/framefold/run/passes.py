"""Runs of functions that need results of others: several passes over the data."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from framefold.common._notes import add_note
from framefold.common.aux_data import AuxBufferWrapper
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.run.plan import Run, checked_udfs
from framefold.run.results import UDFResultDict, UDFResults, UDFResultTuple
from framefold.udf.base import UDF
from framefold.udf.data import PARAMETERS, UDFData
from framefold.udf.engine.main_side import twin
from framefold.udf.references import FromResult, references_in, refuse_nested

if TYPE_CHECKING:
    from framefold.run.steps import ResultGenerator

#: Plans the run of some functions, over a region of interest.
Plan = Callable[[Sequence[UDF], Any], Run]
#: Begins a run with these plots: gives its steps, or results that are computed later.
Begin = Callable[[Run, Any], "ResultGenerator | tuple[UDFResultDict, ...]"]


def passes_of(udf: UDF | Iterable[UDF], roi: Any) -> Passes | None:
    """The passes that functions need; None if none of them needs results of others.

    Raises
    ------
    InvalidArgumentError
        If functions need each other's results, or a reference is in a list.
    """
    udfs = checked_udfs(udf)
    for each in udfs:
        refuse_nested(each)
    return Passes(udfs, roi) if any(_needs(each) for each in udfs) else None


class Passes:
    """Functions in the order in which they can be run, and what came of them.

    Functions that need no results run in the first pass, all together; each other one in the pass
    after the last one that it needs.

    Parameters
    ----------
    udfs
        As they were asked for.
    roi
        As for :meth:`framefold.Context.run_udf`; the same positions in all passes.
    """

    def __init__(self, udfs: Sequence[UDF], roi: Any) -> None:
        self._asked = tuple(udfs)
        self._roi = roi
        #: The number of the pass of each function, by its address.
        self._numbers: dict[int, int] = {}
        #: Those that others need, and that were not asked for.
        self._others: list[UDF] = []
        for udf in udfs:
            self._place(udf, ())
        #: AUX data of functions that wait, as they are now, by the address of their object.
        self._aux: dict[int, AuxBufferWrapper] = {}
        for udf in (*self._asked, *self._others):
            for value in udf._kwargs.values() if _needs(udf) else ():
                if isinstance(value, AuxBufferWrapper) and id(value) not in self._aux:
                    self._aux[id(value)] = value.holding(value.data.copy())
        #: The results of each pass, in the order of its functions.
        self._results: list[Sequence[UDFResultDict]] = []

    def __len__(self) -> int:
        return 1 + max(self._numbers.values())

    def run(self, plan: Plan, begin: Begin, plots: Any) -> UDFResultTuple:
        """Run all passes."""
        for number in range(len(self)):
            with self._running(number, plan, self._stand_ins(number)) as run:
                started = begin(run, self._plots(number, plots))
                if isinstance(started, tuple):
                    results = started
                else:
                    with started as steps:
                        results = steps.run_to_end()
            self._results.append(results)
        return self._in_order(self._results)

    def run_async(
        self, plan: Plan, begin: Begin, plots: Any
    ) -> Coroutine[Any, Any, UDFResultTuple]:
        """Run all passes beside an event loop, with arguments as they are now."""
        first = ExitStack()
        run = first.enter_context(self._running(0, plan, {}))
        return self._run_async(first, run, plan, begin, plots)

    async def _run_async(
        self, first: ExitStack, run: Run, plan: Plan, begin: Begin, plots: Any
    ) -> UDFResultTuple:
        from framefold.run.aio import ResultAsyncGenerator, beside, final_results

        for number in range(len(self)):
            with ExitStack() as entered:
                if number == 0:
                    entered.push(first)
                else:
                    stand_ins = await beside(partial(self._stand_ins, number))
                    run = entered.enter_context(self._running(number, plan, stand_ins))
                started = begin(run, self._plots(number, plots))
                if isinstance(started, tuple):
                    results = started
                else:
                    results = await final_results(ResultAsyncGenerator(started))
            self._results.append(results)
        return self._in_order(self._results)

    def explain(self, plan: Plan, explain: Callable[[Run], str]) -> str:
        """How all passes would go; ``explain`` says it of one run."""
        names = [", ".join(type(udf).__name__ for udf in self._of(n)) for n in range(len(self))]
        with self._running(0, plan, {}) as run:
            rows = dict(run.plan.explained()[0])
            said = f"pass        1 of {len(self)}: {names[0]}\n{explain(run)}"
        for number in range(1, len(self)):
            said += (
                f"\npass        {number + 1} of {len(self)}: {names[number]}; planned when there "
                f"are the results that it needs\n"
                f"read        {rows['read']}, once more\n"
            )
            for udf in self._of(number):
                for key, reference in _needs(udf).items():
                    said += f"needs       {type(udf).__name__}: {key} = {reference!r}\n"
        return said

    def _place(self, udf: UDF, waiting: tuple[UDF, ...]) -> int:
        """Find the pass of a function, and of those that it needs."""
        if any(udf is each for each in waiting):
            names = " → ".join(type(each).__name__ for each in (*waiting, udf))
            raise InvalidArgumentError(
                f"functions wait for each other's results ({names}): none can be run first; pass a "
                f"value in place of one of the references"
            )
        number = self._numbers.get(id(udf))
        if number is None:
            refuse_nested(udf)
            needed = [reference.udf for reference in _needs(udf).values()]
            numbers = [self._place(each, (*waiting, udf)) for each in needed]
            number = self._numbers[id(udf)] = 1 + max(numbers, default=-1)
            if not any(udf is each for each in self._asked):
                self._others.append(udf)
        return number

    def _of(self, number: int) -> list[UDF]:
        """The functions of a pass: those that were asked for in their order, then the others."""
        return [u for u in (*self._asked, *self._others) if self._numbers[id(u)] == number]

    @contextmanager
    def _running(self, number: int, plan: Plan, stand_ins: Mapping[int, UDF]) -> Iterator[Run]:
        """Plan a pass; while this is entered, it runs.

        What ``stand_ins`` have learned in the end, the user's objects know.
        """
        own = self._of(number)
        run = None
        try:
            run = plan([stand_ins.get(id(udf), udf) for udf in own], self._roi)
            self._roi = run.roi  # what was passed may be changed meanwhile
            self._check_names(own, run)
            yield run
        except BaseException as error:
            if run is not None:
                run.end(complete=False)  # of no effect if it has ended
            results = getattr(error, "results", None)
            if isinstance(error, KeyboardInterrupt) and isinstance(results, UDFResults):
                error.results = _SoFar(self, results)  # type: ignore[attr-defined]
            elif isinstance(error, Exception):
                add_note(error, f"in pass {number + 1} of {len(self)} over the data")
            raise
        finally:
            for udf in own:
                if id(udf) in stand_ins:
                    _learn(udf, stand_ins[id(udf)])

    def _stand_ins(self, number: int) -> dict[int, UDF]:
        """What runs in place of objects of a pass that wait for values, by their addresses.

        Others with the same attributes, in which values take the place of references.
        """
        return {id(udf): self._with_values(udf) for udf in self._of(number) if _needs(udf)}

    def _with_values(self, udf: UDF) -> UDF:
        """An object that stands in for one that waits for values."""
        stand_in = twin(udf)
        values = {key: self._value(reference) for key, reference in _needs(udf).items()}
        for key, value in udf._kwargs.items():
            if id(value) in self._aux:
                values[key] = self._aux[id(value)]
        stand_in._kwargs = udf._changed(values)
        stand_in.params = UDFData(PARAMETERS, stand_in._kwargs)
        return stand_in

    def _value(self, reference: FromResult) -> Any:
        number = self._numbers[id(reference.udf)]
        pairs = zip(self._of(number), self._results[number], strict=True)
        result = next(results for udf, results in pairs if udf is reference.udf)
        try:
            return reference.value(result[reference.name])
        except Exception as error:
            add_note(error, f"while the value of {reference!r} was made")
            raise

    def _check_names(self, udfs: Sequence[UDF], run: Run) -> None:
        """See that functions of a pass have the results that others need, before it begins."""
        for other in (*self._asked, *self._others):
            for key, reference in _needs(other).items():
                for index, udf in enumerate(udfs):
                    names = run.result_names(index) if udf is reference.udf else [reference.name]
                    if reference.name not in names:
                        raise InvalidArgumentError(
                            f"{type(other).__name__}: the parameter {key!r} is {reference!r}, but "
                            f"the results of {type(udf).__name__} are {', '.join(names) or 'none'}"
                        )

    def _plots(self, number: int, plots: Any) -> Any:
        """What the argument of that name says about the functions of a pass."""
        if plots is None or isinstance(plots, bool):
            return plots
        if not isinstance(plots, (list, tuple)) or any(hasattr(p, "new_data") for p in plots):
            raise UnsupportedError(
                "a run of several passes makes its plots itself; use plots=True, or a list of "
                "channels for each UDF"
            )
        nested = list(plots) if all(isinstance(each, list) for each in plots) else [list(plots)]
        if len(nested) > len(self._asked) or (nested != list(plots) and len(self._asked) > 1):
            raise InvalidArgumentError(
                f"plots does not fit {len(self._asked)} UDFs; pass a list of channels for each, "
                f"empty for none"
            )
        nested += [[] for _ in range(len(self._asked) - len(nested))]
        pairs = zip(self._asked, nested, strict=True)
        wanted = [channels for udf, channels in pairs if self._numbers[id(udf)] == number]
        return wanted if any(wanted) else None

    def _in_order(self, passes: Sequence[Sequence[UDFResultDict]]) -> UDFResultTuple:
        """Results of passes in the order in which they were asked for; empty of later ones."""
        left = [iter(results) for results in passes]
        left += [iter(()) for _ in range(len(self) - len(passes))]
        return UDFResultTuple(
            next(left[self._numbers[id(udf)]], UDFResultDict()) for udf in self._asked
        )


class _SoFar(UDFResults):
    """The results of a run that ended early: of later passes, there are none."""

    def __init__(self, passes: Passes, results: UDFResults) -> None:
        self._passes = passes
        self._before = tuple(passes._results)
        self._of_pass = results

    @property
    def buffers(self) -> UDFResultTuple:
        """One dict for each UDF; empty for those whose pass has not begun."""
        return self._passes._in_order([*self._before, self._of_pass.buffers])

    @property
    def damage(self) -> Any:
        """Which positions of the scan are merged in the pass that was ended."""
        return self._of_pass.damage


def _needs(udf: UDF) -> Mapping[str, FromResult]:
    """The parameters of a function that stand for results of others."""
    return references_in(udf.__dict__.get("_kwargs", {}))


def _learn(udf: UDF, stand_in: UDF) -> None:
    """Let an object know what the one that stood in for it knows, but for the parameters."""
    kwargs = udf._kwargs
    for name in set(udf.__dict__) - set(stand_in.__dict__):
        udf.__dict__.pop(name, None)
    params = UDFData(PARAMETERS, kwargs)
    udf.__dict__.update({**stand_in.__dict__, "_kwargs": kwargs, "params": params})
