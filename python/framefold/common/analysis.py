"""Results of analyses: named arrays, each with a title and a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["AnalysisResult", "AnalysisResultSet"]


class AnalysisResult:
    """One result of an analysis; can be used wherever an array can.

    Parameters
    ----------
    raw_data
        The numbers.
    picture
        Makes the picture of the numbers; called when it is first looked at.
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
        picture: Callable[[npt.NDArray[Any]], npt.NDArray[np.uint8]],
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
        self._picture = picture
        self._visualized: npt.NDArray[np.uint8] | None = None

    @property
    def visualized(self) -> npt.NDArray[np.uint8]:
        """A picture of it: RGBA or RGB, shape ``(y, x, 4)`` or ``(y, x, 3)``; needs matplotlib."""
        if self._visualized is None:
            self._visualized = self._picture(self.raw_data)
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
        return np.array(self.raw_data, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"<AnalysisResult: {self.key}>"


class AnalysisResultSet:
    """The results of an analysis, reached by key, as attributes, or by number.

    Parameters
    ----------
    results
        In the order in which they are listed and numbered.
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

    def __init__(self, results: Sequence[AnalysisResult], raw_results: Any = None) -> None:
        self.results = list(results)
        self.raw_results = raw_results

    def keys(self) -> list[str]:
        """The names of the results."""
        return [result.key for result in self.results]

    def __getattr__(self, name: str) -> AnalysisResult:
        # Not through self.results: it is missing while copies and unpickled sets are filled.
        for result in self.__dict__.get("results", ()):
            if result.key == name:
                return result  # type: ignore[no-any-return]
        raise AttributeError(
            f"there is no result {name!r}; there are: "
            f"{', '.join(result.key for result in self.__dict__.get('results', ()))}"
        )

    def __getitem__(self, key: str | int) -> AnalysisResult:
        if isinstance(key, str):
            return self.__getattr__(key)
        return self.results[key]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[AnalysisResult]:
        return iter(self.results)

    def __repr__(self) -> str:
        return repr(self.results)
