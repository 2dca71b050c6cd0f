"""Formats that Python classes read: on every executor, with the bits of the same data in memory."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import fake_cupy
import numpy as np
import pytest
from command_line import commands
from fed_format import MAGIC, SHAPE, Broken, BrokenSource, Fed, FedSource, Own
from known_oddities import POSITIONS_WITHOUT_DATA
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import InvalidArgumentError
from framefold.io import dataset as data_sets

U2 = np.dtype("u2")


@pytest.fixture(autouse=True, scope="module")
def registered():
    ff.register_format(Fed)


@pytest.fixture(scope="module")
def data():
    return np.random.default_rng(3).integers(0, 4000, SHAPE).astype(np.uint16)


@pytest.fixture(scope="module")
def path(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fed") / "scan.fed"
    path.write_bytes(MAGIC + data.astype(">u2").tobytes())
    return path


UDFS = [ff.SumUDF, ff.StdDevUDF, Own]


def runs(ctx, dataset, roi):
    return ctx.run_udf(dataset, [udf() for udf in UDFS], roi=roi)


def assert_same_bits(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name].raw_data, other[name].raw_data)


@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "auto", "dask", "delayed"])
def test_the_bits_are_those_of_memory_on_every_executor(executor, path, data):
    if executor == "dask":
        pytest.importorskip("distributed")
    options = {} if executor == "inline" else {"cpus": 2}
    if executor in ("auto", "delayed"):
        options = {}
    roi = np.zeros(SHAPE[:2], dtype=bool)
    roi[1::2, ::3] = True
    with shared(executor, **options) as ctx:
        fed = ctx.open(path, num_partitions=5)
        assert (fed.format, tuple(fed.shape)) == ("fed", SHAPE)
        memory = ctx.load("memory", data, num_partitions=5)
        for region in (None, roi):
            found, wanted = runs(ctx, fed, region), runs(ctx, memory, region)
            if executor == "delayed":
                import dask

                keys = [name for result in found for name in result]
                assert keys
                found = dask.compute([{n: r[n].delayed_raw_data for n in r} for r in found])[0]
                wanted = dask.compute([{n: r[n].delayed_raw_data for n in r} for r in wanted])[0]
                for one, other in zip(found, wanted, strict=True):
                    for name in one:
                        np.testing.assert_array_equal(one[name], other[name])
            else:
                assert_same_bits(found, wanted)


def test_threads_with_a_python_function_and_a_python_source_do_not_wait_for_each_other(path, data):
    code = f"""
        import sys
        sys.path[:0] = [{str(Path(__file__).parent)!r}]
        import framefold as ff, numpy as np
        from fed_format import Fed, Own
        ff.register_format(Fed)
        with ff.Context.make_with("threads", cpus=4) as ctx:
            dataset = ctx.open({str(path)!r}, num_partitions=21)
            for _ in range(5):
                ctx.run_udf(dataset, [Own(), ff.SumUDF()])
        print("done")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == "done", done.stderr


@POSITIONS_WITHOUT_DATA
def test_options_come_from_the_signature_of_open(path, data):
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("fed", path, skip_frames=12, nav_shape=(5, 6), sync_offset=1)
    picked = ctx.run_udf(dataset, ff.PickUDF(), roi=dataset.roi[0, 0])["intensity"].data
    np.testing.assert_array_equal(picked[0], data.reshape(-1, 9, 11)[13])
    assert dataset.meta["skipped"] == "12"
    cls = data_sets.get_dataset_cls("fed")
    parameters = inspect.signature(cls).parameters
    assert next(iter(parameters)) == "path"
    assert {"skip_frames", "nav_shape", "sync_offset", "num_partitions"} <= set(parameters)
    assert "How many frames to leave out" in cls.__doc__
    assert type(dataset) is cls
    with pytest.raises(InvalidArgumentError, match=r"skip_frames='a' is not a whole number"):
        ctx.load("fed", path, skip_frames="a")
    with pytest.raises(
        InvalidArgumentError, match="'quad_gap' has no meaning for the format 'fed'"
    ):
        ctx.load("fed", path, quad_gap="insert")


