"""Results of analyses: named arrays, each with a title and a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common._like_arrays import LikeArray, converted

__all__ = ["AnalysisResult", "AnalysisResultSet"]


class AnalysisResult(LikeArray):
    """One result of an analysis; can be used wherever an array can.

    Operators, functions of NumPy, indices and attributes such as ``shape`` and ``max`` are those
    of :attr:`raw_data`; what they give are arrays.

    Parameters
    ----------
    raw_data
        The numbers.
    visualized
        The picture of the numbers, or a function that makes it of them, which is called when it is
        first looked at.
    title, desc
        A short and a long name.
    key
        The name in an :class:`AnalysisResultSet`.
    include_in_download
        Whether it belongs to the results that are written to files.
    """

    def __init__(
        self,
        raw_data: npt.NDArray[Any],
        visualized: Callable[[npt.NDArray[Any]], npt.NDArray[np.uint8]] | npt.NDArray[np.uint8],
        title: str,
        desc: str,
        key: str,
        include_in_download: bool = True,
    ) -> None:
        self.raw_data = raw_data
        self.title = title
        self.desc = desc
        self.key = key
        self.include_in_download = include_in_download
        self._visualized = visualized

    @property
    def visualized(self) -> npt.NDArray[np.uint8]:
        """A picture of it: RGBA or RGB, shape ``(y, x, 4)`` or ``(y, x, 3)``; needs matplotlib."""
        if callable(self._visualized):
            self._visualized = self._visualized(self.raw_data)
        return self._visualized

    def get_image(self, save_kwargs: dict[str, Any] | None = None) -> BytesIO:
        """The picture as a file in memory.

        Parameters
        ----------
        save_kwargs
            For :func:`framefold.viz.encode_image`; PNG if None.
        """
        from framefold.viz import encode_image

        return encode_image(self.visualized, save_kwargs)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        return converted(np.asarray(self.raw_data), dtype, copy)

    def __getattr__(self, name: str) -> Any:
        # Not through self.raw_data: it is missing while copies and unpickled results are filled.
        if not name.startswith("_") and "raw_data" in self.__dict__:
            return getattr(np.asarray(self.raw_data), name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self.raw_data)[key]

    def __len__(self) -> int:
        return len(self.raw_data)

    def __iter__(self) -> Iterator[Any]:
        return iter(np.asarray(self.raw_data))

    def __float__(self) -> float:
        return float(np.asarray(self.raw_data))

    def __repr__(self) -> str:
        return f"<AnalysisResult: {self.key}>"


class AnalysisResultSet:
    """The results of an analysis, reached by key, as attributes, or by number.

    Parameters
    ----------
    results
        In the order in which they are listed and numbered; or a function that gives them, which is
        called when they are first looked at.
    raw_results
        What they were computed from, if there is something worth keeping.

    Examples
    --------
    >>> import numpy as np
    >>> from framefold.viz import visualize_simple
    >>> total = AnalysisResult(np.ones((2, 2)), visualize_simple, "total", "the sum", "total")
    >>> results = AnalysisResultSet([total])
    >>> results.total is results["total"] is results[0]
    True
    """

    def __init__(
        self,
        results: Iterable[AnalysisResult] | Callable[[], Iterable[AnalysisResult]],
        raw_results: Any = None,
    ) -> None:
        self._results = results if callable(results) else list(results)
        self.raw_results = raw_results

    @property
    def results(self) -> list[AnalysisResult]:
        """All of them."""
        if callable(self._results):
            self._results = list(self._results())
        return self._results

    def keys(self) -> list[str]:
        """The names of the results."""
        return [result.key for result in self.results]

    def __getattr__(self, name: str) -> AnalysisResult:
        # There are none yet while copies and unpickled sets are filled.
        results = self.results if "_results" in self.__dict__ else []
        for result in results:
            if result.key == name:
                return result
        raise AttributeError(
            f"there is no result {name!r}; there are: {', '.join(result.key for result in results)}"
        )

    def __getitem__(self, key: str | int) -> AnalysisResult:
        if isinstance(key, str):
            return self.__getattr__(key)
        return self.results[key]

    def __contains__(self, item: object) -> bool:
        """Whether it is the key of a result, or one of the results."""
        return any(item is result for result in self.results) or (
            isinstance(item, str) and item in self.keys()
        )

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[AnalysisResult]:
        return iter(self.results)

    def __repr__(self) -> str:
        return repr(self.results)
