"""Data sets of files, with one class for each format, as the reference has them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from os import PathLike, fsdecode
from os.path import abspath, isfile
from typing import Any, ClassVar, cast

from framefold import _engine
from framefold.exceptions import FramefoldError, InvalidArgumentError
from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset.base import DataSet

#: The module and class of each format.
CLASSES = {
    "blo": ("blo", "BloDataSet"),
    "dm": ("dm", "DMDataSet"),
    "empad": ("empad", "EMPADDataSet"),
    "frms6": ("frms6", "FRMS6DataSet"),
    "hdf5": ("hdf5", "H5DataSet"),
    "k2is": ("k2is", "K2ISDataSet"),
    "mib": ("mib", "MIBDataSet"),
    "mrc": ("mrc", "MRCDataSet"),
    "npy": ("npy", "NPYDataSet"),
    "prz": ("prz", "PRZDataSet"),
    "raw": ("raw", "RawFileDataSet"),
    "raw_csr": ("raw_csr", "RawCSRDataSet"),
    "seq": ("seq", "SEQDataSet"),
    "ser": ("ser", "SERDataSet"),
    "spe": ("spe", "SPEDataSet"),
    "tiff": ("tiff", "TIFFDataSet"),
    "tvips": ("tvips", "TVIPSDataSet"),
    "zarr": ("zarr", "ZarrDataSet"),
}
#: Taken for the sake of scripts, and of no effect: how data are cut is the engine's choice.
NO_EFFECT = ("tileshape", "target_size", "min_num_partitions", "enable_direct")
#: Former names of options.
FORMER = {"scan_size": "nav_shape", "detector_size": "sig_shape"}
#: Options that are paths.
PATHS = ("gain_map_path", "emipath")

Path = str | PathLike[str]


class FileDataSet(DataSet):
    """The frames of a file, or of a set of files; the base of the class of each format.

    The file is opened, and its headers are read, when the data set is made.
    """

    #: The name of the format, as :meth:`framefold.Context.load` takes it.
    filetype: ClassVar[str] = "auto"

    def __init__(self, path: Path | Sequence[Path], **options: Any) -> None:
        engine, how = open_files(self.filetype, path, options)
        super().__init__(engine)
        self._opened_with = how

    @classmethod
    def detect_params(cls, path: Path, executor: Any = None) -> dict[str, Any] | bool:
        """What the constructor may be given for a file; False if it is of another format.

        Returns
        -------
        ``{"parameters": {"path": …, "nav_shape": …, "sig_shape": …}, "info": {"image_count": …,
        "native_sig_shape": …}}``
        """
        try:
            filetype, _ = _engine.detect(fsdecode(path))
            if filetype != cls.filetype:
                return False
            dataset = of_format(filetype)(path)
        except FramefoldError:
            return False
        nav, sig = tuple(dataset.shape.nav), tuple(dataset.shape.sig)
        parameters: dict[str, Any] = {"path": fsdecode(path), "nav_shape": nav, "sig_shape": sig}
        name = dataset.meta.get("data set", "")
        if filetype in ("hdf5", "zarr") and name and " " not in name:
            parameters["ds_path"] = name
        info = {"image_count": dataset.shape.nav.size, "native_sig_shape": sig}
        return {"parameters": parameters, "info": info}

    @classmethod
    def get_supported_extensions(cls) -> set[str]:
        """Endings of the names of such files, without a dot."""
        return set(_engine.known_extensions().get(cls.filetype, []))

    @classmethod
    def get_supported_io_backends(cls) -> list[str]:
        """The names that ``io_backend`` takes."""
        return ["mmap", "buffered"]

    def get_cache_key(self) -> str:
        """The format, the path and the options, as text."""
        return repr(self._opened_with)


def open_files(
    filetype: str, path: Path | Sequence[Path], options: dict[str, Any]
) -> tuple[_engine.Dataset, tuple[str, str, dict[str, Any]]]:
    """Opens files; also what it takes to open them again."""
    options = _without_former(filetype, options)
    if isinstance(path, (list, tuple)):
        options["files"] = [abspath(fsdecode(file)) for file in path]
        if not options["files"]:
            raise InvalidArgumentError(f"load({filetype!r}, …) got an empty list of files")
        path = options["files"][0]
    backend = options.get("io_backend")
    if isinstance(backend, IOBackend):
        options["io_backend"] = backend.name
    for option in PATHS:
        if options.get(option) is not None:
            # Worker processes may run in another folder.
            options[option] = abspath(fsdecode(options[option]))
    name = fsdecode(cast("Path", path))
    engine = _engine.load(filetype, name, options)
    if "files" not in options and engine.format != "zarr" and not isfile(name):
        # Whoever opens it again gets the same files, even if the folder has others by then.
        options = {**options, "files": [abspath(file) for file in engine.paths]}
        name = options["files"][0]
    return engine, (filetype, abspath(name), options)


def of_format(filetype: str) -> type[FileDataSet]:
    """The class of a format."""
    if filetype not in CLASSES:
        return FileDataSet
    module, name = CLASSES[filetype]
    found: type[FileDataSet] = getattr(import_module(f"framefold.io.dataset.{module}"), name)
    return found


def _without_former(filetype: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options by the names that the engine knows, without those of no effect."""
    options = {name: value for name, value in options.items() if name not in NO_EFFECT}
    for former, name in FORMER.items():
        value = options.pop(former, None)
        if value is None:
            continue
        if options.get(name) is not None:
            raise InvalidArgumentError(f"{former} is another name of {name}: pass {name} alone")
        warnings.warn(f"{former} is now called {name}", FutureWarning, stacklevel=4)
        options[name] = value
    return options
