"""Which array format each UDF of a run gets.

Three steps, each a pure function: what a UDF asks for (:func:`asked_for`), what of it can be had
(:func:`usable`), and what all UDFs of the run get (:func:`choose`). The engine itself knows two
layouts, dense and compressed sparse rows (:func:`layout`); every format is made of one of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from framefold.common._items import has_items, listed
from framefold.common.udf import (
    ALL_BACKENDS,
    CPU_BACKENDS,
    CUDA_BACKENDS,
    CUPY_BACKENDS,
    SCIPY_CSR,
    SCIPY_CSR_ARRAY,
    SPARSE_BACKENDS,
    SPARSE_COO,
)
from framefold.exceptions import (
    InvalidArgumentError,
    MissingLibraryError,
    UDFError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from framefold.arrays.sparse_tiles import SparseTiles
    from framefold.udf.base import UDF
    from framefold.udf.engine.bridge import Bridge

Formats = tuple[str, ...]

KNOWN = CPU_BACKENDS | CUDA_BACKENDS

NO_DEVICE = "needs a CUDA worker, and this run has none"


def asked_for(udf: UDF) -> Formats:
    """The formats that ``get_backends`` names, the one to prefer first.

    Raises
    ------
    UDFError
        If it returns none, or something that is no array format.
    """
    name, given = type(udf).__name__, udf.get_backends()
    if not has_items(given):
        raise UDFError(
            f"{name}.get_backends returned {given!r}, expected array formats such as "
            f"(UDF.BACKEND_NUMPY,)"
        )
    formats = _listed(f"what {name}.get_backends returned", given)
    for format_ in formats:
        if not isinstance(format_, str) or format_ not in KNOWN:
            raise UDFError(
                f"{name}.get_backends returned {format_!r}, which is no array format; "
                f"use the BACKEND_ constants of UDF"
            )
    if not formats:
        raise UDFError(
            f"{name}.get_backends returned no array format; name at least one, such as "
            f"UDF.BACKEND_NUMPY"
        )
    return formats


def restriction(backends: Any) -> Formats | None:
    """The formats that a run is restricted to; None for no restriction.

    Raises
    ------
    InvalidArgumentError
        If there is none, or something that is no array format.
    """
    if backends is None:
        return None
    if not has_items(backends):
        raise InvalidArgumentError(
            f"backends is {backends!r}, expected array formats such as 'numpy', or None for no "
            f"restriction"
        )
    formats = _listed("backends", backends)
    for format_ in formats:
        if not isinstance(format_, str) or format_ not in KNOWN:
            raise InvalidArgumentError(
                f"backends: {format_!r} is no array format; use 'numpy' or another of the "
                f"BACKEND_ constants of UDF, or None for no restriction"
            )
    if not formats:
        raise InvalidArgumentError("backends is empty; use 'numpy', or None for no restriction")
    return formats


def usable(
    name: str,
    asked: Formats,
    allowed: Formats | None = None,
    device_class: str = "cpu",
    why_no_device: str = "",
    *,
    elsewhere: bool = False,
) -> Formats:
    """Those of the formats that can be had.

    Parameters
    ----------
    name
        Of the UDF, for messages.
    asked
        What it takes.
    allowed
        What the run is restricted to; None for no restriction.
    device_class
        Of the worker: ``'cpu'`` has the formats of :data:`CPU_BACKENDS`, ``'cuda'`` those of
        :data:`CUDA_BACKENDS`.
    why_no_device
        Why the run has no worker with a CUDA device, for messages.
    elsewhere
        Whether workers with a CUDA device are other processes, where CuPy is or is not installed.

    Raises
    ------
    UnsupportedError
        If nothing is left: names what the UDF takes, and for each why it cannot be had.
    MissingLibraryError
        If only a library is in the way.
    """
    in_the_way = {
        format_: _obstacle(format_, allowed, device_class, elsewhere) for format_ in asked
    }
    left = tuple(format_ for format_, obstacle in in_the_way.items() if obstacle is None)
    if left:
        return left
    reasons = "; ".join(f"{format_!r} {obstacle}" for format_, obstacle in in_the_way.items())
    if why_no_device and NO_DEVICE in in_the_way.values():
        reasons += f". Why there is no CUDA worker: {why_no_device}"
    missing = {
        library
        for library in ("scipy", "sparse", "sparseconverter", "cupy")
        for obstacle in in_the_way.values()
        if obstacle is not None and f"{library}, which is not installed" in obstacle
    }
    if missing == {"cupy"}:
        raise MissingLibraryError(
            f"{name} takes no array format that is to be had: {reasons}; install the CuPy package "
            f"for your version of CUDA, such as cupy-cuda12x"
        )
    if missing:
        raise MissingLibraryError(
            f"{name} takes no array format that is to be had: {reasons}; install what sparse "
            f"formats need with: pip install framefold[sparse]"
        )
    to_be_had = CPU_BACKENDS if device_class == "cpu" else CUDA_BACKENDS
    if allowed is not None:
        to_be_had &= frozenset(allowed)
    there = ", ".join(map(repr, in_order(to_be_had)))
    step = (
        f"To be had here: {there}; name one of them in get_backends"
        if there
        else "Leave backends out, or name another one"
    )
    raise UnsupportedError(f"{name} takes no array format that is to be had: {reasons}. {step}")


def choose(native: Formats, wishes: Sequence[Formats]) -> Formats:
    """The format that each UDF of a run gets.

    Parameters
    ----------
    native
        The formats in which the data set has its data, the best first.
    wishes
        For each UDF the formats that it can get, the one to prefer first.

    Notes
    -----
    A UDF gets a native format if it takes one; otherwise one of the same kind, dense or sparse;
    otherwise one of the other kind. Among formats of the same rank, as few different ones as
    possible are made in the whole run; then a UDF's own order decides, or that of the data set
    for native formats.
    """
    ranked = [_best_rank(native, wish) for wish in wishes]
    certain = {rank[0] for rank in ranked if len(rank) == 1}
    every = dict.fromkeys(format_ for rank in ranked for format_ in rank)
    others = [format_ for format_ in every if format_ not in certain]
    for n_others in range(len(others) + 1):
        found: list[tuple[int, Formats]] = []
        for some in combinations(others, n_others):
            made = certain.union(some)
            picked = [next((f for f in rank if f in made), None) for rank in ranked]
            formats = tuple(format_ for format_ in picked if format_ is not None)
            if len(formats) == len(ranked):
                places = (r.index(f) for r, f in zip(ranked, formats, strict=True))
                found.append((sum(places), formats))
        if found:
            return min(found, key=lambda option: option[0])[1]
    return ()


def layout(format_: str) -> str:
    """The engine's layout of which a format is made: ``'dense'`` or ``'csr'``."""
    return "csr" if format_ in SPARSE_BACKENDS else "dense"