def test_it_is_known_like_any_other(path):
    assert "fed" in ff._engine.known_formats()
    assert "fed" in data_sets.get_extensions()
    found = data_sets.detect(path)
    assert (found["type"], found["info"]["image_count"]) == ("fed", 42)
    reason = ff._engine.detect(str(path))
    assert reason == ("fed", "it starts with FEDFRAME")
    dataset = ff.Context.make_with("inline").open(path)
    again = pickle.loads(pickle.dumps(dataset))
    assert tuple(again.shape) == SHAPE
    path.touch()


@pytest.mark.parametrize("executor", ["inline", "threads", "processes"])
def test_exceptions_come_back_as_themselves_with_the_name_of_the_file(executor, path):
    class BrokenFormat:
        name = "broken_fed"
        extensions = ()

        @staticmethod
        def open(path, when: str = "read"):
            if when == "open":
                raise Broken("it does not open")
            return BrokenSource(path, 0)

    ff.register_format(BrokenFormat)
    options = {} if executor == "inline" else {"cpus": 2}
    with shared(executor, **options) as ctx:
        with pytest.raises(Broken, match="does not open") as caught:
            ctx.load("broken_fed", path, when="open")
        assert "scan.fed" in "".join(caught.value.__notes__)
        dataset = ctx.load("broken_fed", path)
        with pytest.raises(Exception, match="no frame today") as caught:
            ctx.run_udf(dataset, Own())
        assert type(caught.value).__name__ == "Broken"
        assert "scan.fed" in "".join(caught.value.__notes__)


def test_what_breaks_the_contract_is_named(path):
    ctx = ff.Context.make_with("inline")
    for members, part in [
        ({}, "a format is a class with a `name`"),
        ({"name": "x1", "extensions": ()}, r"has no open\(path"),
        ({"name": "x1", "extensions": (), "open": lambda: None}, r"open\(path, .* @staticmethod"),
        ({"name": "x1", "extensions": (), "open": lambda self, path: None}, "as a @staticmethod"),
        (
            {"name": "x1", "extensions": (), "open": lambda p: 0, "detect": lambda self, p, h: ""},
            r"detect\(path, head\) of .* without an object",
        ),
        ({"name": "x1", "extensions": "abc", "open": lambda path: None}, "a tuple was expected"),
        ({"name": "mib", "extensions": (), "open": lambda path: None}, "'mib' already"),
        ({"name": "x1", "extensions": (), "open": lambda path, **o: None}, "name its options"),
        ({"name": "x1", "extensions": (), "open": lambda path, nav_shape=None: 0}, "leave it out"),
        ({"name": "x1", "extensions": (), "open": lambda path, flip=1: 0}, "takes flip, which"),
        ({"name": "x1", "extensions": (), "open": lambda path, names="a": 0}, "takes names, which"),
        ({"name": "x1", "extensions": (), "open": lambda path, a=1j: 0}, "not of a type"),
        ({"name": "x1", "extensions": (), "open": lambda path, A=1: 0}, "is no word in small"),
    ]:
        with pytest.raises(InvalidArgumentError, match=part):
            ff.register_format(type("X", (), members))

    class Returns(FedSource):
        def read(self, frames, out):
            return np.zeros_like(out)

    returns = type(
        "R", (), {"name": "x2", "extensions": (), "open": staticmethod(lambda p: Returns(p, 0))}
    )
    ff.register_format(returns)
    with pytest.raises(InvalidArgumentError, match="it has to fill `out`"):
        ctx.run_udf(ctx.load("x2", path), ff.SumUDF())
    nothing = type("N", (), {"name": "x3", "extensions": (), "open": staticmethod(lambda p: 3)})
    ff.register_format(nothing)
    with pytest.raises(InvalidArgumentError, match="has no shape, sig, dtype, read"):
        ctx.load("x3", path)


