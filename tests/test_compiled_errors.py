"""What goes wrong with compiled functions is an error that names function, line and reason."""

import importlib
import linecache
import sys
import textwrap
from collections import namedtuple

import compiled_cases
import numpy as np
import pytest
from compiled_cases import both, cache, dataset, results  # noqa: F401

import framefold as ff
from framefold.exceptions import (
    ArgumentTypeError,
    InvalidArgumentError,
    UDFError,
    UnsupportedError,
    WorkerTimeoutError,
)
from framefold.executor.processes import ProcessJobExecutor
from framefold.warnings import IgnoredReturnWarning

numba = pytest.importorskip("numba")


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("inline")


@pytest.fixture(scope="module", params=["inline", "threads", "processes"])
def each_ctx(request):
    with ff.Context.make_with(request.param) as context:
        yield context


DATA = np.arange(6 * 5 * 4 * 3).reshape(6, 5, 4, 3).astype("int32")


class One(ff.UDF):
    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {"x": self.buffer("nav", dtype="int64")}


class Divides(One):
    @ff.compiled
    def process_frame(self, frame):
        value = int(frame[0, 0])
        self.results.x[0] = 100 // (value - 120)


def test_division_by_zero(each_ctx):
    with pytest.raises(ZeroDivisionError) as caught:
        results(each_ctx, DATA, Divides())
    notes = " ".join(caught.value.__notes__)
    assert "frame 10" in notes
    assert "Divides" in notes
    lines = [entry.name for entry in caught.traceback]
    assert "process_frame" in lines or isinstance(each_ctx.executor, ProcessJobExecutor)


def test_what_only_compiled_code_raises(ctx):
    class NumPyDivides(One):
        def get_result_buffers(self):
            return {"x": self.buffer("nav", dtype="float64")}

        @ff.compiled
        def process_frame(self, frame):
            self.results.x[0] = 1.0 / (frame[0, 0] - 120)

    with pytest.warns(RuntimeWarning), pytest.raises(ZeroDivisionError) as caught:
        results(ctx, DATA, NumPyDivides())
    assert "the interpreter raises nothing" in " ".join(caught.value.__notes__)


class Outside(One):
    @ff.compiled
    def process_tile(self, tile):
        self.results.x[0] = tile[0, 0, self.params.at]


def test_index_outside(ctx):
    results(ctx, DATA, Outside(at=2))
    with pytest.raises(IndexError) as caught:
        results(ctx, DATA, Outside(at=3))
    assert "tile of frames" in " ".join(caught.value.__notes__)


class Unassigned(One):
    @ff.compiled
    def process_frame(self, frame):
        for y in range(self.params.n):
            last = frame[y, 0]
            if y > 1:
                third = np.full(2, y)
        self.results.x[0] = last
        if self.params.n > 1:
            self.results.x[0] += third.sum()


def test_names_without_a_value(ctx):
    both(ctx, DATA, Unassigned, params=lambda: {"n": 3})
    both(ctx, DATA, Unassigned, params=lambda: {"n": 1})
    for n in 0, 2:
        with pytest.raises(UnboundLocalError) as caught:
            results(ctx, DATA, Unassigned(n=n))
        assert "the interpreter raises nothing" not in " ".join(caught.value.__notes__)


def test_loops_in_threads_of_numba_lose_no_run(ctx):
    @numba.njit(parallel=True)
    def total(frame):
        s = 0
        for y in numba.prange(frame.shape[0]):
            for x in range(frame.shape[1]):
                last = frame[y, x]
            s += int(last * np.inf)
        return s

    class Threads(One):
        @ff.compiled
        def process_frame(self, frame):
            self.results.x[0] = total(frame) * 0 + 1

    assert (results(ctx, DATA, Threads())["x"] == 1).all()


def test_exceptions_of_the_user(ctx):
    class Raises(One):
        @ff.compiled
        def process_frame(self, frame):
            if frame[0, 0] == 120:
                raise ValueError("no such frame")

    with pytest.raises(ValueError, match="no such frame") as caught:
        results(ctx, DATA, Raises())
    assert "frame 10" in " ".join(caught.value.__notes__)


