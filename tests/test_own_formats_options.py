"""Options of formats that Python classes read, which class reads copies of a data set, and readers
that do not fill what they are given."""

from __future__ import annotations

import copy
import inspect
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from fed_format import MAGIC, SHAPE, FedSource
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import FileChangedError, InvalidArgumentError
from framefold.udf.record import RecordUDF

THREE, HALF = np.uint16(3), np.float32(0.5)


@pytest.fixture
def unknown(tmp_path):
    """A file that no format of other tests takes for its own."""
    path = tmp_path / "scan.unknown"
    path.write_bytes(b"unknown" * 99)
    return path


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "scan.fed"
    path.write_bytes(MAGIC + np.zeros(SHAPE, ">u2").tobytes())
    return path


@pytest.mark.parametrize("opened_by", ["load", "open"])
def test_paths_are_those_of_the_format(tmp_path, monkeypatch, path, opened_by):
    """Whatever other formats call a path; processes in other folders find the same files."""

    def made(name, default, annotation):
        def open(path, table=default):
            source = FedSource(path, 0)
            source.details = {"table": str(table)}
            return source

        open.__annotations__ = {"table": annotation}
        detect = lambda path, head: "its name says so" if path.suffix == "." + name else None  # noqa: E731
        members = {"name": name, "extensions": (name,)}
        members |= {"open": staticmethod(open), "detect": staticmethod(detect)}
        ff.register_format(type(name, (), members))
        file = tmp_path / f"a.{name}"
        file.write_bytes(path.read_bytes())
        return file

    (tmp_path / "t.npy").touch()
    text, at = made("text_table", "none", str), made("path_table", Path("t.npy"), Path)
    monkeypatch.chdir(tmp_path)
    ctx = ff.Context.make_with("inline")

    def table(file, **options):
        how = (
            ctx.open if opened_by == "open" else lambda *a, **o: ctx.load(file.suffix[1:], *a, **o)
        )
        dataset = how(file, **options)
        there = dataset.meta["table"]
        with monkeypatch.context() as elsewhere:
            elsewhere.chdir("/")
            return there, copy.copy(dataset).meta["table"]

    assert table(text) == ("none", "none")
    assert table(text, table="b") == ("b", "b")
    assert table(at)[1] == str(tmp_path / "t.npy")
    assert table(at, table=None)[1] == str(tmp_path / "t.npy")
    assert table(at, table="b") == (str(tmp_path / "b"),) * 2
    assert table(at, table=b"b") == (str(tmp_path / "b"),) * 2


def test_copies_leave_the_class_that_replaced_that_of_the_data_set(path):
    def made(skip):
        class Again:
            name = "again"
            extensions = ()

            @staticmethod
            def open(path, level: int = 0):
                return FedSource(path, skip)

        return ff.register_format(Again)

    ctx = ff.Context.make_with("inline")
    made(2)
    before = ctx.load("again", path)
    made(3)
    after = type(ctx.load("again", path))
    for again in (copy.copy(before), copy.deepcopy(before)):
        assert again.shape == before.shape == (40, 9, 11)
        now = ctx.load("again", path)
        assert (type(now), now.shape) == (after, (39, 9, 11))


def test_defaults_may_be_scalars_of_numpy(path):
    class Scalars:
        name = "scalars"
        extensions = ()

        @staticmethod
        def open(
            path,
            skip=THREE,
            gain: float = HALF,
            on=np.True_,
            off: bool = np.False_,
        ):
            source = FedSource(path, int(skip))
            source.details = {"all": repr((skip, gain, on, off))}
            return source

    ff.register_format(Scalars)
    ctx = ff.Context.make_with("inline")
    assert ctx.load("scalars", path).shape == (39, 9, 11)
    given = ctx.load("scalars", path, skip=4, gain=2, on=False, off=True)
    assert given.meta["all"] == "(4, 2.0, False, True)"
    parameters = inspect.signature(type(given)).parameters
    defaults = [parameters[name].default for name in ("skip", "gain", "on", "off")]
    assert defaults == [3, 0.5, True, False]


@pytest.mark.parametrize("annotation", ["tuple[float, ...]", "tuple[int, str]", "tuple[bool, ...]"])
def test_tuples_hold_whole_numbers(annotation):
    class Tuples:
        name = "tuples"
        extensions = ()

        @staticmethod
        def open(path, shift=(1, 2)):
            raise AssertionError

    Tuples.open.__annotations__["shift"] = annotation
    with pytest.raises(InvalidArgumentError, match="not of a type that options can have"):
        ff.register_format(Tuples)


