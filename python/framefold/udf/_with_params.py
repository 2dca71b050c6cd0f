"""Copies of functions with other parameters: what names may be changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from framefold import _engine
from framefold.exceptions import ArgumentTypeError, InvalidArgumentError


def check_names(udf: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse parameters that a function does not have.

    Parameters
    ----------
    udf
        How the message calls the function.
    names
        Of the parameters to change.
    known
        Of those that it has.

    Raises
    ------
    InvalidArgumentError
        If it does not have one of them.
    """
    known = list(known)
    for name in names:
        if name in known:
            continue
        similar = _engine.nearest_names(name, known)
        closest = f", did you mean {similar[0]!r}" if similar else ""
        there = f"its parameters are {', '.join(known)}" if known else "it has none"
        raise InvalidArgumentError(f"{udf} has no parameter {name!r}{closest}; {there}")


if TYPE_CHECKING:
    ClassOrObject = classmethod
else:

    class ClassOrObject(classmethod):
        """A class method for :meth:`framefold.udf.UDF.with_params`, which objects keep.

        Called on the class, it is what is written; called on an object, it does what the method of
        ``UDF`` does: as a mere class method, it would forget the parameters of the object.
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return super().__get__(instance, owner)

            def with_params(*values: Any, **params: Any) -> Any:
                if values:
                    raise ArgumentTypeError(
                        f"with_params of {type(instance).__name__} got {values[0]!r} without a "
                        f"name; pass parameters by name"
                    )
                return instance._other(params)

            return with_params