def test_at_the_end_of_a_partition_and_in_merge(ctx):
    class Ends(Divides):
        @ff.compiled
        def process_frame(self, frame):
            self.results.x[0] = 1

        @ff.compiled
        def postprocess(self):
            self.results.x[0] = 1 // int(self.results.x[0] - 1)

    with pytest.raises(ZeroDivisionError) as caught:
        results(ctx, DATA, Ends())
    assert "postprocess" in " ".join(caught.value.__notes__)

    class Merges(Ends):
        postprocess = ff.UDF.postprocess

        @ff.compiled
        def merge(self, dest, src):
            dest.x[:] = 1 // (src.x[0] - 1)

    with pytest.raises(ZeroDivisionError) as caught:
        results(ctx, DATA, Merges())
    assert "merge" in " ".join(caught.value.__notes__)

    class Asks(Merges):
        @ff.compiled
        def merge(self, dest, src):
            dest.x[:] = self.meta.partition_shape.nav[0]

    with pytest.raises(UDFError, match=r"knows no .*partition_shape; it knows: dataset_shape"):
        results(ctx, DATA, Asks())


LISTED, THING = [1, 2], object()
PAIR = namedtuple("PAIR", "first second", defaults=(5,))


def case(line, base="One"):
    """A class whose second line of code is ``line``."""
    source = textwrap.dedent(f"""
        class Case({base}):
            @ff.compiled
            def process_frame(self, frame):
                y = 1
                {line}
    """)
    path = f"<case {abs(hash(line))}>"
    scope = dict(globals())
    linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    exec(compile(source, path, "exec"), scope)
    return scope["Case"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("frame[0, 0] = 1", "readonly"),
        ("self.other = 3", "self"),
        ("self.results.x[0] = self.other", "self.other"),
        ("self.results.x[0] = self.results.z[0]", "self.results.z"),
        ("self.results.x[0] = self.params.missing", "self.params.missing"),
        ("self.results.x[0] = self.params.listed[0]", "a list"),
        ("self.results.x[0] = self.params.function(1)", "not marked"),
        ("self.results.x[0] = self.params.names['a'][0]", "structured"),
        ("self.results.x[0] = np.unheard_of(frame)", "unheard_of"),
        ("self.results.x[0] = unmarked(frame)", "if unmarked is a function of yours, mark it with"),
        ("eval('1')", "eval"),
        ("self.results.x[0] = LISTED[0]", "LISTED"),
        ("self.results.x[0] = THING.k", "THING"),
        # Numba's own code fails on these.
        ("self.results.x[0] = frame[frame > 3].sum()", "a mask of several axes is no index"),
        ("f = frame.copy(); f[f > 3] += 1", "a mask of several axes is no index"),
        ("self.results.x += frame[0, :1].astype(np.uint64)", "stays int64, which cannot hold what"),
        ("self.results.x += 0.5", "computed with float64: arrays keep their dtype"),
        ("frame += 1", "frames, parameters and AUX data are read-only"),
        ("y = PAIR(1).second", "of a named tuple with defaults, pass all of them"),
        ("self.results.x[0] = self.params.large", "pass np.uint64(9223372036854775808)"),
        (
            "z = frame[0].astype('f4'); z = z if frame[0, 0] else z * np.arange(3); z[0] = 1",
            "convert what is float64, as in (a * b).astype(np.float32): of float32 and integers",
        ),
        ("np.take(frame, np.zeros((2, 2), np.int64), 1)", "np.take takes indices of one axis"),
        ("f = frame.astype(np.uint8); f += frame[0, 0]", "on the right, as in a += np.uint8(b)"),
        (
            "f = frame.astype(np.uint8); f += 256",
            "NumPy refuses it, too: the array stays uint8, which",
        ),
        ("f = frame.astype(np.int8); f[1:] *= -129", "int8, which has no -129"),
        ("f = frame.astype(np.uint8); f >>= 8", "shifted by 8 bits, nothing is left of uint8"),
        ("f = frame.astype(np.uint64); f <<= 64", "nothing is left of uint64: write a[:] = 0"),
        ("y = np.array(frame)[0]", "of arrays, a.copy() makes a copy, and np.stack((a, b)) one of"),
        ("y = np.array([frame[0], frame[1]])", "of arrays, a.copy() makes a copy, and np.stack"),
        ("y = np.mean(frame, axis=0)", "axis=Literal[int](0)): got an unexpected keyword argument"),
        ("y = np.average(frame, axis=0)", ">: np.average takes no axis in compiled code: write a"),
        ("y = (frame * 0.5) @ frame.T", ">: '@' arguments must all have the same dtype"),
        ("y = np.linalg.norm(frame * 0.5, 'fro')", "np.linalg.norm takes no text in compiled code"),
        (
            "y = frame.dtype == f'float{32}'",
            "the name of a dtype has to be in the code, as in",
        ),
        (
            "names = ['uint8', 'float32']; y = frame.dtype in names",
            "the name of a dtype has to be in the code, as in",
        ),
        ("import os", "compiled code cannot import; do so at the head of the file"),
        ("np.add(frame, 1, out=frame)", "Numba fails with NotImplementedError unsupported keyword"),
    ],
)
def test_what_cannot_be_compiled_is_named_with_its_line(ctx, line, said):
    names = np.zeros(3, [("a", "i4"), ("b", "f4")])
    udf = case(line)(listed=[1, 2], function=unmarked, names=names, large=2**63)
    with pytest.raises(UDFError) as caught:
        results(ctx, DATA, udf)
    text = str(caught.value)
    assert "Case.process_frame cannot be compiled: line 6 of" in text
    assert said in text
    assert len(text) < 1200


