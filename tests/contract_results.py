"""What every executor does when all is well: the results of the calling thread, bit for bit."""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
import threading
import time
import types
from contextlib import nullcontext

import numpy as np
import pytest
from executor_cases import NAV, ROIS, SIG, UDFS, assert_same, load, scan
from process_cases import Numbers, PerFrame, frames
from sample_udfs import Level, Recorder

import framefold as ff
from framefold.exceptions import FramefoldError, UDFRunCancelled, UnsupportedError
from framefold.io.corrections import CorrectionSet
from framefold.udf import UDF
from framefold.udf.record import RecordUDF
from framefold.viz.base import Dummy2DPlot

#: Kinds of data sets, and their dtypes.
KINDS = [
    ("memory", "uint16"),
    ("memory", "float32"),
    ("memory", ">u2"),
    ("memory", "int64"),
    ("memory", "complex64"),
    ("raw", "uint8"),
    ("raw", ">f4"),
    ("raw", "float64"),
    ("mib", "uint16"),
    ("raw_csr", "uint32"),
    ("raw_csr", "float32"),
]
LAYOUTS = ["fortran", "every second", "backwards", "mirrored", "broadcast", "read-only", "csr"]


def laid_out(case):
    block = np.random.default_rng(5).integers(0, 100, size=(6, 7, 20, 13)).astype(np.uint16)
    dense = block[..., :10, :12]
    if case == "csr":
        return pytest.importorskip("scipy.sparse").csr_matrix(dense.reshape(42, 120))
    return {
        "fortran": np.asfortranarray(dense),
        "every second": block[:, :, ::2, 1:],
        "backwards": dense[:, ::-1],
        "mirrored": dense[:, :, ::-1],
        "broadcast": np.broadcast_to(dense[0, 0], dense.shape),
        "read-only": np.frombuffer(dense.tobytes(), np.uint16).reshape(dense.shape),
    }[case]


class Complex(UDF):
    """Keeps the imaginary parts."""

    def get_result_buffers(self):
        return {
            "each": self.buffer(kind="nav", dtype="complex128"),
            "all": self.buffer(kind="sig", dtype="complex64"),
        }

    def process_frame(self, frame):
        self.results.each[:] = frame.sum() * 1j
        self.results.all[:] += frame * (0.1 + 0.3j)

    def merge(self, dest, src):
        dest.each[:] = src.each
        dest.all[:] += src.all


class Sparse(UDF):
    """Takes sparse tiles."""

    def get_backends(self):
        return (self.BACKEND_SCIPY_CSR, self.BACKEND_NUMPY)

    def get_result_buffers(self):
        return {"sum": self.buffer(kind="nav"), "format": self.buffer(kind="nav", dtype="U30")}

    def process_tile(self, tile):
        self.results.sum[:] += np.asarray(tile.sum(axis=1)).reshape(-1)
        self.results.format[:] = self.meta.array_backend


class WaitingLevel(Level):
    """The same; up to frame 1000 partitions take their time, and from there on wait for a file."""

    def __init__(self, awaited, offset=1):
        super(Level, self).__init__(awaited=awaited, offset=offset)

    def process_frame(self, frame):
        index = self.meta.slice.origin[0]
        while index >= 1000 and not self.params.awaited.exists():
            time.sleep(0.001)
        if index < 1000 and index % 2 == 0:
            time.sleep(0.0015)  # or executors send all of the run before it changes
        super().process_frame(frame)


class WithAux(Level):
    def __init__(self, offset, factors):
        UDF.__init__(self, offset=offset, factors=factors)

    def process_frame(self, frame):
        super().process_frame(frame * self.params.factors)


class Keeping(UDF):
    """Keeps what it is given to merge."""

    def get_result_buffers(self):
        return {"last": self.buffer(kind="sig"), "sum": self.buffer(kind="single")}

    def process_frame(self, frame):
        self.results.last[:] = frame

    def merge(self, dest, src):
        self.kept = [*getattr(self, "kept", []), src.last]
        dest.last[:] = src.last

    def get_results(self):
        total = sum(float(array.sum()) for array in getattr(self, "kept", []))
        return {"sum": np.array([total], dtype=np.float32)}


