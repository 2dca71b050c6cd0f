"""A data set as users see it.

Long because: half of it says what methods give.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common import _memory
from framefold.common._integers import is_integer
from framefold.common._read_only import ReadOnlyDict, ReadOnlyList
from framefold.common._telling import tell, tell_of
from framefold.common.axes import Axis
from framefold.common.shape import Shape
from framefold.common.tiling_scheme import TilingScheme
from framefold.common.udf import NUMPY, SCIPY_CSR
from framefold.exceptions import (
    ArgumentTypeError,
    BadFileError,
    FileChangedError,
    FramefoldError,
    InvalidArgumentError,
    UnsupportedError,
)
from framefold.io.dataset._backends import (
    BufferedBackend,
    DirectBackend,
    IOBackend,
    MMapBackend,
)
from framefold.io.dataset._calibration import facts_of, turn_of
from framefold.io.dataset._meta import DataSetMeta
from framefold.io.dataset._picking import (
    DataTile,
    Partition,
    all_frames,
    frames_at,
    partitions_of,
)
from framefold.warnings import DataSetWarning, MissingFramesWarning, UnusedCorrectionsWarning

if TYPE_CHECKING:
    from pathlib import Path

    from framefold.arrays.cuda.resident import Resident
    from framefold.io.corrections.corrset import CorrectionSet
    from framefold.io.stages import Stage

__all__ = [
    "BufferedBackend",
    "DataSet",
    "DataSetException",
    "DataSetMeta",
    "DataTile",
    "DirectBackend",
    "IOBackend",
    "MMapBackend",
    "Partition",
    "RoiHelper",
    "TilingScheme",
]

#: The reference's name for what goes wrong with data sets.
DataSetException = FramefoldError


class DataSet:
    """Frames of a file or array, laid out on a scan.

    Made by :meth:`framefold.Context.load` and :meth:`framefold.Context.open`.
    """

    #: File type, absolute path and options; None if it is not a file.
    _opened_with: tuple[str, str, dict[str, Any]] | None = None

    #: What :meth:`orient`, :meth:`pipe` and :meth:`calibrate` were given, in order: methods of the
    #: engine's data set, and what they take.
    _changes: tuple[tuple[str, Any], ...] = ()

    #: Its frames in the memory of a CUDA device, if it was made by :meth:`to_device`.
    _resident: Resident | None = None

    #: Whether a run has said that corrections of the file are not applied.
    _named_unused_corrections = False

    def __init__(self, engine: _engine.Dataset | None = None, **options: Any) -> None:
        if options or not isinstance(engine, _engine.Dataset):
            raise self._without_frames()
        self._set_engine(engine)

    @classmethod
    def _without_frames(cls) -> ArgumentTypeError:
        """For classes that read frames as those of the reference do."""
        return ArgumentTypeError(
            f"{cls.__name__} has no frames: methods such as get_partitions are not called; derive "
            f"it from the class of a format, such as framefold.io.dataset.npy.NPYDataSet, or read "
            f"frames by a format of your own: framefold.register_format"
        )

    def _set_engine(self, engine: _engine.Dataset) -> None:
        self._engine = engine
        shape = engine.shape
        self._shape = Shape(shape, sig_dims=len(shape) - engine.nav_dims)

    @classmethod
    def _of(cls, engine: _engine.Dataset, how: tuple[str, str, dict[str, Any]]) -> Self:
        """The data set of files that are open already."""
        dataset = cls.__new__(cls)
        DataSet.__init__(dataset, engine)
        dataset._opened_with = how
        return dataset

    @classmethod
    def detect_params(cls, path: Any, executor: Any = None) -> dict[str, Any] | bool:
        """What the constructor may be given for a file; False, as this class opens none."""
        return False

    @classmethod
    def get_supported_extensions(cls) -> set[str]:
        """Endings of the names of files of that format, without a dot; none if it is no file."""
        return set()

    @classmethod
    def get_supported_io_backends(cls) -> list[str]:
        """The names that ``io_backend`` takes; none if it is no file."""
        return []

    def initialize(self, executor: Any = None) -> Self:
        """The data set itself: it is ready when it is made."""
        return self

    def check_valid(self) -> bool:
        """True: data that cannot be read are an error when a data set is made."""
        return True

    def set_num_cores(self, cores: int) -> None:
        """Of no effect: how data are cut does not depend on the number of cores."""

    def supports_correction(self) -> bool:
        """Whether ``run_udf`` takes corrections for it."""
        return self._engine.layout != "csr"

    @property
    def array_backends(self) -> tuple[str, ...]:
        """The same as :attr:`native_backends`."""
        return self.native_backends

    def get_diagnostics(self) -> list[dict[str, str]]:
        """The same as :attr:`diagnostics`."""
        return self.diagnostics

    @property
    def shape(self) -> Shape:
        """All axes, navigation first, with ``.nav`` and ``.sig``."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the pixels."""
        return np.dtype(self._engine.dtype)

    @property
    def format(self) -> str:
        """The name of the format, as :meth:`framefold.Context.load` takes it."""
        return self._engine.format

    @property
    def native_backends(self) -> tuple[str, ...]:
        """The array formats in which it has its frames, the best first.

        ``BACKEND_`` constants of :class:`framefold.UDF`; other formats are made of these.
        """
        return (SCIPY_CSR,) if self._engine.layout == "csr" else (NUMPY,)

    @property
    def paths(self) -> list[Path]:
        """The files the data are read from; empty for ``memory``."""
        return self._engine.paths

    @cached_property
    def _inputs(self) -> tuple[str, ...]:
        """What no output may replace, nor be added to: files, folders, and patterns of names."""
        return tuple(self._engine.inputs)

    @property
    def metadata(self) -> dict[str, float | str]:
        """What the headers tell about the experiment, such as ``camera_length``.

        Numbers are in the units of :attr:`metadata_units`; names and units are the same for all
        formats, and what a file does not tell is not there.
        """
        return ReadOnlyDict(
            self._engine.metadata,
            "use calibrate(…) of the data set for scales and units, or change a copy",
        )

    @property
    def metadata_units(self) -> dict[str, str]:
        """The units of :attr:`metadata`; empty for texts and for plain numbers."""
        units = {name: unit for name, unit, _ in _engine.known_metadata()}
        return ReadOnlyDict({name: units[name] for name in self.metadata})

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes with names, steps and units: those of the scan, then those of frames.

        In the order of :attr:`shape`. What :attr:`metadata` says of steps and offsets is in
        them; an axis that the file does not calibrate has the scale 1.0 and no unit.
        """
        return tuple(Axis(*axis) for axis in self._engine.axes)

    def calibrate(
        self,
        *,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> Self:
        """A data set over the same data whose axes have these steps, units and names.

        Data sets do not change: this one stays as it is. What is not given is as before. The same
        are options of :meth:`framefold.Context.open`, :meth:`~framefold.Context.load` and
        :meth:`~framefold.Context.export_dataset`.

        Steps are ``(value, unit)`` or ``'0.5nm'`` for the last two axes of the scan or of frames;
        or one of these for each axis, slowest first. Quantities of pint and astropy are taken,
        too. Steps below 0 say that values fall with the index. Where a step is replaced, 0 stays at
        the pixel where it was.

        Parameters
        ----------
        scan_step
            The distance of neighbouring positions: a length for :attr:`metadata`'s
            ``scan_step_x`` and ``scan_step_y``; with any other unit (``'s'``, ``'K'``) only
            :attr:`axes` has it.
        pixel_size
            The size of a pixel. The unit says of what: an angle is ``angle_step_x``, the inverse of
            a length ``diffraction_step_x``, a length ``image_step_x`` (for spectra a wavelength,
            which only :attr:`axes` has), an energy ``energy_step``.
        rotation
            The rotation of the scan in degrees, or an angle with its unit.
        centre
            The pixel at which the axes of frames have the value 0: ``(cy, cx)``.
        names
            The names of all axes, those of the scan first.

        Raises
        ------
        InvalidArgumentError
            If it does not fit the axes, or a unit is not known.

        Examples
        --------
        >>> import numpy as np, framefold as ff
        >>> ds = ff.Context.make_with("inline").load("memory", data=np.zeros((2, 3, 16, 16)))
        >>> ds.calibrate(scan_step=(0.5, "nm"), pixel_size="1.2mrad", centre=(8, 8)).axes
        (scan_y: 2 × 0.5 nm, scan_x: 3 × 0.5 nm, y: 16 × 1.2 mrad, from -9.6 mrad, \
x: 16 × 1.2 mrad, from -9.6 mrad)
        """
        facts = facts_of(scan_step, pixel_size, rotation, centre, names)
        return self._changed(("calibrated", facts))

    def orient(
        self, *, flip: Literal["y", "x", "yx"] | None = None, transpose: bool = False
    ) -> Self:
        """A data set over the same data whose frames are turned.

        Data sets do not change: this one stays as it is. Rows and columns are swapped first, then
        reversed. All else goes by the turned frames: shapes, masks, corrections, results. Each part
        of a frame is copied once more than without. The same are options of
        :meth:`framefold.Context.open`, :meth:`~framefold.Context.load` and
        :meth:`~framefold.Context.export_dataset`.

        Pixels keep their places: where the scale of an axis is known, it changes its sign when the
        axis is reversed. Corrections of the data set turn with its frames.

        Parameters
        ----------
        flip
            The axes of frames that are reversed: ``'y'`` for rows, the last but one, ``'x'`` for
            columns, the last one, ``'yx'`` for both.
        transpose
            Whether the last two axes of frames are swapped. Names that a file gives to axes go
            with them.

        Raises
        ------
        InvalidArgumentError
            If ``flip`` is something else, or frames of one axis are to be turned in another way
            than by ``flip='x'``.
        UnsupportedError
            If the class of the data set has its own ``get_correction_data``.

        Examples
        --------
        >>> import numpy as np, framefold as ff
        >>> data = np.arange(24).reshape((2, 2, 2, 3))
        >>> ds = ff.Context.make_with("inline").load("memory", data=data)
        >>> ds.orient(flip="y")[0, 0].tolist()
        [[3, 4, 5], [0, 1, 2]]
        >>> ds.orient(transpose=True).shape
        (2, 2, 3, 2)
        """
        turn = turn_of(flip, transpose)
        if type(self).get_correction_data is not DataSet.get_correction_data:
            raise UnsupportedError(
                f"{type(self).__name__} says itself how its frames are corrected, and its "
                f"corrections cannot be turned; turn frames and corrections where they are made"
            )
        return self._changed(("oriented", turn))

    def pipe(self, *stages: Stage | CorrectionSet | str) -> Self:
        """A data set whose frames stages make of the frames of this one; no pixel is read.

        All else goes by the new frames: shapes, masks, results, export. Each is made when it is
        needed, on every executor, in the same pass over the data. Scales and units of axes are
        carried along. Data sets do not change: this one stays as it is.

        Parameters
        ----------
        *stages
            What is done to each frame, in order: :class:`~framefold.io.stages.Bin`,
            :class:`~framefold.io.stages.Crop` and the others of :mod:`framefold.io.stages`; a
            stage of one's own, :class:`~framefold.udf.transform.Transform`; a
            :class:`~framefold.io.corrections.corrset.CorrectionSet`, for instance to subtract a
            background; or a text as after ``--stage`` of the command line. The corrections of this
            data set come before all of them, and the new one has none of its own.

        Raises
        ------
        InvalidArgumentError
            If a stage does not fit the frames, or is none.
        UnsupportedError
            If the class of the data set has its own ``get_correction_data``.

        Examples
        --------
        >>> import numpy as np, framefold as ff
        >>> data = np.arange(2 * 3 * 16 * 16, dtype=np.uint16).reshape((2, 3, 16, 16))
        >>> ds = ff.Context.make_with("inline").load("memory", data=data)
        >>> small = ds.pipe(ff.Crop(np.s_[2:14, 2:14]), ff.Bin(2))
        >>> small.shape, small.dtype
        ((2, 3, 6, 6), dtype('uint32'))
        >>> bool((small[0, 0] == data[0, 0, 2:14, 2:14].reshape(6, 2, 6, 2).sum((1, 3))).all())
        True
        """
        from framefold.io.corrections.corrset import CorrectionSet
        from framefold.io.stages import Stage

        if type(self).get_correction_data is not DataSet.get_correction_data:
            raise UnsupportedError(
                f"{type(self).__name__} says itself how its frames are corrected, which stages "
                f"cannot follow; correct frames where they are made"
            )
        piped = self
        for stage in stages:
            if isinstance(stage, CorrectionSet):
                corrections = stage.for_shape(tuple(piped.shape.sig))
                piped = piped._changed(("piped_corrections", {"corrections": corrections}))
            elif isinstance(stage, str):
                piped = piped._changed(("piped", {"stage": stage}))
            elif isinstance(stage, Stage):
                piped = piped._changed(*stage._changes())
            else:
                raise InvalidArgumentError(
                    f"a stage is {stage!r}, expected one of framefold.io.stages, such as "
                    f"framefold.Bin(2), a CorrectionSet, or a text such as 'bin 2'"
                )
        new = [warning for warning in piped.warnings if warning not in self.warnings]
        tell_of(self._name, new, DataSetWarning)
        return piped

    @property
    def stages(self) -> list[str]:
        """What was done to frames by :meth:`pipe`, in words, in order."""
        return ReadOnlyList(self._engine.stages, "use pipe(…) of the data set")

    @property
    def _transforms(self) -> list[Any]:
        """Those of :attr:`stages` that are classes in Python: each a ``framefold.Transform``."""
        return [value["transform"] for name, value in self._changes if name == "transformed"]

    def to_device(
        self,
        device: int | None = None,
        *,
        roi: Any = None,
        budget: int | None = None,
        progress: Any = False,
    ) -> Self:
        """A data set over the same frames that keeps them in the memory of a CUDA device.

        All frames are read once, now. Runs over the new data set give UDFs that take CuPy arrays
        their tiles from there: nothing is read or sent again. framefold's own reductions run there,
        too. Data sets do not change: this one stays as it is. Corrections of a run are applied to
        its tiles, unless this data set has its own, which are in the frames on the device then.

        Where a run does not use the device, as functions that take NumPy arrays alone, with
        ``backends="numpy"``, or on an executor with ``gpus=0``, it reads what this data set reads.
        So do ``dataset[…]``, and copies and pickles, which hold no frames. The file is read once:
        what is written to it later is not on the device.

        The memory is given back by :meth:`close`, at the end of a ``with`` block, or when the
        last data set with it is let go; :meth:`calibrate` gives others that share it.

        Parameters
        ----------
        device
            The number of the device; the one that runs would use first if None.
        roi
            Which positions of the scan, as for :meth:`framefold.Context.run_udf`; all if None. Runs
            that use the device then need a ROI within it.
        budget
            How many bytes the frames may take at most; 80 % of what the device has free if None.
        progress
            As for :meth:`framefold.Context.run_udf`.

        Returns
        -------
        DataSet
            Of the same class, shape, dtype and meta data. Of frames that this data set corrects,
            the corrected ones in float32, or float64 where that is too narrow, as
            ``pipe(CorrectionSet())`` gives them. :attr:`resident` tells of the memory.

        Raises
        ------
        InvalidArgumentError
            If there is no such device, or the ROI does not fit.
        LimitError
            If the frames do not fit into the budget or the memory of the device: before anything
            is read.
        MissingLibraryError, UnsupportedError
            If there is no CuPy, or no CUDA device; if frames are sparse; if the class of the data
            set has its own ``get_correction_data``.

        Examples
        --------
        >>> with ctx.open("scan.mib").to_device() as resident:  # doctest: +SKIP
        ...     for radius in range(5, 50):
        ...         disk = ff.ApplyMasksUDF([lambda: ff.detectors.disk(resident, r=radius)])
        ...         picture = ctx.run_udf(resident, disk)
        """
        # Runs stand above data sets; this is the one door to them from below.
        resident = import_module("framefold.run.resident")
        made: Self = resident.load(self, device, roi, budget, progress)
        return made

    @property
    def resident(self) -> Resident | None:
        """What of it is on a CUDA device; None for all but those that :meth:`to_device` made.

        With ``device``, its number, ``n_bytes``, and ``roi``: a boolean array of the shape of the
        scan, or None for all frames.
        """
        return self._resident

    def close(self) -> None:
        """Give back the memory on a device that :meth:`to_device` took; of no effect without.

        Runs that would use it are an error from then on. More calls do nothing.
        """
        if self._resident is not None:
            self._resident.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _plain(self) -> Self:
        """The same without frames on a device."""
        return self if self._resident is None else self._with_resident(None)

    def _with_resident(self, resident: Resident | None) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._resident = resident
        return made

    @property
    def _makes_frames(self) -> bool:
        """Whether its frames are made of others, by :meth:`orient` or :meth:`pipe`."""
        return _make_frames(self._changes)

    def _changed(self, *changes: tuple[str, Any]) -> Self:
        if self._resident is not None and _make_frames(changes):
            raise UnsupportedError(
                f"{self._name}: its frames are on CUDA device {self._resident.device} as they are; "
                f"change the data set that it was made from, as in "
                f"dataset.pipe(ff.Bin(2)).to_device()"
            )
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._set_engine(_change(self._engine, changes))
        made._changes = (*self._changes, *changes)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickles hold how frames are turned and what was said of axes as well."""
        if not self._changes:
            return super().__reduce_ex__(protocol)
        return _changed_again, (*self.__reduce__()[:2], self._changes)

    @property
    def meta(self) -> DataSetMeta:
        """More that the file says about itself, for people to read; with shapes as attributes."""
        return DataSetMeta.of(self)

    @property
    def warnings(self) -> list[str]:
        """What is odd about the file but not an error, such as a partial last frame.

        Each of them was a :class:`~framefold.warnings.DataSetWarning` when it was opened.
        """
        return ReadOnlyList(self._engine.warnings, "use Python's warnings.warn(…)")

    @property
    def diagnostics(self) -> list[dict[str, str]]:
        """All of that and :attr:`warnings` as a list of ``{"name": …, "value": …}``."""
        units = self.metadata_units
        rows = [
            {"name": name, "value": f"{value} {units[name]}".rstrip()}
            for name, value in self.metadata.items()
        ]
        rows += [{"name": name, "value": value} for name, value in self._engine.details]
        if self._engine.row_order is not None:
            rows.append({"name": "row order", "value": self._engine.row_order})
        rows += [{"name": "warning", "value": warning} for warning in self.warnings]
        return rows

    @property
    def valid_mask(self) -> npt.NDArray[np.bool_]:
        """Which positions of the scan have data; shape ``shape.nav``."""
        valid = _memory.zeros((self._shape.nav.size,), bool)
        for start, stop in self._engine.positions_with_data:
            valid[start:stop] = True
        return valid.reshape(tuple(self._shape.nav))

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        """Frames as an array: ``ds[y, x]``, ``ds[3:5, -1]``, ``ds[roi]``.

        Parameters
        ----------
        key
            An index of the navigation axes, as NumPy has them: integers, slices, integer arrays,
            a boolean array of shape ``shape.nav``.

        Returns
        -------
        numpy.ndarray
            Shape ``(*selected, *sig)``: what the index makes of the navigation axes, then the
            frame. All of them are in memory, 1 GiB at most. With the data set's own corrections,
            if it has any; in the dtype of :class:`~framefold.udf.raw.PickUDF`, which is that of the
            pixels without corrections.

        Raises
        ------
        IndexError
            If the index does not fit.
        InvalidArgumentError
            If there is no frame at a selected position.
        LimitError
            If more is selected.
        """
        return frames_at(self, key)

    def frame(self, *position: int) -> npt.NDArray[Any]:
        """The frame at a position of the scan: ``dataset.frame(3, 4)``, short for one of ``[…]``.

        Parameters
        ----------
        *position
            An integer for each navigation axis, negative ones counted from the end.

        Returns
        -------
        numpy.ndarray
            Shape ``shape.sig``, as :meth:`__getitem__` gives it.

        Raises
        ------
        IndexError
            If the position does not fit the scan.
        InvalidArgumentError
            If it is not one integer for each navigation axis, or there is no frame.
        """
        nav = tuple(self._shape.nav)
        if len(position) != len(nav) or not all(map(is_integer, position)):
            raise InvalidArgumentError(
                f"frame{position} does not fit a scan of shape {nav}; give one integer for each "
                f"navigation axis, or use dataset[…] for several frames"
            )
        return self[position]

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """All frames, for ``np.asarray(dataset)``: ``dataset[...]``, 1 GiB at most."""
        frames = all_frames(self, copy)
        return frames if dtype is None else frames.astype(dtype, copy=False)

    def plot(self, *position: int, ax: Any = None) -> Any:
        """Draw the sum of all frames, or the frame at a position, with matplotlib.

        Parameters
        ----------
        *position
            As for :meth:`frame`. Without one, all data are read, on all cores, and summed.
        ax
            The :class:`matplotlib.axes.Axes` to draw into; new ones if None.

        Returns
        -------
        matplotlib.axes.Axes
            Frames of two axes are an image with y downwards, those of one a curve. Of complex
            pixels, the magnitude.

        Raises
        ------
        InvalidArgumentError
            As for :meth:`frame`.
        MissingLibraryError
            If there is no matplotlib.
        UnsupportedError
            If frames have more than two axes.
        """
        from framefold.io.dataset._drawing import draw

        return draw(self, position, ax)

    def get_partitions(self) -> Iterator[Partition]:
        """Its partitions in order, for loops by hand; runs do not need them.

        Those of a run of :class:`~framefold.udf.raw.PickUDF` over all positions.
        """
        return partitions_of(self)

    def get_num_partitions(self) -> int:
        """How many :meth:`get_partitions` gives."""
        return sum(1 for _ in self.get_partitions())

    @property
    def roi(self) -> RoiHelper:
        """Makes regions of interest by indexing: ``dataset.roi[3:5, :]``."""
        return RoiHelper(tuple(self._shape.nav))

    @property
    def _name(self) -> str:
        """What warnings call it."""
        if self._opened_with is not None:
            return f"'{self._opened_with[1]}'"
        return f"the data set '{self.format}' of shape {self._shape}"

    def _tell_oddities(self) -> None:
        """Warn of all that is odd, of data in memory; :func:`open_files` does so for files."""
        tell_of(self._name, self.warnings, DataSetWarning)

    def _tell_missing(self, roi: npt.NDArray[np.bool_] | None) -> None:
        """Warn of positions without data among those that a run takes part in."""
        n_selected = self._shape.nav.size
        n_there = sum(stop - start for start, stop in self._engine.positions_with_data)
        if n_there == n_selected:
            return
        if roi is not None:
            n_selected = int(np.count_nonzero(roi))
            n_there = int(np.count_nonzero(roi & self.valid_mask))
        if n_there < n_selected:
            what = "have no data: they do not count, and are"
            if n_selected - n_there == 1:
                what = "has no data: it does not count, and is"
            tell(
                f"{self._name}: {n_selected - n_there} of {n_selected} selected scan positions "
                f"{what} not in valid_mask of results",
                MissingFramesWarning,
            )

    def _name_unused_corrections(self) -> None:
        """Warn, once, of corrections of the file that runs do not apply."""
        sentence = self._engine.unused_corrections
        if sentence is None or self._named_unused_corrections:
            return
        self._named_unused_corrections = True
        names = "".join(f"'{path}': " for path in self.paths[:1])
        tell(f"{names}{sentence}", UnusedCorrectionsWarning)

    def get_correction_data(self) -> CorrectionSet:
        """The corrections that come with the data; an empty set if there are none.

        ``run_udf`` applies them unless it is given others; ``CorrectionSet()`` says none. Pixel
        masks of ``hdf5`` are among them if the data were opened with ``enable_corrections=True``.
        """
        from framefold.io.corrections.corrset import CorrectionSet

        own = self._engine.corrections
        if own is None:
            return CorrectionSet()
        excluded = None
        if own.excluded:
            excluded = np.zeros(tuple(self.shape.sig), dtype=bool)
            excluded.flat[own.excluded] = True
        return CorrectionSet(own.dark, own.gain, excluded, allow_empty=True)

    def _corrected(
        self, corrections: CorrectionSet | None, roi: npt.NDArray[np.bool_ | np.intp] | None
    ) -> tuple[CorrectionSet | None, _engine.Dataset]:
        """The corrections of a run, None for none, and the engine's data set that applies them.

        Parameters
        ----------
        corrections
            As for :meth:`framefold.Context.run_udf`: the data set's own if None; an empty set is
            none at all.
        roi
            Boolean, of the shape of the navigation axes, or flat positions; None for all.

        Raises
        ------
        InvalidArgumentError
            If they do not fit the data set, or are no :class:`CorrectionSet`.
        UnsupportedError
            If they would take the place of others that are in frames on a device already.
        """
        if corrections is not None and self._resident and self._resident.are_corrected:
            raise UnsupportedError(
                f"{self._name}: its frames on CUDA device {self._resident.device} have the "
                f"corrections of the data set, of which corrections=… would take the place; leave "
                f"corrections out, or run over the data set that this one was made from"
            )
        frames = self._frames_of(roi)
        if frames is not self._engine:
            frames = _change(frames, self._changes)
        if corrections is None:
            inherited = type(self).get_correction_data is DataSet.get_correction_data
            if inherited and frames.corrections is None:
                self._name_unused_corrections()
                return None, frames
            corrections = self.get_correction_data()
        from framefold.io.corrections.corrset import CorrectionSet

        if not isinstance(corrections, CorrectionSet):
            raise InvalidArgumentError(
                f"corrections is a {type(corrections).__name__}; "
                f"use framefold.io.corrections.CorrectionSet(dark=…, gain=…, excluded_pixels=…)"
            )
        if not corrections.have_corrections():
            return corrections, frames.with_corrections(None)
        engine = corrections.for_shape(tuple(self.shape.sig))
        return corrections, frames.with_corrections(engine)

    def _frames_of(self, roi: npt.NDArray[np.bool_ | np.intp] | None) -> _engine.Dataset:
        """The engine's data set, which may leave out what only other frames need."""
        return self._engine

    def _for_tasks(self) -> DataSet:
        """The same without data that tasks are given (:meth:`_with_blocks`)."""
        return self

    def _with_blocks(
        self, frames: tuple[int, int], roi: npt.NDArray[np.bool_] | None, blocks: Any
    ) -> AbstractContextManager[None]:
        """While entered, this thread reads what it was given for these selected frames."""
        return nullcontext()

    def _blocks(
        self, partitions: Sequence[tuple[int, int]], roi: npt.NDArray[np.bool_] | None
    ) -> tuple[Any, list[list[Any]]]:
        """A Dask array that the data are in, and for each partition the keys of its chunks.

        None, if they are in none.
        """
        return None, []

    def _explain(self) -> str:
        """What is to be said about how data are read: lines, or nothing."""
        if self._resident is None:
            return ""
        return f"resident    {self._resident}, for functions that get CuPy arrays\n"

    def get_sync_offset_info(self) -> dict[str, int]:
        """How many frames are left out, and how many positions stay empty, at either end."""
        return self._engine.sync_info

    @property
    def _held(self) -> list[Any]:
        """The futures of a Dask cluster that hold parts of the data: none, for all others."""
        return []

    @property
    def _bytes_to_copy(self) -> int:
        """How many bytes of data have to be sent to where the data are not."""
        return 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles hold the path, not the frames: the file is opened again.

        It has to be the same one: see :class:`framefold.exceptions.FileChangedError`.
        """
        if self._opened_with is None:
            raise UnsupportedError(
                f"{self!r} cannot be pickled: it is not known how to open it again; "
                f"use a data set from Context.load"
            )
        return _open_again, (type(self), self._opened_with, self._engine.stamps)

    def _check_files(self) -> None:
        """Raise if a file was replaced or written to since it was opened."""
        try:
            self._engine.check_unchanged()
        except BadFileError as error:
            raise _file_changed(error) from None

    def __repr__(self) -> str:
        there = "" if self._resident is None else f", {self._resident}"
        return f"<DataSet {self.format} shape={self._shape} dtype={self.dtype}{there}>"


def _open_again(cls: type[DataSet], how: tuple[str, str, dict[str, Any]], stamps: bytes) -> DataSet:
    engine = _engine.load(*how, stamps)
    try:
        engine.check_same(stamps)
    except BadFileError as error:
        raise _file_changed(error) from None
    dataset = cls._of(engine, how)
    # The warnings were shown where the data set was opened first.
    dataset._named_unused_corrections = True
    return dataset


def _make_frames(changes: tuple[tuple[str, Any], ...]) -> bool:
    """Whether frames are others after these changes; calibrations leave them as they are."""
    return any(name != "calibrated" for name, _ in changes)


def _change(engine: _engine.Dataset, changes: tuple[tuple[str, Any], ...]) -> _engine.Dataset:
    for method, values in changes:
        engine = getattr(engine, method)(**values)
    return engine


def _changed_again(
    make: Any, arguments: tuple[Any, ...], changes: tuple[tuple[str, Any], ...]
) -> DataSet:
    dataset: DataSet = make(*arguments)
    return dataset._changed(*changes)


def _file_changed(error: BadFileError) -> FileChangedError:
    changed = FileChangedError(*error.args)
    changed.path, changed.hint = error.path, error.hint
    return changed


class RoiHelper:
    """Turns an index into a region of interest; see :attr:`DataSet.roi`."""

    def __init__(self, nav: tuple[int, ...]) -> None:
        self._nav = nav

    def __getitem__(self, index: Any) -> npt.NDArray[np.bool_]:
        """A boolean array of shape ``nav`` that is True at what ``index`` selects.

        Raises
        ------
        IndexError
            If the index does not fit the navigation axes.
        """
        roi = np.zeros(self._nav, dtype=bool)
        try:
            roi[index] = True
        except (IndexError, OverflowError) as error:
            raise IndexError(
                f"the index does not fit a scan of shape {self._nav}: {error}; dataset.roi[…] "
                f"takes integers, slices and arrays for the navigation axes"
            ) from None
        return roi
