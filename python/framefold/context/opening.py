"""The part of :class:`framefold.Context` that opens data sets."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from framefold.common._tracebacks import shortened
from framefold.exceptions import ArgumentTypeError
from framefold.io.dataset._opening import load_as
from framefold.io.dataset.base import DataSet

__all__ = ["OpenMethods"]


class OpenMethods:
    """Base of :class:`framefold.Context`: from files and arrays to data sets."""

    @shortened
    def open(
        self, path: str | PathLike[str] | Sequence[str | PathLike[str]], **options: Any
    ) -> DataSet:
        """Open a file, finding out by its contents what it is.

        Parameters
        ----------
        path
            The file; any member of a set of files; a folder of files that make up a stack, or a
            pattern such as ``'scan/*.tif'``, in natural order (``img2`` before ``img10``); or a
            list of files that make up a stack, in the order of the list.
        **options
            As for :meth:`load`.

        Raises
        ------
        UnsupportedError
            If no format recognizes the file; the message says what it begins with.
        """
        if hasattr(path, "shape") and hasattr(path, "dtype") and not isinstance(path, (str, bytes)):
            raise ArgumentTypeError(
                f"open takes the path of a file, and this is of type {type(path).__name__}; use "
                f"load('memory', data=…) for an array, and load('dask', …) for one of Dask"
            )
        return self.load("auto", path, **options)

    @shortened
    def load(self, filetype: str | type[DataSet], *args: Any, **options: Any) -> DataSet:
        """Open a data set of a given type.

        Parameters
        ----------
        filetype
            The format, as ``framefold formats`` lists them, or ``'memory'``, ``'dask'`` or
            ``'auto'``, in small letters or capitals; or the class of a format.
        path
            The file, folder, pattern or list of files, as for :meth:`open`, for all types but
            ``'memory'`` and ``'dask'``. Further options may follow without names, in the order of
            the class of the format, such as
            :class:`~framefold.io.dataset.hdf5.H5DataSet`.
        files : list of paths
            The files of a stack, in the order of their frames; in the place of ``path``. Not for
            formats that find their files themselves: ``'mib'``, ``'tvips'``, ``'k2is'``,
            ``'frms6'``, ``'raw_csr'``.
        nav_shape, sig_shape : tuple of int
            Shapes of the scan and of a frame, where the file does not say or to override it.
        dtype
            The dtype of the pixels, for ``'raw'``; type strings give the byte order: ``'>u2'``.
            For ``'mrc'``: whether pixels of 8 bits have a sign.
        sync_offset : int
            Position ``p`` of the scan shows frame ``p + sync_offset``. Positions without a frame
            are skipped, and invalid in results. Where the file knows (``'tvips'``, ``'k2is'``),
            the default is what it says.
        io_backend : {'mmap', 'buffered'}
            How files are read; use ``'buffered'`` on network file systems.
        num_partitions : int
            How many partitions to process the data in.
        flip : {'y', 'x', 'yx'}
        transpose : bool
            Reverse the rows, the columns or both of all frames, for all types, after their rows and
            columns were swapped with ``transpose=True``: as for
            :meth:`DataSet.orient() <framefold.io.dataset.base.DataSet.orient>`. Shapes among the
            options are those of the file; what is said of axes, and results, are of the turned
            frames.
        scan_step, pixel_size, rotation, centre, names
            Steps, units and names of axes in the place of those of the file, for all types: as for
            :meth:`DataSet.calibrate() <framefold.io.dataset.base.DataSet.calibrate>`.
        ds_path : str
            The data set within a file that holds many, for ``'hdf5'`` and ``'zarr'``.
        sig_dims : int
            How many of the last axes are signal axes, for ``'npy'``, ``'hdf5'``,
            ``'zarr'`` and ``'memory'``.
        file_header, file_footer, frame_header, frame_footer : int
            Bytes to skip, for ``'raw'``.
        disable_glob : bool
            Read only the named file of a set, for ``'mib'`` and ``'tvips'``.
        quad_gap : {'omit', 'insert'}
            The gap between chips of a quad detector in raw mode, for ``'mib'``.
        same_offset : bool
            Take all files of a stack to be laid out like the first one, for ``'dm'``.
        force_c_order : bool
            Take the axes to be in the order scan, detector, whatever the file says, for ``'dm'``.
        dataset_index : int
            Which of several images to read, thumbnails counted, for ``'dm'``; which of several
            series of pages, for ``'tiff'``.
        emipath
            The file of meta data, where it is not named like the series, for ``'ser'``.
        endianess : {'<', '>'}
            The byte order, for ``'blo'``, if the file does not show it.
        enable_corrections : bool
            Whether dark frame, gain map and bad pixels that come with the file are applied, for
            ``'seq'``, ``'frms6'`` and ``'hdf5'``. By default they are, but for the pixel masks of
            ``'hdf5'``, of which a warning tells. ``enable_offset_correction`` is the same.
        gain_map_path
            A text file with a gain map, for ``'frms6'``.
        allow_external_links : bool
            Follow links and names to files outside of the folder of the file, for ``'hdf5'``,
            ``'zarr'`` and ``'raw_csr'``; only for data that you trust.
        tileshape, target_size, min_num_partitions, enable_direct
            Of no effect for files: how data are cut is framefold's own choice.
        scan_size, detector_size
            Former names of ``nav_shape`` and ``sig_shape``.
        data : numpy.ndarray or sparse array of SciPy or PyData
            The array, for ``'memory'``; do not change it during a run. It is available as
            ``dataset.data``. :class:`~framefold.io.dataset.memory.MemoryDataSet` says which arrays
            are read in place, and which other options there are: ``datashape``,
            ``array_backends``, ``tileshape``.
        dask_array : dask.array.Array
            The array, for ``'dask'``. :class:`~framefold.io.dataset.dask.DaskDataSet` says how it
            is read, and which options there are.

        Raises
        ------
        FramefoldError
            If the file cannot be opened; names the file, what was found and what was expected.
        """
        return load_as(filetype, args, options)
