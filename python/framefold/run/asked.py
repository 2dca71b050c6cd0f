"""What a run is asked to write: the arguments ``out``, ``resume`` and ``overwrite``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from framefold.common._booleans import boolean
from framefold.exceptions import ArgumentTypeError, InvalidArgumentError


class Asked(NamedTuple):
    """The arguments of a run that say what is to be written."""

    out: Any
    resume: bool
    overwrite: bool


def asked(out: Any, resume: bool, overwrite: bool) -> Asked | None:
    """What is to be written, from the arguments; None for nothing.

    Raises
    ------
    InvalidArgumentError, ArgumentTypeError
        If they do not fit each other.
    """
    resume, overwrite = boolean("resume", resume), boolean("overwrite", overwrite)
    if out is None:
        for name, given in (("resume", resume), ("overwrite", overwrite)):
            if given:
                raise InvalidArgumentError(
                    f"got {name}=True and nothing to write; say where: out='results.zarr'"
                )
        return None
    paths = list(out.values()) if isinstance(out, Mapping) else [out]
    if not paths or not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise ArgumentTypeError(
            f"out is {out!r}; pass the path of a .zarr or .npy file, or a dict from names of "
            f"results to paths"
        )
    return Asked(out, resume, overwrite)