class Results:
    """Same bits, whatever the data and the functions are, and however a run is asked for."""

    @pytest.mark.filterwarnings("ignore:the ROI selects no position:UserWarning")
    @pytest.mark.parametrize("udfs", UDFS)
    @pytest.mark.parametrize(("kind", "dtype"), KINDS)
    def test_the_same_bits(self, ctx, inline, expected, tmp_path, kind, dtype, udfs):
        functions = UDFS[udfs]()
        if dtype == "complex64":
            native = [ff.SumUDF(dtype)]
            functions = {"native": native, "python": [Complex()], "mixed": [*native, Complex()]}
            functions = functions[udfs]
        dataset = load(kind, dtype, inline, tmp_path)
        for name, roi in {**ROIS, "none": np.zeros(NAV, bool)}.items():
            arguments = {"dataset": dataset, "udf": functions, "roi": roi}
            wanted = expected.made((kind, dtype, udfs, name), inline.run_udf, **arguments)
            assert_same(ctx.run_udf(**arguments), wanted)

    @pytest.mark.parametrize("roi", ROIS)
    def test_sparse_tiles(self, ctx, inline, expected, tmp_path, roi):
        pytest.importorskip("scipy.sparse")
        dataset = load("raw_csr", "float32", inline, tmp_path)
        for functions, backends in (
            ([Sparse(), ff.SumSigUDF()], None),
            ([Sparse()], UDF.BACKEND_SCIPY_CSR),
        ):
            arguments = {"dataset": dataset, "udf": functions, "roi": ROIS[roi]}
            arguments["backends"] = backends
            case = "sparse tiles", roi, backends
            wanted = expected.made(case, inline.run_udf, **arguments)
            got = ctx.run_udf(**arguments)
            assert set(got[0]["format"].raw_data) == {UDF.BACKEND_SCIPY_CSR}
            assert_same(got, wanted)

    def test_sparse_arrays_in_memory(self, ctx, inline):
        sparse = pytest.importorskip("scipy.sparse")
        data = sparse.random(42, 120, 0.1, format="csr", random_state=4, dtype=np.float32)
        dataset = ctx.load("memory", data=data, datashape=(*NAV, *SIG), num_partitions=5)
        functions = [Sparse(), ff.SumUDF(), Level(offset=1)]
        assert_same(ctx.run_udf(dataset, functions), inline.run_udf(dataset, functions))

    @pytest.mark.parametrize("case", LAYOUTS)
    def test_arrays_of_any_layout(self, ctx, inline, expected, case):
        options = {"datashape": (6, 7, 10, 12)} if case == "csr" else {}
        dataset = ctx.load("memory", data=laid_out(case), sig_dims=2, num_partitions=4, **options)

        def results_here():
            found = {name: inline.run_udf(dataset, udfs()) for name, udfs in UDFS.items()}
            again = pickle.loads(pickle.dumps(dataset))
            assert again.shape == dataset.shape
            assert_same(inline.run_udf(again, UDFS["mixed"]()), found["mixed"])
            return found

        wanted = expected.made(("layout", case), results_here)
        for name, udfs in UDFS.items():
            assert_same(ctx.run_udf(dataset=dataset, udf=udfs()), wanted[name])

    def test_corrections_and_aux_data(self, ctx, inline, tmp_path):
        rng = np.random.default_rng(9)
        corrections = CorrectionSet(
            dark=rng.random(SIG),
            gain=rng.random(SIG) + 0.5,
            excluded_pixels=np.array([[3, 4], [5, 6]]),
        )
        factors = UDF.aux_data(rng.random(NAV), kind="nav", dtype="float32")
        arguments = {
            "dataset": load("raw", "uint16", inline, tmp_path),
            "udf": [WithAux(offset=1, factors=factors), ff.SumUDF()],
            "corrections": corrections,
            "roi": ROIS["few"],
        }
        assert_same(ctx.run_udf(**arguments), inline.run_udf(**arguments))

    def test_many_partitions(self, ctx, inline, expected):
        dataset = frames(inline, n_frames=1000, n_partitions=500)
        udfs = [Level(offset=2), Numbers()]
        wanted = expected.made("many partitions", inline.run_udf, dataset, udfs)
        assert_same(ctx.run_udf(dataset, udfs), wanted)

    def test_large_partial_results(self, ctx, inline, expected):
        # More than goes into one message of any executor.
        data = np.random.default_rng(3).random((30, 256, 256), dtype=np.float32)
        dataset = ctx.load("memory", data=data, num_partitions=30)
        udfs = [Level(offset=1), ff.StdDevUDF()]
        wanted = expected.made("large partial results", inline.run_udf, dataset, udfs)
        assert_same(ctx.run_udf(dataset, udfs), wanted)

    def test_what_a_merge_keeps_stays_as_it_is(self, ctx, inline, subject):
        if subject.computes_later:
            pytest.skip("each merge is a task of its own, with an object of its own")
        data = np.arange(20 * 128 * 128, dtype=np.float32).reshape(20, 128, 128)
        dataset = ctx.load("memory", data=data, num_partitions=20)
        wanted = inline.run_udf(dataset=dataset, udf=Keeping())
        for _ in range(2):
            assert_same([ctx.run_udf(dataset=dataset, udf=Keeping())], [wanted])

    def test_functions_without_a_name(self, ctx, inline, tmp_path):
        dataset = load("memory", "uint16", inline, tmp_path)
        factor = 3
        mapped = ctx.map(dataset, lambda frame: frame.sum() * factor)
        assert np.array_equal(mapped, inline.map(dataset, lambda frame: frame.sum() * factor))
        ctx.export_dataset(dataset, path=tmp_path / "copy.npy")
        assert np.array_equal(np.load(tmp_path / "copy.npy"), scan("uint16"))

    def test_a_file_that_is_written_is_whole(self, ctx, inline, tmp_path):
        def fail(frame):
            if frame == 38:
                raise KeyError("a late frame")

        for action, left in ((fail, []), (int, ["frames.npy"])):
            udfs = [RecordUDF(tmp_path / "frames.npy"), PerFrame(action)]
            with pytest.raises(KeyError) if action is fail else nullcontext():
                assert ctx.run_udf(frames(inline), udfs)[1]["pid"].data.all()
            assert os.listdir(tmp_path) == left
        assert np.load(tmp_path / "frames.npy").shape == (40, 4, 4)

    def test_results_so_far_and_progress(self, ctx, inline, tmp_path):
        dataset = load("raw", "uint16", inline, tmp_path)
        recorder = Recorder()
        steps = zip(
            ctx.run_udf_iter(dataset, UDFS["mixed"](), progress=recorder),
            inline.run_udf_iter(dataset, UDFS["mixed"]()),
            strict=True,
        )
        n_steps = 0
        for got, wanted in steps:
            assert_same(got.buffers, wanted.buffers)
            assert np.array_equal(got.damage.data, wanted.damage.data)
            n_steps += 1
        assert n_steps == 5
        assert [kind for kind, _ in recorder.states] == ["start", *["update"] * 5, "end"]
        assert [state.num_part_complete for _, state in recorder.states] == [0, 1, 2, 3, 4, 5, 5]
        assert recorder.states[-1][1].num_frames_complete == 42

    def test_progress_of_a_whole_run(self, ctx, inline, subject, tmp_path):
        recorder = Recorder()
        dataset = load("memory", "uint16", inline, tmp_path)
        ctx.run_udf(dataset=dataset, udf=Level(), progress=recorder)["level"].data  # noqa: B018
        if subject.computes_later:  # which counts what is processed, and not what is merged
            assert [recorder.states[0][0], recorder.states[-1][0]] == ["start", "end"]
        else:
            assert [kind for kind, _ in recorder.states] == ["start", *["update"] * 5, "end"]
            complete = [state.num_part_complete for _, state in recorder.states]
            assert complete == [0, 1, 2, 3, 4, 5, 5]
        assert recorder.states[-1][1].num_frames_complete == 42

    def test_plots_are_updated(self, ctx, inline, subject, tmp_path):
        seen = []

        class Plot(Dummy2DPlot):
            def update(self, damage, force=False):
                seen.append((int(np.count_nonzero(damage)), force, threading.current_thread()))

        dataset = load("raw", "uint16", inline, tmp_path)
        udf = Level(offset=2)
        if subject.computes_later:
            with pytest.raises(UnsupportedError, match="computes nothing yet"):
                ctx.run_udf(dataset, udf, plots=[Plot(dataset, udf)])
            return
        ctx.run_udf(dataset, udf, plots=[Plot(dataset, udf)])
        wanted = [int(np.count_nonzero(r.damage.data)) for r in inline.run_udf_iter(dataset, udf)]
        assert [count for count, _, _ in seen] == wanted
        assert [force for _, force, _ in seen] == [False] * 4 + [True]
        assert {thread for _, _, thread in seen} == {threading.current_thread()}

    def test_parameters_change(self, ctx, subject, tmp_path):
        dataset = frames(ctx, n_frames=2000, n_partitions=1000)
        changed = tmp_path / "changed"
        with ctx.run_udf_iter(dataset=dataset, udf=WaitingLevel(changed)) as steps:
            next(steps)
            steps.update_parameters_experimental([{"offset": 7}])
            # The next step sends them. It may be one that waits for the file.
            timer = threading.Timer(5, changed.touch)
            timer.start()
            next(steps)
            timer.cancel()
            changed.touch()
            *_, last = steps
        levels = last[0]["level"].raw_data
        assert levels[0] == 1
        assert levels[-1] == 7
        assert set(levels) == {1, 7}
        # Workers of this machine hear of it before what they get later.
        if subject.has_processes and subject.forgotten is None:
            assert sorted(levels) == levels.tolist()

    def test_a_run_within_a_run(self, ctx, inline, tmp_path):
        dataset = load("raw", "uint16", inline, tmp_path)
        wanted = inline.run_udf(dataset, UDFS["mixed"]())
        n_steps, last = 0, None
        for results in ctx.run_udf_iter(dataset, UDFS["mixed"]()):
            last = results
            assert_same(ctx.run_udf(dataset, UDFS["mixed"]()), wanted)
            n_steps += 1
        assert n_steps == 5
        assert_same(last.buffers, wanted)

    def test_runs_from_several_threads(self, ctx, inline, tmp_path):
        dataset = load("raw", "uint16", inline, tmp_path)
        wanted = inline.run_udf(dataset, UDFS["mixed"]())
        results = []

        def run():
            results.extend(ctx.run_udf(dataset, UDFS["mixed"]()) for _ in range(3))

        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 9
        for result in results:
            assert_same(result, wanted)

    def test_a_run_that_is_left_can_be_followed_by_others(self, ctx, inline, tmp_path):
        dataset = load("raw", "uint16", inline, tmp_path)
        wanted = inline.run_udf(dataset, UDFS["mixed"]())
        for n in range(4):
            steps = ctx.run_udf_iter(dataset, UDFS["mixed"]())
            for _ in range(n):
                next(steps)
            if n == 1:
                with pytest.raises(UDFRunCancelled):
                    steps.throw(UDFRunCancelled("enough"))
            elif n == 2:
                del steps
            else:
                steps.close()
            assert_same(ctx.run_udf(dataset, UDFS["mixed"]()), wanted)

    def test_explain(self, ctx, inline, subject):
        dataset = frames(inline)
        assert subject.explains in ctx.explain(dataset, [ff.SumUDF(), Level()])

    def test_work_is_done_in_workers_with_one_thread_each(self, ctx, inline, subject):
        subject.lacks("has_processes")

        def check(_frame):
            limits = [os.environ[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS")]
            assert limits == ["1"] * 3
            assert "FRAMEFOLD_GIVEN_PYTHONPATH" not in os.environ

        pids = set(ctx.run_udf(frames(inline), PerFrame(check))["pid"].data.tolist())
        assert os.getpid() not in pids
        assert pids <= set(subject.workers(ctx.executor))

    @pytest.mark.filterwarnings("ignore::framefold.warnings.ThreadsInsteadWarning")
    def test_modules_are_as_they_are_here(self, ctx, tmp_path, monkeypatch):
        """Workers may have imported something else by their names, or find nothing."""
        name = f"module_of_{tmp_path.name}"
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.syspath_prepend(tmp_path)
        dataset = ctx.load("memory", data=np.zeros((4, 2, 4, 4), "float32"), num_partitions=4)

        def write(folder, scale, age):
            path = folder / f"{name}.py"
            path.write_text(OF_A_MODULE.format(scale=scale))
            os.utime(path, (age, age))  # the cache of compiled code goes by the time
            return path

        def level(cls):
            (found,) = set(ctx.run_udf(dataset, cls())["level"].data.ravel().tolist())
            return found

        def derived(base):
            class Derived(base):
                pass

            return Derived

        write(tmp_path, 1, 1e9)
        module = importlib.import_module(name)
        try:
            mine = derived(module.Scaled)
            assert level(module.Scaled) == level(mine) == 11
            module.SCALE = 5
            assert level(module.Scaled) == level(mine) == 51
            write(tmp_path, 2, 1.1e9)
            importlib.reload(module)
            assert level(module.Scaled) == level(derived(module.Scaled)) == level(mine) == 22
            path = write(elsewhere, 3, 1.2e9)
            spec = importlib.util.spec_from_file_location(name, path)
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            assert level(module.Scaled) == 33
            # Where nothing is found under its name.
            module.Scaled.__module__ = module.helper.__module__ = module.__name__ = "ghost"
            monkeypatch.setitem(sys.modules, "ghost", module)
            assert level(module.Scaled) == 33
            # What cannot be sent must not become what the workers have.
            module = sys.modules[name] = types.ModuleType(name)
            exec(OF_A_MODULE.format(scale=4), vars(module))
            module.helper.__kwdefaults__ = {"lock": threading.Lock()}
            message = None
            try:
                assert level(module.Scaled) == 44
            except FramefoldError as error:
                message = str(error)
            assert message is None or "is not the same in worker processes" in message
            assert message is None or "lock" in message
        finally:
            sys.modules.pop(name, None)

    @pytest.mark.filterwarnings("ignore::framefold.warnings.ThreadsInsteadWarning")
    @pytest.mark.parametrize(
        "cls",
        ["AsModule", "Through", "Within", "OfAClass", "Decorated", "InADict", "ByText"],
    )
    def test_modules_that_code_refers_to_as_modules(self, ctx, tmp_path, monkeypatch, cls):
        """As in ``helpers.f(x)``: what workers imported before must not be taken for it."""
        name, own = f"helpers_of_{tmp_path.name}", f"own_of_{tmp_path.name}"
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        dataset = ctx.load("memory", data=np.zeros((4, 2, 4, 4), "float32"), num_partitions=4)

        def level(scale, limit):
            try:
                found = set(ctx.run_udf(dataset, vars(module)[cls]())["level"].data.reshape(-1))
            except FramefoldError as error:
                message = str(error)
                assert f"{name}." in message
                assert "is not the same in worker processes" in message
                assert "make another context" in message
                assert "client.restart()" in message
            else:
                assert found == {scale * 10 + limit}

        try:
            (tmp_path / f"{name}.py").write_text(HELPERS.format(scale=1))
            (tmp_path / f"{own}.py").write_text(REFERS_TO_HELPERS.format(helpers=name))
            module = importlib.import_module(own)
            helpers = sys.modules[name]
            helpers.helper()  # a cache that is filled is no other code
            (found,) = set(ctx.run_udf(dataset, vars(module)[cls]())["level"].data.reshape(-1))
            assert found == 10
            helpers.LIMITS["low"] = 3
            level(1, 3)
            (tmp_path / f"{name}.py").write_text(HELPERS.format(scale=2))
            # Workers may have compiled what was there: the cache goes by the time.
            os.utime(tmp_path / f"{name}.py", (1e9, 1e9))
            importlib.reload(helpers)
            level(2, 0)
        finally:
            sys.modules.pop(name, None)
            sys.modules.pop(own, None)


HELPERS = """
import functools
LIMITS = {{"low": 0}}
_SEEN = []
class Journal:
    def __init__(self):
        self.entries = []
journal = Journal()
def helper():
    _SEEN.append(1)
    journal.entries.append(1)
    return {scale} * 10 + LIMITS["low"]
class Helper:
    def help(self):
        return {scale} * 10 + LIMITS["low"]
def plus(term):
    def decorator(function):
        @functools.wraps(function)
        def wrapper():
            return function() + term
        return wrapper
    return decorator
@plus({scale} * 10)
def decorated():
    return LIMITS["low"]
TABLE = {{"low": lambda: {scale} * 10 + LIMITS["low"]}}
"""

REFERS_TO_HELPERS = """
import {helpers} as helpers
from framefold.udf import UDF
class Base(UDF):
    def get_result_buffers(self):
        return {{"level": self.buffer(kind="nav")}}
class AsModule(Base):
    def process_frame(self, frame):
        self.results.level[:] = helpers.helper()
def through():
    return helpers.helper()
class Through(Base):
    def process_frame(self, frame):
        self.results.level[:] = through()
class Within(Base):
    def process_frame(self, frame):
        import {helpers} as mine
        self.results.level[:] = mine.helper()
class OfAClass(Base):
    def process_frame(self, frame):
        self.results.level[:] = helpers.Helper().help()
class Decorated(Base):
    def process_frame(self, frame):
        self.results.level[:] = helpers.decorated()
class InADict(Base):
    def process_frame(self, frame):
        self.results.level[:] = helpers.TABLE["low"]()
class ByText(Base):
    def process_frame(self, frame):
        self.results.level[:] = getattr(helpers, "helper")()
"""

OF_A_MODULE = """
import math
import time
import scipy.ndimage
from framefold.udf import UDF
SCALE = {scale}
def helper(frame):
    time.sleep(0.0 if math.isfinite(scipy.ndimage.sum(frame)) else time.localtime(0).tm_gmtoff)
    return frame.max() * 0 + {scale}
class Scaled(UDF):
    def get_result_buffers(self):
        return {{"level": self.buffer(kind="nav")}}
    def process_frame(self, frame):
        self.results.level[:] = helper(frame) + SCALE * 10
"""
