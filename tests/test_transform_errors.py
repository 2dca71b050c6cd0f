"""What goes wrong in stages of one's own, where it is said, and how they are stopped."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest
from process_cases import eventually
from shared_contexts import shared
from test_transform import NAV, SIG, Cropped, Profile
from transform_cases import FORMS, Base, Slow

import framefold as ff
from framefold.exceptions import InvalidArgumentError, LimitError, UDFError, UDFRunCancelled
from framefold.udf.engine import native


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("inline")


class Written(ff.Transform):
    def process_frame(self, frame, out):
        frame[0] = 1


class Returned(ff.Transform):
    def process_frame(self, frame, out):
        return frame


class Broken(Exception):
    pass


class Raises(ff.Transform):
    def __init__(self, value=4):
        super().__init__(value=value)

    def process_frame(self, frame, out):
        if frame[0, 0] == self.params.value:
            raise Broken("no such frame")


class RaisesInStacks(Raises):
    def process_frames(self, frames, out):
        for frame in frames:
            self.process_frame(frame, out)


class RaisesCompiled(Raises):
    @ff.compiled
    def process_frame(self, frame, out):
        if frame[0, 0] == self.params.value:
            out[0, 0] = 1 // int(frame[0, 0] - self.params.value)


def counted(n=12):
    return np.arange(n, dtype=np.int64).reshape((n, 1, 1)) + np.zeros((2, 2), np.int64)


@pytest.mark.parametrize("executor", ["inline", "threads", "processes"])
def test_exceptions_come_back_as_themselves(executor):
    options = {} if executor == "inline" else {"cpus": 2}
    with shared(executor, **options) as ctx:
        dataset = ctx.load("memory", data=counted(), sig_dims=2, num_partitions=4)
        for cls, error, text, where in [
            (Raises, Broken, "no such", r"Raises\(value=4\) for frame 4\b"),
            (RaisesInStacks, Broken, "no such", r"RaisesInStacks\(value=4\) for frames 3 to 5\b"),
            (RaisesCompiled, ZeroDivisionError, "zero", r"RaisesCompiled\(value=4\) for frame 4\b"),
        ]:
            with pytest.raises(Exception, match=text) as caught:
                ctx.run_udf(dataset=dataset.pipe(cls()), udf=ff.SumUDF())
            assert type(caught.value).__name__ == error.__name__
            assert re.search(where, "".join(caught.value.__notes__))
            shown = "".join(traceback.format_exception(caught.value))
            assert "in process_frame" in shown
        result = ctx.run_udf(dataset=dataset.pipe(Raises(99)), udf=ff.SumUDF())
        assert not np.asarray(result["intensity"].data).any()


def test_frames_are_read_only(ctx):
    dataset = ctx.load("memory", data=counted(), sig_dims=2)
    with pytest.raises(ValueError, match="read-only") as caught:
        np.asarray(dataset.pipe(Written()))
    assert "Written() for frame 0" in caught.value.__notes__[0]
    assert "work on frame.copy()" in caught.value.__notes__[0]
    assert "AUX" not in caught.value.__notes__[0]

    class WrittenCompiled(ff.Transform):
        @ff.compiled
        def process_frame(self, frame, out):
            frame[0, 0] = 1

    with pytest.raises(UDFError, match=r"WrittenCompiled.process_frame cannot be compiled: line"):
        dataset.pipe(WrittenCompiled())


def test_what_is_returned_is_an_error(ctx):
    dataset = ctx.load("memory", data=counted(), sig_dims=2)
    with pytest.raises(UDFError, match=r"Returned\(\) for frame 0 returned a ndarray") as caught:
        np.asarray(dataset.pipe(Returned()))
    assert "out[:] = …" in caught.value.hint

    class Swapped(ff.Transform):
        def process_frame(self, frame, out):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                out.dtype = out.dtype.newbyteorder()
            out[:] = frame

    with pytest.raises(UDFError, match=r"Swapped\(\) for frame 0 changed the dtype of the array"):
        np.asarray(dataset.pipe(Swapped()))

    class Compiled(ff.Transform):
        @ff.compiled
        def process_frame(self, frame, out):
            return frame

    with pytest.raises(UDFError, match=r"Compiled.process_frame returns .*write into the array"):
        dataset.pipe(Compiled())


def test_compiled_code_knows_no_results_and_no_scan(ctx):
    dataset = ctx.load("memory", data=counted(), sig_dims=2)

    class Results(ff.Transform):
        @ff.compiled
        def process_frame(self, frame, out):
            self.results.out[0] = 1

    class Coordinates(ff.Transform):
        @ff.compiled
        def process_frame(self, frame, out):
            out[:] = self.meta.coordinates[0, 0]

    class Outside(ff.Transform):
        @ff.compiled
        def process_frame(self, frame, out):
            out[2, 0] = 1

    with pytest.raises(UDFError, match=r"knows no self\.results"):
        dataset.pipe(Results())
    with pytest.raises(UDFError, match=r"knows no self\.meta\.coordinates"):
        dataset.pipe(Coordinates())
    with pytest.raises(IndexError):
        np.asarray(dataset.pipe(Outside()))
    with pytest.raises(UDFError, match="gets frames of float16"):
        dataset.pipe(ff.Cast("float16"), Profile())


def transform(**members):
    return type("Odd", (ff.Transform,), members)


def outputs(**what):
    def get_output(self):
        return self.output(**what)

    return transform(get_output=get_output, process_frame=lambda self, frame, out: None)


async def later(self, frame, out):
    pass


def one_by_one(self, frame, out):
    yield frame


class Deep(Base):
    def __init__(self, other):
        self.other = other

    def process_frame(self, frame, out):
        pass


class Derived(FORMS["stacks"]):
    def process_frame(self, frame, out):
        pass


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (transform(), "implements neither process_frame"),
        (transform(process_frame=3), "expected a method process_frame"),
        (transform(process_frame=lambda self, frame: 0), "cannot be called with two arrays"),
        (transform(process_frames=lambda self, a, b, c: 0), r"process_frames\(self, frames, out\)"),
        (transform(process_frame=later), "async def"),
        (transform(process_frame=one_by_one), "yield"),
        (Derived, "implement process_frames in Derived"),
        (lambda: Deep(3), r"Deep.__init__ does not call super"),
        (outputs(sig=()), r"gives sig=\(\)"),
        (outputs(sig=(4, 0)), r"gives sig=\(4, 0\)"),
        (outputs(sig=(4, -1)), r"gives sig=\(4, -1\)"),
        (outputs(sig=(4.5,)), r"gives sig=\(4.5,\)"),
        (outputs(sig="ab"), "gives sig='ab'"),
        (outputs(sig=np.array([4, 0])), r"gives sig=array\(\[4, 0\]\), expected the lengths"),
        (outputs(sig=(1,) * 40), "1 to 31 axes"),
        (outputs(dtype=object), "expected one of bool, uint8"),
        (outputs(dtype="U5"), "gives dtype='U5'"),
        (outputs(dtype="longdouble"), "gives dtype='longdouble'"),
        (outputs(dtype=[("a", "f4")]), "gives dtype="),
        (outputs(dtype="nonsense"), "gives dtype='nonsense'"),
        (
            transform(get_output=lambda self: None, process_frame=lambda self, frame, out: 0),
            r"returned None, expected self.output\(",
        ),
        (lambda: Cropped(ff.UDF.aux_data(np.ones(SIG), "sig")), "AUX data"),
    ],
)
def test_mistakes_are_named_where_they_are_made(ctx, make, words):
    dataset = ctx.load("memory", data=np.zeros((*NAV, *SIG), np.uint8))
    with pytest.raises(InvalidArgumentError, match=words):
        dataset.pipe(make())


def test_frames_that_cannot_be(ctx):
    dataset = ctx.load("memory", data=np.zeros((*NAV, *SIG), np.uint8))
    with pytest.raises(LimitError, match="there cannot be frames"):
        dataset.pipe(outputs(sig=(1 << 40, 1 << 40))())
    with pytest.raises(LimitError):
        dataset.pipe(outputs(sig=(1 << 20, 1 << 26))())[0, 0]


def test_exceptions_of_get_output_are_the_users_own(ctx):
    def fails(self):
        raise Broken("no output")

    dataset = ctx.load("memory", data=np.zeros((*NAV, *SIG), np.uint8))
    with pytest.raises(Broken, match="no output"):
        dataset.pipe(transform(get_output=fails, process_frame=lambda self, frame, out: 0)())

    class Positional(ff.Transform):
        def __init__(self, one):
            super().__init__(two=one)

        def process_frame(self, frame, out):
            pass

    with pytest.raises(TypeError, match="two") as caught:
        dataset.pipe(Positional(1))
    assert "must accept exactly these" in caught.value.__notes__[0]

    class Inverse(ff.Transform):
        def __init__(self, gain):
            super().__init__(gain=1 / gain)

        def process_frame(self, frame, out):
            out[:] = frame * self.params.gain

    wrong = "Inverse.__init__ converts parameter 'gain': it passes on 0.1 .* and 10.0 when"
    with pytest.raises(InvalidArgumentError, match=wrong):
        dataset.pipe(Inverse(10))


def test_threads_with_python_on_both_sides_do_not_wait_for_each_other():
    code = f"""
        import sys
        sys.path[:0] = [{str(Path(__file__).parent)!r}]
        import framefold as ff, numpy as np
        from stage_cases import Frames
        from transform_cases import Each
        data = np.ones((21, 40, 40), np.uint16)
        with ff.Context.make_with("threads", cpus=4) as ctx:
            dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=21)
            for _ in range(5):
                ctx.run_udf(dataset=dataset.pipe(Each(), Each()), udf=[Frames(), ff.SumUDF()])
        print("done")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == "done", done.stderr