def test_names_within_expressions(ctx):
    with pytest.raises(UDFError, match=r"Case.process_frame cannot be .* as in \(m := frame.max"):
        results(ctx, DATA, case("if (m := frame.max()) > 3: self.results.x[0] = m")())


#: Numba itself lets these write into what is read-only.
WRITES = [
    "frame.flat[0] = 1",
    "c = frame.T.flat; c[1] = 1",
    "np.fill_diagonal(frame, 1)",
    "self.xp.fill_diagonal(val=1, a=frame)",
    "np.nan_to_num(frame, False)",
    "np.nan_to_num(frame, copy=frame[0, 0] > 1)",
    "np.dot(np.eye(5, 4), np.eye(4, 3), frame)",
    "np.dot(np.eye(5, 4), np.eye(4, 3), out=frame)",
    "c = np.ascontiguousarray(frame); c[0, 0] = 1",
    "c = np.ascontiguousarray(frame); c -= c.mean()",
    "c = np.ascontiguousarray(frame[1]); c[0] = 1",
    "c = np.asfortranarray(frame[1]); c[0] = 1",
    "c = same(frame); c[0, 0] = 1",
    "for c in np.nditer(frame): c[()] = 1",
    "for c, d in np.nditer((np.ones(frame.shape), frame)): d[...] = 1",
    "for c in np.nditer(frame): set_one(c)",
    "fill(frame)",
    "self.params.array.flat[0] = 1",
    "c = np.ascontiguousarray(self.params.array); c[0] = 1",
    "np.ascontiguousarray(self.params.aux)[0] = 1",
    "ARRAY.flat[0] = 1",
]
ARRAY = np.zeros(3)


@ff.compiled
def same(array):
    return np.ascontiguousarray(array)


@ff.compiled
def set_one(array):
    array[...] = 1


@numba.njit
def fill(array):
    array.flat[0] = 1


@pytest.mark.parametrize("line", WRITES)
def test_what_is_read_only_is_not_written_to(ctx, tmp_path, line):
    data, array, aux = DATA.astype("f8"), np.zeros(3), np.zeros(30)
    np.save(tmp_path / "data.npy", data)
    parameters = {"array": array, "aux": One.aux_data(aux, "nav", dtype="f8")}
    # Last, as writing into a file that is mapped would end the process.
    for ds in dataset(ctx, data), ctx.load("npy", tmp_path / "data.npy"):
        with pytest.raises(UDFError, match=r"line \d+ of .*(readonly|are read-only)"):
            ctx.run_udf(ds, case(line)(**parameters))
    assert (data == DATA).all()
    assert not array.any()
    assert not aux.any()


def test_a_stage_does_not_write_into_frames(ctx):
    class Fills(ff.Transform):
        @ff.compiled
        def process_frame(self, frame, out):
            np.fill_diagonal(frame, 1)
            out[:] = frame

    with pytest.raises(UDFError, match="Cannot modify readonly array"):
        dataset(ctx, DATA).pipe(Fills())


