"""Results of functions as parameters of others: :func:`from_result`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from framefold.common._masked import has_masked
from framefold.exceptions import ArgumentTypeError, InvalidArgumentError, UnsupportedError
from framefold.udf.base import UDF

if TYPE_CHECKING:
    from framefold.common.buffers import BufferWrapper

__all__ = ["FromResult", "from_result"]


def from_result(udf: UDF, name: str, function: Callable[[Any], Any] | None = None) -> FromResult:
    """A parameter whose value is a result of another UDF, computed in a pass before.

    A result of kind ``nav`` or ``sig`` becomes :meth:`AUX data <framefold.udf.UDF.aux_data>` of
    that kind and of its dtype, so that while a frame is processed, the parameter is the part that
    belongs to it. One of kind ``single`` is the array.

    Parameters
    ----------
    udf
        The object whose result it is; it is run if it is not in the list that is run.
    name
        Of the result.
    function
        What is made of the result before it is passed on: called on the main side with a copy of
        the whole array, of shape ``(*nav, *extra_shape)`` or ``(*sig, *extra_shape)``. Elements
        that are not valid, as outside of a ROI, are NaN; where the dtype has none, the array is a
        masked one. An array that it returns has the same axes of the scan or of frames in front,
        and no masked element where the next pass reads; anything that is not an array becomes the
        parameter as it is.

    Returns
    -------
    FromResult
        To be passed as a parameter, by itself: not in a list or a tuple.

    Raises
    ------
    ArgumentTypeError
        If ``udf`` is no UDF, ``name`` no text, or ``function`` none.

    Examples
    --------
    >>> import framefold as ff
    >>> total = ff.SumUDF()
    >>> def bright(image):
    ...     return [lambda: image > image.mean()]
    >>> masks = ff.ApplyMasksUDF(ff.from_result(total, "intensity", bright))
    >>> ctx, dataset = ff.Context(), ff.example_scan()
    >>> summed, products = ctx.run_udf(dataset=dataset, udf=[total, masks])
    """
    if not isinstance(udf, UDF):
        instead = "; pass an instance, not the class" if isinstance(udf, type) else ""
        raise ArgumentTypeError(f"from_result: {udf!r} is not a UDF{instead}")
    if not isinstance(name, str):
        raise ArgumentTypeError(
            f"from_result: the name of the result is {name!r}; use a text such as 'intensity'"
        )
    if function is not None and not callable(function):
        raise ArgumentTypeError(
            f"from_result: {function!r} is not a function of the result; leave it out for the "
            f"result as it is"
        )
    return FromResult(udf, name, function)


class FromResult:
    """What :func:`from_result` gives: it stands for a value until there is one.

    Attributes
    ----------
    udf : UDF
        Whose result it is.
    name : str
        Of the result.
    function : callable or None
        What is made of it.
    """

    __slots__ = ("function", "name", "udf")

    def __init__(self, udf: UDF, name: str, function: Callable[[Any], Any] | None) -> None:
        self.udf = udf
        self.name = name
        self.function = function

    def value(self, result: BufferWrapper) -> Any:
        """The parameter, from the result.

        Raises
        ------
        InvalidArgumentError
            If the function returns an array with other axes, or an element that the next pass
            reads is masked.
        """
        data, valid = np.array(result.data), result.valid_mask
        if not valid.all():
            if data.dtype.kind in "fc":
                data[~valid] = np.nan
            else:
                data = np.ma.MaskedArray(data, mask=~valid)
        kind, n_own = result.kind, data.ndim - len(result.extra_shape)
        made = data if self.function is None else self.function(data)
        if isinstance(made, np.ma.MaskedArray) and not made.ndim:
            made = made[()]
        if made is np.ma.masked or (not isinstance(made, np.ndarray) and _holds_masked(made)):
            raise InvalidArgumentError(
                f"the function of {self!r} returned masked elements; expected numbers: a result of "
                f"{data.dtype} with elements that are not valid is a masked array, of which "
                f"np.median and others make nothing; use those of np.ma, or np.ma.filled"
            )
        if not isinstance(made, np.ndarray):
            return made
        axes = data.shape[:n_own]
        if kind != "single" and made.shape[:n_own] != axes:
            raise InvalidArgumentError(
                f"the function of {self!r} returned an array of shape {made.shape}, but the result "
                f"is of kind {kind!r}, so the first axes must be {axes}; return a tuple, a number "
                f"or a list for a parameter that is the same for all"
            )
        made = self._unmasked(made, result)
        if kind == "single":
            return made
        return UDF.aux_data(made, kind=kind, extra_shape=made.shape[n_own:], dtype=made.dtype)

    def _unmasked(self, made: npt.NDArray[Any], result: BufferWrapper) -> npt.NDArray[Any]:
        """The array without its mask, if nothing is masked that the next pass reads."""
        if not isinstance(made, np.ma.MaskedArray):
            return made
        masked = made.recordmask & result._merged(made.ndim)
        if masked.any():
            first = tuple(np.argwhere(masked)[0].tolist())
            raise InvalidArgumentError(
                f"{self!r}: {np.count_nonzero(masked)} elements that the next pass reads are not "
                f"valid, the first at {first}; give from_result a function that fills them, such "
                f"as lambda result: np.ma.filled(result, 0)"
            )
        return np.ma.getdata(made)

    def _no_value(self) -> NoReturn:
        raise InvalidArgumentError(
            f"{self!r} has no value before its run; pass it as a parameter by itself, to a UDF "
            f"whose constructor passes it on as it is"
        )

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self._no_value()

    def __bool__(self) -> NoReturn:
        self._no_value()

    def __repr__(self) -> str:
        how = "" if self.function is None else f", {getattr(self.function, '__name__', 'function')}"
        return f"from_result({type(self.udf).__name__}, {self.name!r}{how})"


def references_in(parameters: Mapping[str, Any]) -> dict[str, FromResult]:
    """The parameters that stand for results of others."""
    return {key: value for key, value in parameters.items() if isinstance(value, FromResult)}


def refuse_nested(udf: UDF) -> None:
    """Refuse a function that has a reference within a parameter, where it is not looked for.

    Raises
    ------
    InvalidArgumentError
        If it has one in a list, tuple or dict.
    """
    for key, value in udf.__dict__.get("_kwargs", {}).items():
        entries = value.values() if isinstance(value, dict) else value
        if not isinstance(value, (list, tuple, dict)):
            continue
        for entry in entries:
            if isinstance(entry, FromResult):
                raise InvalidArgumentError(
                    f"{type(udf).__name__}: the parameter {key!r} is a {type(value).__name__} with "
                    f"{entry!r} in it; a result is a parameter by itself: pass one for each"
                )


def refuse_references(udfs: Iterable[UDF]) -> None:
    """Refuse functions that wait for results of others, where nothing is run before them.

    Raises
    ------
    UnsupportedError
        If there is one.
    """
    for udf in udfs:
        for key, reference in references_in(udf.__dict__.get("_kwargs", {})).items():
            raise UnsupportedError(
                f"{type(udf).__name__}: the parameter {key!r} is {reference!r}, and only run_udf "
                f"and explain know what to run before; here, pass the result itself, as an array "
                f"or UDF.aux_data(…)"
            )


def _holds_masked(made: Any) -> bool:
    """Whether elements of a number, a list or a dict are masked."""
    return has_masked(list(made.values()) if isinstance(made, Mapping) else made)
