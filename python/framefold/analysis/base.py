"""What analyses have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from framefold.common.analysis import AnalysisResult, AnalysisResultSet
from framefold.common.buffers import BufferWrapper
from framefold.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet
    from framefold.udf.base import UDF

__all__ = ["Analysis", "BaseAnalysis", "frame_results", "picture_of", "scan_results"]


class Analysis:
    """Base class of analyses; run by :meth:`framefold.Context.run`.

    Parameters
    ----------
    dataset
        What is analysed.
    parameters
        By name; each class says which.
    """

    #: What computes it; there are only analyses by UDFs.
    TYPE: ClassVar[str] = "UDF"
    #: Analyses by the names that they were declared with: ``class Mine(Analysis, id_="MINE")``.
    registry: ClassVar[dict[str, type[Analysis]]] = {}

    def __init_subclass__(cls, id_: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if id_ is not None:
            Analysis.registry[id_] = cls

    def __init__(self, dataset: DataSet, parameters: Mapping[str, Any] | None = None) -> None:
        self.dataset = dataset
        self.parameters = self.get_parameters(dict(parameters or {}))

    @classmethod
    def get_analysis_by_type(cls, id_: str) -> type[Analysis]:
        """The class of that name, such as ``'SUM_FRAMES'``.

        Raises
        ------
        InvalidArgumentError
            If there is none.
        """
        from framefold import analysis

        if id_ in cls.registry:
            return cls.registry[id_]
        if id_ not in analysis.IDS:
            names = ", ".join(sorted({*analysis.IDS, *cls.registry}))
            raise InvalidArgumentError(f"there is no analysis {id_!r}; there are {names}")
        found: type[Analysis] = getattr(analysis, analysis.IDS[id_])
        return found

    def get_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Fill in defaults; called by the constructor. Subclasses may implement it."""
        return parameters

    def get_udf(self) -> UDF:
        """The UDF that computes it."""
        raise NotImplementedError(f"{type(self).__name__} does not implement get_udf")

    def prepare(self, run_udf: Callable[..., Any]) -> None:
        """What comes before :meth:`get_udf`, for analyses that need a pass of their own before.

        Parameters
        ----------
        run_udf
            :meth:`framefold.Context.run_udf` over the data set of this analysis.
        """

    def _doubts(self) -> list[str]:
        """What is odd about its parameters, and no error, besides what its UDF says."""
        return []

    def get_roi(self) -> npt.NDArray[np.bool_] | None:
        """Which positions it needs, shape ``nav``; None if that is the caller's choice."""
        return None

    def get_udf_results(
        self, udf_results: Mapping[str, BufferWrapper], roi: Any, damage: Any
    ) -> AnalysisResultSet:
        """The results from those of the UDF.

        Parameters
        ----------
        udf_results
            Of :meth:`get_udf`.
        roi
            That the UDF was run with, shape ``nav``, or None.
        damage
            Which positions are merged so far: bool, shape ``nav``; or True for all.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement get_udf_results")


#: The reference has two classes, of which scripts use either.
BaseAnalysis = Analysis


def frame_results(
    frame: npt.NDArray[Any],
    real: str,
    complex_: str,
    kind: type[AnalysisResultSet] = AnalysisResultSet,
) -> AnalysisResultSet:
    """The results for something that looks like a frame, on the scales that one looks at it with.

    Parameters
    ----------
    frame
        Real or complex, of the shape of a frame.
    real, complex_
        What it is, for the descriptions of real and of complex data.
    kind
        The class of the set.
    """
    if frame.dtype.kind != "c":
        return kind(
            [
                _result(frame, "intensity", "log", f"{real} log-scaled", logarithmic=True),
                _result(frame, "intensity_lin", "lin", f"{real} lin-scaled"),
            ]
        )
    magnitude = np.abs(frame)
    return kind(
        [
            _result(magnitude, "intensity_lin", "magn", f"{complex_} [magn]"),
            _result(
                magnitude, "intensity", "log(magn)", f"{complex_} [log(magn)]", logarithmic=True
            ),
            _result(frame.real, "intensity_real", "real", f"{complex_} [real]"),
            _result(frame.imag, "intensity_imag", "imag", f"{complex_} [imag]"),
            _result(np.angle(frame), "intensity_angle", "angle", f"{complex_} [angle]"),
            _result(frame, "intensity_complex", "complex", f"{complex_} [complex]"),
        ]
    )


def scan_results(
    values: npt.NDArray[Any], key: str, title: str, desc: str, scales: bool = True
) -> list[AnalysisResult]:
    """The results for one number per position of the scan, on the scales that one looks at.

    Parameters
    ----------
    values
        Real or complex, of the shape of the scan.
    key, title, desc
        The name, and the short and the long description, without the scale.
    scales
        Whether real numbers are there on a linear and on a logarithmic scale, ``key`` and
        ``key_log``. Complex numbers always are: the magnitude, then ``key_real``, ``key_imag``,
        ``key_angle`` and ``key_complex``.
    """

    def one(
        part: npt.NDArray[Any], ending: str, scale: str, dash: str, logarithmic: bool = False
    ) -> AnalysisResult:
        picture = picture_of(logarithmic)
        return AnalysisResult(part, picture, f"{title}{scale}", f"{desc}{dash}", f"{key}{ending}")

    if values.dtype.kind != "c":
        if not scales:
            return [one(values, "", "", "")]
        return [
            one(values, "", " [lin]", " lin-scaled"),
            one(values, "_log", " [log]", " log-scaled", logarithmic=True),
        ]
    magnitude = np.abs(values)
    parts = {"real": values.real, "imag": values.imag, "angle": np.angle(values)}
    return [
        one(magnitude, "", " [magn]", " [magn]"),
        one(magnitude, "_log", " [log(magn)]", " [log(magn)]", logarithmic=True),
        *(one(part, f"_{name}", f" [{name}]", f" [{name}]") for name, part in parts.items()),
        one(values, "_complex", " [complex]", " [complex]"),
    ]


def _result(
    data: npt.NDArray[Any], key: str, scale: str, desc: str, logarithmic: bool = False
) -> AnalysisResult:
    return AnalysisResult(data, picture_of(logarithmic), f"intensity [{scale}]", desc, key)


def picture_of(logarithmic: bool) -> Callable[[npt.NDArray[Any]], npt.NDArray[np.uint8]]:
    """What makes pictures of numbers on one of both scales."""
    return partial(_picture, logarithmic=logarithmic)


def _picture(numbers: npt.NDArray[Any], logarithmic: bool) -> npt.NDArray[np.uint8]:
    from framefold.viz import visualize_simple

    # A line is a picture of one row, and a stack of scans one below the other.
    rows = numbers.reshape((-1, numbers.shape[-1]))
    return visualize_simple(rows, logarithmic=logarithmic)