@pytest.mark.parametrize("default", ["none", "auto", "", "~/x", "s3://bucket/gain.npy"])
@pytest.mark.parametrize("given", [{}, {"gain": None}])
def test_paths_by_default_may_be_no_file(tmp_path, monkeypatch, path, default, given):
    got = []

    def open(given, gain: str | Path = default):
        got.append(gain)
        return FedSource(path, 0)

    members = {"name": "no_default", "extensions": (), "open": staticmethod(open)}
    ff.register_format(type("NoDefault", (), members))
    monkeypatch.chdir(tmp_path)
    copy.copy(ff.Context.make_with("inline").load("no_default", path, **given))
    assert got == [default] * 2


@pytest.mark.skipif(sys.platform == "win32", reason="the system leaves .. out by itself there")
def test_the_folder_around_that_behind_a_link(tmp_path, monkeypatch):
    """For the system, `b/link/..` is `a` where `b/link` leads to `a/deep`."""

    class Raw:
        shape, sig, dtype = (6,), (3, 4), "u2"

        def __init__(self, path, gain):
            self.path, self.gain = path, gain

        def read(self, frames, out):
            pixels = np.load(self.path).reshape(-1, *self.sig)
            np.multiply(pixels[np.array(frames)], np.load(self.gain), out=out)

    def open(path, gain: Path = Path("b/link/../g.npy")):
        return Raw(path, gain)

    members = {"name": "behind_links", "extensions": (), "open": staticmethod(open)}
    ff.register_format(type("BehindLinks", (), members))
    monkeypatch.chdir(tmp_path)
    for folder, value in {"a": 2, "b": 30}.items():
        Path(folder, "deep").mkdir(parents=True)
        np.save(f"{folder}/s.npy", np.full((6, 3, 4), value, "u2"))
        np.save(f"{folder}/g.npy", np.uint16(value))
    Path("b/link").symlink_to("../a/deep")
    ctx = ff.Context.make_with("inline")
    file = "b/link/../s.npy"
    for options in ({}, {"gain": "b/link/../g.npy"}):
        assert ctx.load("behind_links", file, **options)[0][0, 0] == 4
    for given in (file, [file]):
        dataset = ctx.load("npy", given, nav_shape=(6,))
        assert (dataset[0][0, 0], copy.copy(dataset)[0][0, 0]) == (2, 2)
    ctx.run_udf(dataset, ff.SumSigUDF(), out="b/link/../out.npy")
    ctx.run_udf(dataset, RecordUDF("b/link/../record.npy"))
    assert {path.name for path in Path("a").glob("*.npy")} == {
        *("s.npy", "g.npy", "out.npy", "record.npy")
    }
    two = {"SumSigUDF/intensity": "a/x.npy", "First/first": "b/link/../x.npy"}
    with pytest.raises(InvalidArgumentError, match="two results go to"):
        ctx.run_udf(dataset, [ff.SumSigUDF(), First()], out=two)


@pytest.mark.parametrize("table", ["Path | None", "'Path | None'"])
def test_annotations_that_say_nothing_of_options_may_be_unknown(path, table):
    def registered(skip):
        code = f"""def open(path: 'Unknown', skip: {skip} = 0, table: {table} = None) -> 'Unknown':
            source = FedSource(Path(path), skip)
            source.details = {{"table": repr(type(table))}}
            return source
        """
        names = {"FedSource": FedSource, "Path": Path}
        exec(compile(code, "formats.py", "exec", dont_inherit=True), names)
        members = {"name": "unknown_names", "extensions": (), "open": staticmethod(names["open"])}
        ff.register_format(type("UnknownNames", (), members))

    registered("int")
    dataset = ff.Context.make_with("inline").load("unknown_names", path, skip=2, table="/t")
    assert (dataset.shape[0], "Path" in dataset.meta["table"]) == (40, True)
    with pytest.raises(InvalidArgumentError, match=r"cannot be read: .*'Unknown'"):
        registered("'Unknown'")


@pytest.mark.parametrize("name", ["db://host/scan?id=1", "scan[3", "scan*", "mem:" + "x" * 300])
def test_what_is_opened_may_be_no_file(path, name):
    def open(given):
        return FedSource(path, 0)

    members = {"name": "no_files", "extensions": (), "open": staticmethod(open)}
    ff.register_format(type("NoFiles", (), members))
    assert ff.Context.make_with("inline").load("no_files", name).shape == SHAPE