@pytest.mark.parametrize("dtype", ["u2", "f4", "c16", "bool"])
def test_a_name_for_another_array_is_not_what_out_holds(path, data, dtype):
    calls = []

    def source_of(path, way):
        def read(frames, out):
            calls.append(frames)
            if way == "named":
                out = pixels[frames]
            elif way == "other bytes":
                out.view("u1")[:] = 0xA5
            else:
                out[:] = 0 if way == "zeros" else pixels[frames]

        source = FedSource(path, 0)
        pixels = data.reshape(-1, *source.sig).astype(dtype)
        source.dtype, source.read = dtype, read
        return source

    ff.register_format(
        type("W", (), {"name": "x6", "extensions": (), "open": lambda p, way="": source_of(p, way)})
    )
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("x6", path, way="named")
    with pytest.raises(InvalidArgumentError, match=r"wrote nothing .* out\[\.\.\.\] = "):
        ctx.run_udf(dataset, ff.PickUDF())
    for way, n_times in {"zeros": 2, "other bytes": 1, "pixels": 1}.items():
        dataset = ctx.load("x6", path, way=way, num_partitions=3)
        calls.clear()
        result = ctx.run_udf(dataset, ff.PickUDF())["intensity"].data.reshape(SHAPE)
        assert len(calls) == 3 * n_times
        expected = data.astype(dtype) * (way == "pixels")
        assert way == "other bytes" or np.array_equal(result, expected)


def test_an_array_that_is_kept_is_not_what_is_lent(path, data):
    kept = []

    class Keeps(FedSource):
        def read(self, frames, out):
            for array in kept:
                array[:] = 9999  # from a thread of its own, at any time
            super().read(frames, out)
            kept.append(out[:])

    keeps = type(
        "K", (), {"name": "x4", "extensions": (), "open": staticmethod(lambda p: Keeps(p, 0))}
    )
    ff.register_format(keeps)
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("x4", path, num_partitions=3)
    result = ctx.run_udf(dataset, ff.PickUDF())["intensity"].data
    np.testing.assert_array_equal(result.reshape(SHAPE), data)


def test_detect_that_fails_keeps_no_other_file_closed(tmp_path, data):
    def detect(path, head):
        raise Broken("what is this")

    class Odd:
        name = "x5"
        extensions = ("npy",)
        open = staticmethod(lambda path: None)

    Odd.detect = staticmethod(detect)
    ff.register_format(Odd)
    np.save(tmp_path / "a.npy", data)
    try:
        with pytest.warns(RuntimeWarning, match=r"'x5' could not say .* Broken: what is this"):
            assert ff.Context.make_with("inline").open(tmp_path / "a.npy").format == "npy"
    finally:
        del Odd.detect


def test_options_may_have_names_that_the_command_line_uses(tmp_path, path, data):
    """Installing a format changes nothing of the commands for other files."""
    info = tmp_path / "busy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: busy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[framefold.formats]\nbusy = busy:Busy\n")
    (tmp_path / "busy.py").write_text(
        textwrap.dedent(
            f"""
            import sys
            sys.path[:0] = [{str(Path(__file__).parent)!r}]
            from pathlib import Path
            import numpy as np
            from fed_format import FedSource

            class Times(FedSource):
                def read(self, frames, out):
                    super().read(frames, out)
                    out *= self.gain

            class Busy:
                name = "busy"
                extensions = ("busy",)

                @staticmethod
                def open(
                    path: Path, gain: int = 1, dark: bool = False, roi: bool | None = None,
                    no_roi: int = 0, threads: float = 1.0, format: str = "", stack: int = 0,
                    help: int = 0, version: int = 0, output: int = 0, param: int = 0,
                    bad_pixels: int = 0, gain_map: int = 0, backend: int = 0, bin: int = 0,
                ):
                    source = Times(path, 0)
                    source.dtype = "float32"
                    source.gain = gain * (3 if dark else 1) * (5 if roi else 1)
                    return source
            """
        )
    )
    (tmp_path / "mine.py").write_text(
        textwrap.dedent(
            """
            import framefold as ff

            class Total(ff.UDF):
                def get_result_buffers(self):
                    return {"total": self.buffer("nav", dtype="float64")}

                def process_frame(self, frame):
                    self.results.total[:] = frame.sum()
            """
        )
    )
    total, out = data.sum(axis=(2, 3)), tmp_path / "out.npy"
    np.save(tmp_path / "gain.npy", np.full(SHAPE[2:], 4.0, np.float32))
    with commands(tmp_path, PYTHONPATH=str(tmp_path)) as command:
        assert "(6, 7), 42 positions" in command("info", "--format", "busy", path)
        for function in ("sumsig", f"{tmp_path}/mine.py:Total"):
            for options, factor in [
                (("--option-gain", 2, "--option-dark", "--option-roi"), 30),
                (("--no-option-roi", "--option-no-roi", 4), 1),
                (("--gain", tmp_path / "gain.npy", "--option-gain", 3), 12),
            ]:
                given = ("--format", "busy", "-q", "--force", "-o", out)
                command("run", function, path, *given, *options)
                found = np.load(out).reshape(SHAPE[:2])
                np.testing.assert_allclose(found, factor * total, rtol=1e-6)