SLOW = """
    import sys
    sys.path[:0] = [sys.argv[3]]
    import numpy as np
    import framefold as ff
    from transform_cases import Slow

    ctx = ff.Context.make_with(sys.argv[1], **({} if sys.argv[1] == "inline" else {"cpus": 2}))
    dataset = ctx.load("memory", data=np.zeros((100, 100, 8, 8), np.float32), num_partitions=4)
    try:
        ctx.run_udf(dataset=dataset.pipe(Slow(sys.argv[2])), udf=ff.SumUDF())
    except KeyboardInterrupt:
        result = ctx.run_udf(dataset=dataset, udf=ff.SumSigUDF())
        print("next run:", result["intensity"].data.shape)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals work differently there")
@pytest.mark.parametrize("executor", ["inline", "threads", "processes"])
def test_ctrl_c(executor, tmp_path):
    begun = tmp_path / "begun"
    here = str(Path(__file__).parent)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SLOW), executor, begun, here],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert eventually(lambda: begun.exists() or process.poll() is not None, 60)
        process.send_signal(signal.SIGINT)
        # The whole run would take over three minutes.
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "next run: (100, 100)" in out, err


def test_cancel(tmp_path):
    begun = tmp_path / "begun"
    ctx = ff.Context.make_with("threads", cpus=2)
    dataset = ctx.load("memory", data=np.zeros((100, 100, 8, 8), np.float32), num_partitions=4)
    slow = dataset.pipe(Slow(str(begun)))
    plan = ff._engine.Plan(slow._engine, [native.native_udf(ff.SumUDF(), slow)])

    def cancel():
        eventually(begun.exists, 60)
        plan.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    # The whole run would take over three minutes.
    with pytest.raises(UDFRunCancelled):
        ff._engine.Driver(plan, 2).run()
    thread.join()
    assert begun.exists()
