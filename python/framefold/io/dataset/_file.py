"""Data sets of files, with one class for each format, as the reference has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from os.path import exists, isfile
from typing import Any, ClassVar, NamedTuple

from framefold import _engine
from framefold.common._items import in_order, listed
from framefold.common._paths import absolute, path_text
from framefold.common._telling import tell, tell_of
from framefold.exceptions import ArgumentTypeError, FramefoldError, InvalidArgumentError
from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset._calibration import split_facts
from framefold.io.dataset._table import FormatRow, format_rows
from framefold.io.dataset.base import DataSet
from framefold.warnings import DataSetWarning


class Place(NamedTuple):
    """Where the reference has the class of a format, and in which order that takes values."""

    module: str
    name: str
    order: str = "path"


#: The class of each format. Types, defaults and help are in the engine's table; an option that the
#: reference does not have has a name only, so that positions are those of the reference.
CLASSES = {
    "blo": Place(
        "blo",
        "BloDataSet",
        "path tileshape endianess nav_shape sig_shape sync_offset io_backend num_partitions",
    ),
    "dm": Place("dm", "DMDataSet"),
    "empad": Place(
        "empad",
        "EMPADDataSet",
        "path scan_size nav_shape sig_shape sync_offset io_backend num_partitions",
    ),
    "frms6": Place(
        "frms6",
        "FRMS6DataSet",
        "path enable_offset_correction gain_map_path dest_dtype nav_shape sig_shape sync_offset "
        "io_backend num_partitions",
    ),
    "hdf5": Place(
        "hdf5",
        "H5DataSet",
        "path ds_path tileshape nav_shape sig_shape target_size min_num_partitions sig_dims "
        "io_backend sync_offset num_partitions",
    ),
    "k2is": Place(
        "k2is",
        "K2ISDataSet",
        "path nav_shape sig_shape sync_offset io_backend num_partitions",
    ),
    "mib": Place(
        "mib",
        "MIBDataSet",
        "path tileshape scan_size disable_glob nav_shape sig_shape sync_offset io_backend "
        "num_partitions",
    ),
    "mrc": Place(
        "mrc", "MRCDataSet", "path nav_shape sig_shape sync_offset io_backend num_partitions"
    ),
    "npy": Place(
        "npy",
        "NPYDataSet",
        "path sig_dims nav_shape sig_shape sync_offset io_backend num_partitions",
    ),
    "prz": Place("prz", "PRZDataSet"),
    "raw": Place(
        "raw",
        "RawFileDataSet",
        "path dtype scan_size detector_size enable_direct detector_size_raw crop_detector_to "
        "tileshape nav_shape sig_shape sync_offset io_backend num_partitions",
    ),
    "raw_csr": Place(
        "raw_csr",
        "RawCSRDataSet",
        "path nav_shape sig_shape sync_offset io_backend num_partitions",
    ),
    "seq": Place(
        "seq",
        "SEQDataSet",
        "path scan_size nav_shape sig_shape sync_offset io_backend num_partitions",
    ),
    "ser": Place(
        "ser",
        "SERDataSet",
        "path emipath nav_shape sig_shape sync_offset io_backend num_partitions",
    ),
    "spe": Place("spe", "SPEDataSet"),
    "tiff": Place("tiff", "TIFFDataSet"),
    "tvips": Place(
        "tvips", "TVIPSDataSet", "path nav_shape sig_shape sync_offset io_backend num_partitions"
    ),
    "zarr": Place(
        "zarr",
        "ZarrDataSet",
        "path ds_path sig_dims nav_shape sig_shape sync_offset io_backend num_partitions",
    ),
}
#: Taken for the sake of scripts, and of no effect: how data are cut is the engine's choice.
NO_EFFECT = ("tileshape", "target_size", "min_num_partitions", "enable_direct")
#: Former names of options.
FORMER = {"scan_size": "nav_shape", "detector_size": "sig_shape"}
#: Options that the reference refuses, too, or that have another way here.
REFUSED = {
    "detector_size_raw": "pass sig_shape, and frame_header or frame_footer for what is before or "
    "after the pixels of a frame",
    "crop_detector_to": "pass sig_shape, and frame_header or frame_footer for what is before or "
    "after the pixels of a frame",
    "dest_dtype": "each function says which dtype it wants",
}

Path = str | PathLike[str]


class FileDataSet(DataSet):
    """The frames of a file, or of a set of files; the base of the class of each format.

    The file is opened, and its headers are read, when the data set is made.
    """

    #: The name of the format, as :meth:`framefold.Context.load` takes it.
    filetype: ClassVar[str] = "auto"
    #: The names of what may be given without one.
    _order: ClassVar[tuple[str, ...]] = ("path",)

    def __init__(self, *values: Any, **options: Any) -> None:
        options, turn, facts = split_facts(self._by_name(values, options))
        first = self._order[0]
        if options.get(first) is None:
            raise ArgumentTypeError(f"{type(self).__name__}(…) takes {first}, got none")
        path = options.pop(first)
        path = _several(path) if first == "files" else path
        engine, how = open_files(self.filetype, path, options)
        super().__init__(engine)
        self._opened_with = how
        turned = self.orient(**turn) if turn else self
        self.__dict__.update((turned.calibrate(**facts) if facts else turned).__dict__)

    @classmethod
    def _by_name(cls, values: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
        """All values by their names."""
        if len(values) > len(cls._order):
            raise ArgumentTypeError(
                f"{cls.__name__}(…) takes {len(cls._order)} values without names "
                f"({', '.join(cls._order)}), got {len(values)}"
            )
        named = dict(zip(cls._order, values, strict=False))
        for name in named:
            if name in options:
                raise ArgumentTypeError(f"{cls.__name__}(…) got {name} twice")
        return {**named, **options}

    @classmethod
    def detect_params(cls, path: Path, executor: Any = None) -> dict[str, Any] | bool:
        """What the constructor may be given for a file; False if it is of another format.

        Returns
        -------
        ``{"parameters": {"path": …, "nav_shape": …, "sig_shape": …}, "info": {"image_count": …,
        "native_sig_shape": …}}``
        """
        text = path_text("path", path)
        try:
            filetype, _ = _engine.detect(text)
            if filetype != cls.filetype:
                return False
            dataset = cls._of(*open_files(filetype, path, {}, quiet=True))
        except FramefoldError:
            return False
        nav, sig = tuple(dataset.shape.nav), tuple(dataset.shape.sig)
        parameters: dict[str, Any] = {"path": text, "nav_shape": nav, "sig_shape": sig}
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
    filetype: str,
    path: Path | Sequence[Path],
    options: dict[str, Any],
    *,
    quiet: bool = False,
) -> tuple[_engine.Dataset, tuple[str, str, dict[str, Any]]]:
    """Opens files; also what it takes to open them again.

    Warns of what is odd, unless it is ``quiet``.
    """
    options = _without_former(filetype, options)
    if isinstance(path, (list, tuple)):
        options["files"] = [absolute(path_text("path", file)) for file in path]
        if not options["files"]:
            raise InvalidArgumentError(f"load({filetype!r}, …) got an empty list of files")
        path = options["files"][0]
    backend = options.get("io_backend")
    if isinstance(backend, IOBackend):
        options["io_backend"] = backend.name
    known = format_rows()
    name = path_text("path", path)
    for option in _given_paths(filetype, name, options, known):
        # Worker processes may run in another folder.
        options[option] = absolute(path_text(option, options[option]))
    engine = _engine.load(filetype, name, options)
    for row in [known[engine.format]] if engine.format in known else []:
        options = {**options, **_default_paths(row, options)}
    if engine.format not in CLASSES:
        # A process that opens it again may know no other of the added formats.
        filetype = engine.format if engine.format in known else filetype
    is_set = engine.format in CLASSES and engine.format != "zarr" and not isfile(name)
    if "files" not in options and is_set:
        # Opened again, it has the same files, even if the folder has others by then.
        options = {**options, "files": [absolute(file) for file in engine.paths]}
        name = options["files"][0]
    oddities = [] if quiet else engine.warnings
    try:
        tell_of(f"'{absolute(name)}'", oddities, DataSetWarning)
    except Warning:
        # Of the file, nothing stays open that the traceback could hold.
        del engine
        raise
    return engine, (filetype, absolute(name), options)


def _given_paths(
    filetype: str, path: str, options: Mapping[str, Any], known: Mapping[str, FormatRow]
) -> list[str]:
    """The options that are given, and are paths for the format that opens the file."""
    given = [name for name, value in options.items() if value is not None]
    if filetype == "auto" and any(name in row.paths for name in given for row in known.values()):
        with suppress(FramefoldError):  # which is raised again when it is opened
            filetype, _ = _engine.detect(path)
    return [name for name in given if filetype in known and name in known[filetype].paths]


def _default_paths(row: FormatRow, options: Mapping[str, Any]) -> dict[str, str]:
    """The options of a format that are paths by default, for processes in other folders."""
    return {
        option.name: absolute(option.default)
        for option in row.options
        if option.kind == "path" and option.default is not None
        # Other defaults, such as "auto", are for the format to read; no text is "." here.
        if exists(option.default) and str(option.default) != "."
        # None is a value of some options, and says nothing for others.
        if option.name not in options or (options[option.name] is None and not option.takes_none)
    }


def _several(files: Any) -> list[Any]:
    """A list of paths; a text is one, not a list of letters."""
    if isinstance(files, str | bytes | PathLike) or not isinstance(files, Iterable):
        raise ArgumentTypeError(f"files is {files!r}, expected a list of paths")
    return listed("files", in_order("files", files))


def _without_former(filetype: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options by the names that the engine knows, without those of no effect."""
    for name in REFUSED:
        if options.get(name) is not None:
            raise InvalidArgumentError(
                f"{name} is {options[name]!r}, which is not taken: {REFUSED[name]}"
            )
    left_out = {*NO_EFFECT, *REFUSED}
    options = {name: value for name, value in options.items() if name not in left_out}
    for former, name in FORMER.items():
        value = options.pop(former, None)
        if value is None:
            continue
        if options.get(name) is not None:
            raise InvalidArgumentError(f"{former} is another name of {name}: pass {name} alone")
        tell(f"{former} is now called {name}", FutureWarning)
        options[name] = value
    return options