def assign(
    bridges: Sequence[Bridge],
    native: Formats,
    allowed: Formats | None = None,
    why_no_device: str = "",
) -> None:
    """Ask the UDFs of a run which formats they take, and tell them what they get on the CPU."""
    wishes = [
        usable(bridge.name, bridge.asked_for, allowed, why_no_device=why_no_device)
        for bridge in bridges
    ]
    chosen = choose(native, wishes)
    tiles = sparse_tiles(bridges, [f if layout(f) == "csr" else None for f in chosen])
    kinds = {layout(format_) for format_ in native}
    for bridge, format_ in zip(bridges, chosen, strict=True):
        how = layout(format_)
        bridge.array_backend = format_
        bridge.tiles = tiles if how == "csr" else None
        bridge.crosses = how not in kinds


def sparse_tiles(bridges: Sequence[Bridge], formats: Sequence[str | None]) -> SparseTiles | None:
    """What makes these formats of sparse tiles; None if no UDF gets any.

    Parameters
    ----------
    bridges, formats
        For each UDF the format that it gets; None if that is not made of sparse tiles.
    """
    takers = [
        (format_, bridge.method == "frame")
        for bridge, format_ in zip(bridges, formats, strict=True)
        if format_ is not None
    ]
    if not takers:
        return None
    from framefold.arrays.sparse_tiles import SparseTiles

    return SparseTiles(takers)


def in_order(formats: Iterable[str]) -> Formats:
    """The formats in the order of :data:`ALL_BACKENDS`, others behind them by name."""
    place = {format_: index for index, format_ in enumerate(ALL_BACKENDS)}
    return tuple(sorted(formats, key=lambda format_: (place.get(format_, len(place)), format_)))


def _listed(name: str, given: Any) -> tuple[Any, ...]:
    """One format or several as a tuple without repetitions; the order of sets is our own."""
    if isinstance(given, str):
        return (given,)
    if isinstance(given, set | frozenset) and all(isinstance(item, str) for item in given):
        return in_order(given)
    items: list[Any] = []
    for item in listed(name, given):
        if item not in items:
            items.append(item)
    return tuple(items)


def _best_rank(native: Formats, wish: Formats) -> Formats:
    given = tuple(format_ for format_ in native if format_ in wish)
    if given:
        return given
    kinds = {layout(format_) for format_ in native}
    return tuple(format_ for format_ in wish if layout(format_) in kinds) or wish


def _obstacle(
    format_: str,
    allowed: Formats | None,
    device_class: str,
    elsewhere: bool,
) -> str | None:
    """Why a format cannot be had; None if it can."""
    if allowed is not None and format_ not in allowed:
        return f"is not among those that backends={allowed!r} restricts the run to"
    on_cpu = format_ in CPU_BACKENDS
    if on_cpu != (device_class == "cpu"):
        return "needs a CPU worker, and this run has none" if on_cpu else NO_DEVICE
    for library in _libraries(format_):
        if not (elsewhere and library == "cupy") and not _installed(library):
            return f"needs {library}, which is not installed"
    return None


def _libraries(format_: str) -> tuple[str, ...]:
    """What it takes to make an array of that format."""
    if format_ in CUPY_BACKENDS:
        return ("cupy",)
    if format_ not in SPARSE_BACKENDS:
        return ()
    library = "sparse" if format_.startswith("sparse.") else "scipy"
    made_by_hand = format_ in (SCIPY_CSR, SCIPY_CSR_ARRAY, SPARSE_COO)
    return (library,) if made_by_hand else (library, "sparseconverter")


def _installed(library: str) -> bool:
    from importlib.util import find_spec

    return library in sys.modules or find_spec(library) is not None