def test_what_is_copied_can_be_written_to(ctx):
    class Copies(One):
        def get_result_buffers(self):
            return {"x": self.buffer("nav", (6,), dtype="int64")}

        @ff.compiled
        def process_frame(self, frame):
            x = self.results.x
            x[0] = np.ascontiguousarray(frame).sum()
            c = np.ascontiguousarray(frame.T)
            c -= 5
            x[1] = c.sum()
            d = np.ascontiguousarray(frame[:, :2])
            d -= 5
            x[2] = d.sum() + frame[:, 0].sum()
            e = np.asfortranarray(a=frame)
            e -= 5
            x[3] = e.sum() + frame.sum()
            f = np.ascontiguousarray(2 * frame)
            f -= frame
            x[4] = f.sum()
            g = 1.0 * frame
            np.fill_diagonal(g, 1)
            x[5] = np.nan_to_num(g).sum()

    data = DATA.astype("f8")
    both(ctx, data, Copies)
    assert (data == DATA).all()


def test_elements_of_nditer_are_as_their_arrays(ctx):
    class Copies(One):
        @ff.compiled
        def process_frame(self, frame):
            made = np.zeros(frame.shape)
            for here, there in np.nditer((frame, made)):
                there[()] = here.item()
            self.results.x[0] = made.sum()

    np.testing.assert_array_equal(results(ctx, DATA, Copies())["x"], DATA.sum((2, 3)).ravel())


class Counts(One):
    def get_task_data(self):
        return {"count": 0, "text": "a"}

    @ff.compiled
    def add(self, data, value):
        data.count += value


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("self.task_data.count += 1", "self.task_data.count is no array (int64) and cannot be"),
        ("self.task_data.count = 2", "self.task_data.count is no array (int64) and cannot be"),
        ("self.task_data.text += 'b'", "self.task_data.text is no array (unicode_type)"),
        ("t = self.task_data; t.count -= 1", "self.task_data.count is no array"),
        ("self.params.count += 1", "self.params.count is no array (int64)"),
        ("self.params.count = 1", "self.params.count is no array (int64)"),
        ("self.params.array = 1", "self.params.array is a read-only array"),
        ("self.add(self.params, 1)", ": data.count is no array (int64)"),
        ("self.add(self.task_data, 1)", ": data.count is no array (int64)"),
        ("self.add(self.results, 1)", ": compiled code knows no self.results.count; it knows: x"),
    ],
)
def test_what_is_no_array_cannot_be_replaced(ctx, line, said):
    with pytest.raises(UDFError) as caught:
        results(ctx, DATA, case(line, "Counts")(count=3, array=np.zeros(2)))
    assert "line 6 of" in str(caught.value)
    assert said in str(caught.value)


def test_arrays_of_one_element_count(ctx):
    class CountsInArrays(Counts):
        def get_task_data(self):
            return {"count": np.zeros(1, int)}

        @ff.compiled
        def process_frame(self, frame):
            self.task_data.count += 1
            self.add(self.task_data, 10)
            self.results.x = self.task_data.count

    found = results(ctx, DATA, CountsInArrays(), options={"num_partitions": 1})["x"]
    assert found.ravel().tolist() == list(range(11, 341, 11))


def test_what_is_returned_and_not_written_warns_once(each_ctx):
    said = r"Case\.process_frame is compiled and returns float64, .* self\.results\.x\[:\] ="
    for _ in range(2):  # compiled, and from the cache
        with pytest.warns(IgnoredReturnWarning, match=said) as caught:
            results(each_ctx, DATA, case("return frame.mean()")(), options={"num_partitions": 3})
        assert [each.filename for each in caught] == [compiled_cases.__file__]


def unmarked(value):
    return value


def test_what_numba_fails_on_in_map(ctx):
    chosen = ff.compiled(lambda frame: frame[frame > 3].sum())
    with pytest.raises(UDFError, match=r"compiled: line \d+ of .*a mask of several axes"):
        ctx.map(dataset(ctx, DATA), chosen)


def test_options():
    for name in ("parallel", "forceobj", "nopython", "nogil", "error_model"):
        with pytest.raises(InvalidArgumentError, match=name):
            ff.compiled(**{name: True})
    with pytest.raises(ArgumentTypeError, match="boundscheck"):
        ff.compiled(boundscheck=1)
    for wrong in (3, np.sum, "process_frame"):
        with pytest.raises(ArgumentTypeError, match="expected a function"):
            ff.compiled(wrong)


