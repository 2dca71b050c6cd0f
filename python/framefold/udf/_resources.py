"""Which workers of Dask can run UDFs that take certain array formats."""

from __future__ import annotations

from collections.abc import Iterable

from framefold.common.udf import CUDA_BACKENDS, CUPY_BACKENDS
from framefold.exceptions import InvalidArgumentError


def get_resources_for_backends(
    udf_backends: Iterable[str | Iterable[str]],
    user_backends: str | Iterable[str] | None = None,
) -> dict[str, int]:
    """The resources that workers of Dask must have to run UDFs.

    Parameters
    ----------
    udf_backends
        For each UDF, the array formats that it takes.
    user_backends
        Those that a run is restricted to; no restriction if None or empty.

    Returns
    -------
    dict
        For ``compute(resources=…)``: empty for UDFs that can run on the CPU, since any worker will
        do; ``CUDA``, ``compute`` and ``ndarray`` as far as they are needed by UDFs that cannot.

    Raises
    ------
    InvalidArgumentError
        If a UDF takes none of the formats that the run is restricted to, or some can run on the
        CPU only and others on CUDA devices only.
    """
    allowed = _listed(user_backends or ())
    needed: dict[str, int] = {}
    on_cpu_only: set[str] = set()
    for given in udf_backends:
        formats = _listed(given)
        common = formats & allowed if allowed else formats
        if not common:
            raise InvalidArgumentError(
                f"a UDF takes {sorted(formats)}, and the run is restricted to {sorted(allowed)}; "
                f"they have nothing in common"
            )
        if common <= CUDA_BACKENDS:
            needed.update({"CUDA": 1, "compute": 1})
            if not common <= CUDA_BACKENDS - CUPY_BACKENDS:
                needed["ndarray"] = 1
        elif not common & CUDA_BACKENDS:
            on_cpu_only |= common
    if needed and on_cpu_only:
        raise InvalidArgumentError(
            f"some UDFs run on CUDA devices only, and others take {sorted(on_cpu_only)} alone; run "
            f"them one by one"
        )
    return needed


def _listed(formats: str | Iterable[str]) -> set[str]:
    return {formats} if isinstance(formats, str) else set(formats)