def test_the_file_that_was_opened_is_one_that_is_read(tmp_path, path, monkeypatch):
    """Whatever other files a source names: it is compared, and not replaced."""

    def opened(paths, at=path):
        def open(_):
            source = FedSource(path, 0)
            source.paths = paths
            return source

        members = {"name": "named_paths", "extensions": (), "open": staticmethod(open)}
        ff.register_format(type("NamedPaths", (), members))
        return ctx.load("named_paths", at)

    ctx = ff.Context.make_with("inline")
    with pytest.raises(InvalidArgumentError, match=r"with paths='a\.bin', expected a list"):
        opened("a.bin")
    other = tmp_path / "pixels.bin"
    assert opened([other, path]).paths == [other, path]
    monkeypatch.chdir(path.parent)
    assert opened([path.name]).paths == [Path(path.name)]
    assert opened([path], at=path.name).paths == [path]
    dataset = opened([other])
    assert dataset.paths == [path, other]
    with pytest.raises(InvalidArgumentError, match="the output is one of the input files"):
        ctx.export_dataset(dataset, path, format="npy", overwrite=True)
    path.write_bytes(path.read_bytes()[:-2] + b"\1\1")
    with pytest.raises(FileChangedError):
        ctx.run_udf(dataset, ff.SumUDF())
    in_folder = opened([path], at=tmp_path)
    assert (in_folder.paths, opened([], at=tmp_path).paths) == ([path], [tmp_path])
    ctx.export_dataset(in_folder, tmp_path / "out.npy", format="npy")


def test_names_in_annotations_need_not_be_known_to_workers(path):
    """Those of a class that is sent to them, as those of scripts are: no code uses such a name."""

    class Annotated:
        name, extensions = "annotated", ()

        @staticmethod
        def open(path: Path, skip_frames: int = 0) -> FedSource:
            return FedSource(path, skip_frames)

    ff.register_format(Annotated)
    path.write_bytes(MAGIC + np.ones(SHAPE, ">u2").tobytes())
    with shared("processes", cpus=2) as ctx:
        dataset = ctx.load("annotated", path, skip_frames=2)
        assert ctx.run_udf(dataset, First())["first"].data.tolist() == [1.0] * 40


@pytest.mark.parametrize("executor", ["inline", "threads", "processes"])
def test_another_current_folder_is_of_no_account(tmp_path, monkeypatch, executor):
    """Of readers that open files when they read, as that of the guide does."""

    class Lazy:
        def __init__(self, path, gain):
            self.path, self.gain = path, gain
            self.shape, self.sig, self.dtype = (6,), (3, 4), "u2"

        def read(self, frames, out):
            pixels = np.memmap(self.path, "u2", "r").reshape(-1, *self.sig)
            np.multiply(pixels[np.array(frames)], np.load(self.gain), out=out)

    class Folders:
        name, extensions = "folders", ()

        @staticmethod
        def open(path: Path, gain: Path = Path("gain.npy")):
            return Lazy(path, gain)

    ff.register_format(Folders)
    for folder, value in {"a": 2, "b": 30}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "scan.bin").write_bytes(np.full((6, 3, 4), value, "u2").tobytes())
        for name in ("gain.npy", "other.npy"):
            np.save(tmp_path / folder / name, np.uint16(value))
    with shared(executor, **({} if executor == "inline" else {"cpus": 2})) as ctx:
        for options in ({}, {"gain": "other.npy"}):
            monkeypatch.chdir(tmp_path / "a")
            dataset = ctx.load("folders", "scan.bin", **options)
            monkeypatch.chdir(tmp_path / "b")
            assert ctx.run_udf(dataset, First())["first"].data.tolist() == [4.0] * 6


class First(ff.UDF):
    def get_result_buffers(self):
        return {"first": self.buffer("nav", dtype="float64")}

    def process_frame(self, frame):
        self.results.first[:] = frame[0, 0]


@pytest.mark.parametrize(
    "name", ["tileshape", "target_size", "min_num_partitions", "scan_size", "dest_dtype"]
)
def test_options_that_load_drops_or_renames_are_refused(name):
    """A format would get its own default, whatever is given."""

    class Dropped:
        name, extensions = "dropped", ()

        @staticmethod
        def open(path, **options):
            raise AssertionError

    parameters = [
        inspect.Parameter("path", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=1),
    ]
    Dropped.open.__signature__ = inspect.Signature(parameters)
    with pytest.raises(InvalidArgumentError, match=f"takes {name}, which framefold sees to"):
        ff.register_format(Dropped)