def test_the_command_line_says_what_user_code_said(tmp_path, path):
    info = tmp_path / "off-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: off\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[framefold.formats]\noff = off:Off\n")
    (tmp_path / "off.py").write_text(
        textwrap.dedent(
            f"""
            import sys
            sys.path[:0] = [{str(Path(__file__).parent)!r}]
            from fed_format import BrokenSource

            class Off:
                name = "off"
                extensions = ("off",)

                @staticmethod
                def open(path, never: bool = False):
                    if never:
                        raise ValueError("the flag is off")
                    return BrokenSource(path, 0)
            """
        )
    )
    with commands(tmp_path, PYTHONPATH=str(tmp_path)) as command:
        for line in (("info", path), ("run", "sum", path), ("convert", path, tmp_path / "a.npy")):
            given = (*line, "--format", "off")
            assert "ValueError: the flag is off" in command(*given, "--option-never", code=6)
            if line[0] != "info":
                said = command(*given, code=6)
                assert f"'{path}': the reader of" in said
                assert "Broken: no frame today" in said


def test_a_dtype_is_one_of_numpy(path):
    given = []

    class Typed:
        name = "typed"
        extensions = ()

        @staticmethod
        def open(path, raw: np.dtype = U2, dtype: np.dtype | None = None):
            given[:] = raw, dtype
            return FedSource(path, 0)

    ff.register_format(Typed)
    ctx = ff.Context.make_with("inline")
    for dtype in ("<u4", ">u4", "|b1", "complex64", ">f8", np.int8):
        ctx.load("typed", path, raw=dtype, dtype=dtype)
        assert all(isinstance(each, np.dtype) for each in given)
        assert given == [np.dtype(dtype)] * 2
    with pytest.raises(InvalidArgumentError, match="unknown dtype 'foo'; use one of"):
        ctx.load("typed", path, raw="foo")


SHARED = """
import sys
from fed_format import FedSource

def made(name, default, annotation):
    def open(path, level=default):
        source = FedSource(path, 0)
        source.details = {"level": repr(level)}
        return source

    open.__annotations__ = {"level": annotation}
    detect = lambda path, head: "its name says so" if path.suffix == "." + name else None
    members = {"name": name, "extensions": (name,), "__module__": __name__}
    members |= {"open": staticmethod(open), "detect": staticmethod(detect)}
    return type(name, (), members)

ones, twos = made("ones", 1.0, float | None), made("twos", 2.0, float)
texts, offs = made("texts", "a", str), made("offs", True, bool)
"""