def test_hooks_that_are_not_compiled(ctx):
    class Half(Divides):
        def postprocess(self):
            pass

    with pytest.raises(UDFError, match="postprocess must be compiled as well"):
        results(ctx, DATA, Half())

    class OtherHalf(One):
        def process_frame(self, frame):
            pass

        @ff.compiled
        def merge(self, dest, src):
            dest.x[:] = src.x

    with pytest.raises(UDFError, match="mark both or none"):
        results(ctx, DATA, OtherHalf())


def test_static_methods(ctx):
    class Static(One):
        @staticmethod
        @ff.compiled
        def double(value):
            return value * 2

        @ff.compiled
        def process_frame(self, frame):
            self.results.x[0] = self.double(frame[0, 0])

    with pytest.raises(UDFError, match="double is a static method"):
        results(ctx, DATA, Static())


def test_dtypes_that_are_no_numbers(ctx):
    class Structured(One):
        def get_result_buffers(self):
            return {"x": self.buffer("nav", dtype=np.dtype([("a", "i4"), ("b", "f4")]))}

        @ff.compiled
        def process_frame(self, frame):
            pass

    with pytest.raises(UDFError, match="'x' has a structured dtype"):
        results(ctx, DATA, Structured())
    with pytest.raises(UDFError, match="float16"):
        results(ctx, DATA.astype("float16"), Divides())


def test_formats_that_there_are_not(ctx):
    class Coo(Divides):
        def get_backends(self):
            return (self.BACKEND_SPARSE_COO,)

    with pytest.raises(UnsupportedError, match="get_backends"):
        results(ctx, DATA, Coo())


def test_more_memory_than_there_is(ctx):
    class Greedy(One):
        @ff.compiled
        def process_frame(self, frame):
            self.results.x[0] = np.empty(1 << 48, np.float64).size

    with pytest.raises(MemoryError):
        results(ctx, DATA, Greedy())


def test_other_kinds_of_parameters_in_the_middle_of_a_run(ctx):
    class Adds(One):
        @ff.compiled
        def process_frame(self, frame):
            self.results.x[0] = self.params.value * 2

    ds = dataset(ctx, DATA, num_partitions=3)
    run = ctx.run_udf_iter(dataset=ds, udf=Adds(value=1))
    seen = []
    for number, part in enumerate(run):
        seen.append(part.buffers[0]["x"].raw_data.copy())
        if number == 0:
            run.update_parameters_experimental([{"value": 2.5}])
    assert seen[-1][0] == 2
    assert seen[-1][-1] == 5


class Endless(One):
    @ff.compiled
    def process_frame(self, frame):
        while self.results.x[0] < 1:
            self.results.x[0] = min(self.results.x[0], frame[0, 0] - frame[0, 0])


def test_a_function_that_never_returns_ends_with_its_worker():
    with (
        ff.Context(executor=ProcessJobExecutor(1, timeout=0.5)) as ctx,
        pytest.raises(WorkerTimeoutError, match="Endless"),
    ):
        results(ctx, DATA, Endless())


EDITED = """
import framefold as ff
class Edited(ff.UDF):
    def get_result_buffers(self):
        return {{"x": self.buffer("nav", dtype="int64")}}
    @ff.compiled
    def process_frame(self, frame):
        self.results.x[0] = {value}
"""


def test_edited_between_runs(ctx, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "edited_udf.py").write_text(EDITED.format(value=3))
    module = importlib.import_module("edited_udf")
    assert (results(ctx, DATA, module.Edited())["x"] == 3).all()
    (tmp_path / "edited_udf.py").write_text(EDITED.format(value=44))
    linecache.clearcache()
    module = importlib.reload(module)
    assert (results(ctx, DATA, module.Edited())["x"] == 44).all()
    # As in a cell of a notebook that is run again, and that again as it was first.
    for value in (5, 6, 5):
        scope = {}
        exec(compile(EDITED.format(value=value), "<cell>", "exec"), scope)
        assert (results(ctx, DATA, scope["Edited"]())["x"] == value).all()