@pytest.mark.parametrize(
    "raised", [KeyboardInterrupt, SystemExit, type("Own", (BaseException,), {})]
)
@pytest.mark.parametrize("options", [{}, {"level": 1}], ids=["alone", "with an option"])
def test_what_ends_the_program_in_detect_is_raised(unknown, raised, options):
    """As Ctrl-C is; an option of which formats take different things has them asked before."""

    def detect(path, head):
        raise raised

    class Stops:
        name, extensions = "stops", ("unknown",)

        @staticmethod
        def open(path, level: int = 0):
            raise AssertionError

    class Other(Stops):
        name, extensions = "stops_not", ()

        @staticmethod
        def open(path, level: str = "a"):
            raise AssertionError

    ff.register_format(Stops)
    ff.register_format(Other)
    Stops.detect = staticmethod(detect)
    try:
        with pytest.raises(raised) as caught:
            ff.Context.make_with("inline").open(unknown, **options)
    finally:
        del Stops.detect
    assert f"detect of the format 'stops' on '{unknown}'" in "".join(caught.value.__notes__)


def test_warnings_about_detect_may_be_errors(unknown):
    class Fails:
        name, extensions = "fails", ("unknown",)
        open = staticmethod(lambda path: None)

        @staticmethod
        def detect(path, head):
            raise ValueError("what is this")

    ff.register_format(Fails)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RuntimeWarning, match=r"'fails' could not say .* what is this"):
                ff.Context.make_with("inline").open(unknown)
    finally:
        del Fails.detect


def test_no_shape_of_frames_is_no_default(path):
    given = []

    class Shaped:
        name, extensions = "shaped", ()

        @staticmethod
        def open(path, sig_shape: tuple[int, ...] | None = (9, 11)):
            given.append(sig_shape)
            return FedSource(path, 0)

    ff.register_format(Shaped)
    ctx = ff.Context.make_with("inline")
    for options in ({}, {"sig_shape": None}, {"sig_shape": (3, 33)}):
        copy.copy(ctx.load("shaped", path, **options))
    assert given == [(9, 11), (9, 11), None, None, (3, 33), (3, 33)]


def test_packages_that_were_stopped_are_asked_again(tmp_path, path):
    """Ctrl-C while a package is imported, and one that ends the program."""
    bodies = {
        "stopped": "import sys\nif not hasattr(sys, 'was'):\n    sys.was = 1\n"
        "    raise KeyboardInterrupt",
        "ends": "raise SystemExit(3)",
        "zfed": f"import sys\nsys.path[:0] = [{str(Path(__file__).parent)!r}]\n"
        "from fed_format import Fed as Format",
    }
    for name, body in bodies.items():
        (tmp_path / f"{name}.py").write_text(body)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[framefold.formats]\n{name} = {name}:Format\n")
    code = f"""
import sys, warnings
sys.path[:0] = [{str(tmp_path)!r}]
import framefold as ff
ctx = ff.Context.make_with("inline")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        ctx.open({str(path)!r})
    except KeyboardInterrupt:
        print(ctx.open({str(path)!r}).format)
print(*sorted({{str(each.message) for each in caught}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.startswith("fed\n"), done.stderr
    assert "'ends' of the package ends is not there: SystemExit: 3" in done.stdout
    assert "'stopped' of the package stopped is not there: AttributeError" in done.stdout


def test_frames_that_a_reader_leaves_out_are_no_zeros(path):
    """As where a file ends early, which `readinto` tells by what it returns alone."""

    class Short(FedSource):
        def read(self, frames, out):
            asked.append(len(frames))
            there = [frame for frame in frames if frame < 30]
            out[: len(there)] = np.array([frame != 5 for frame in there])[:, np.newaxis, np.newaxis]

    class Cut(FedSource):
        def read(self, frames, out):
            out[np.array(frames) != 20] = 1
            out[:, :5] = 0

    class Swapped(FedSource):
        def read(self, frames, out):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                out.dtype = ">u2"
            out[...] = 1

    class Unfilled:
        name, extensions = "unfilled", ()

        @staticmethod
        def open(path: Path, swapped: bool = False, cut: bool = False):
            return (Swapped if swapped else Cut if cut else Short)(path, 0)

    asked = []
    ff.register_format(Unfilled)
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("unfilled", path, nav_shape=(42,), num_partitions=2)
    there = ctx.run_udf(dataset, ff.SumSigUDF(), roi=np.s_[:30])["intensity"].data[:30]
    assert np.array_equal(there, 99.0 * (np.arange(30) != 5))
    assert sum(asked) == 31
    with pytest.raises(InvalidArgumentError, match=r"wrote nothing .* for frame 30, .* early"):
        ctx.run_udf(dataset, ff.SumSigUDF())
    with pytest.raises(InvalidArgumentError, match="another shape or dtype now"):
        ctx.run_udf(ctx.load("unfilled", path, swapped=True), ff.SumSigUDF())
    with pytest.raises(InvalidArgumentError, match="wrote only a part of frame 20"):
        ctx.run_udf(ctx.load("unfilled", path, cut=True), ff.SumSigUDF())