def test_options_of_one_name_are_those_of_the_format(tmp_path, path):
    """In whatever order formats were registered, and whatever the defaults of others are."""
    info = tmp_path / "shared-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shared\nVersion: 1.0\n")
    names = ("ones", "twos", "texts", "offs")
    lines = [f"{name} = shared_level:{name}" for name in names]
    (info / "entry_points.txt").write_text("\n".join(["[framefold.formats]", *lines]))
    tests = f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}]\n"
    (tmp_path / "shared_level.py").write_text(tests + SHARED)
    cases = [("ones", 2.0), ("twos", 1.0), ("twos", 2.0), ("texts", "1.0"), ("offs", False)]
    files = {name: tmp_path / f"a.{name}" for name in names}
    for file in files.values():
        file.write_bytes(path.read_bytes())
    scope = {"__name__": "shared_level"}
    exec(SHARED, scope)
    ctx = ff.Context.make_with("inline")
    for order in (names, names[::-1]):
        for name in order:
            ff.register_format(scope[name])
        for name, value in [*cases, ("ones", None)]:
            for opened in (ctx.open, lambda file, name=name, **o: ctx.load(name, file, **o)):
                assert opened(files[name], level=value).meta["level"] == repr(value)
        with pytest.raises(InvalidArgumentError, match="level='a' is not a finite number"):
            ctx.open(files["ones"], level="a")
    with commands(tmp_path, PYTHONPATH=str(tmp_path)) as command:
        for name, value in cases:
            said = command("info", files[name], "--option-level", str(value).lower())
            assert [value] == [
                eval(each.split()[-1]) for each in said.splitlines() if "level" in each
            ]


def test_formats_of_packages_are_found(tmp_path, path):
    package = tmp_path / "site"
    (package / "fed_pkg-1.0.dist-info").mkdir(parents=True)
    (package / "fed_pkg.py").write_text(
        textwrap.dedent(
            f"""
            import sys
            sys.path[:0] = [{str(Path(__file__).parent)!r}]
            from fed_format import Fed as Base
            class Fed(Base):
                name = "fed_of_package"
            """
        )
    )
    info = package / "fed_pkg-1.0.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fed-pkg\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[framefold.formats]\nfed_of_package = fed_pkg:Fed\nlost = fed_pkg:Nothing\n"
    )
    code = f"""
        import sys
        sys.path[:0] = [{str(package)!r}]
        import warnings
        import framefold as ff
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dataset = ff.Context.make_with("inline").open({str(path)!r})
        print(dataset.format, [str(each.message)[:44] for each in caught])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.startswith("fed_of_package"), done.stderr
    assert "the format 'lost' of the package fed-pkg" in done.stdout


@pytest.mark.parametrize("device", [False, True], ids=["host", "device"])
@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_inline_reads_on_the_calling_thread(monkeypatch, path, data, executor, device):
    threads = set()

    class Notes(FedSource):
        def read(self, frames, out):
            threads.add(threading.get_ident())
            time.sleep(0.01)  # others have their turn
            super().read(frames, out)

    class NotesThreads:
        name = "notes_threads"
        extensions = ()

        @staticmethod
        def open(path):
            return Notes(path, 0)

    class Sums(ff.UDF):
        def get_backends(self):
            return (self.BACKEND_CUPY if device else self.BACKEND_NUMPY,)

        def get_result_buffers(self):
            return {"x": self.buffer("nav", dtype="float64")}

        def process_tile(self, tile):
            summed = tile.reshape((len(tile), -1)).astype("float64").sum(axis=1)
            self.results.x[:] += self.forbuf(summed, self.results.x)

        def get_tiling_preferences(self):
            return {"depth": 1, "total_size": None}

    fake_cupy.install(monkeypatch)
    ff.register_format(NotesThreads)
    options = {} if executor == "inline" else {"cpus": 2}
    with ff.Context.make_with(executor, **options) as ctx:
        dataset = ctx.load("notes_threads", path, num_partitions=2)
        threads.clear()
        result = ctx.run_udf(dataset, Sums())
    np.testing.assert_array_equal(result["x"].data, data.sum(axis=(2, 3)))
    if executor == "inline":
        assert threads == {threading.get_ident()}
    else:
        assert threads - {threading.get_ident()}
