"""Code of users' modules and scripts goes to workers as it is, whatever form it has."""

from __future__ import annotations

import functools
import importlib
import os
import pickle
import sys
import textwrap

import numpy as np
import pytest
from process_cases import hard_limit  # noqa: F401 - a fixture
from shared_contexts import shared

import framefold as ff
from framefold.executor._wire import code, pickles
from framefold.executor._wire.failures import DifferentCodeError

pytestmark = pytest.mark.usefixtures("hard_limit")


class Level(ff.UDF):
    """What a function of no arguments gives."""

    def get_result_buffers(self):
        return {"level": self.buffer("nav", dtype="int64")}

    def process_frame(self, _frame):
        self.results.level[:] = self.level()

    def level(self):
        return self.params.function()


@pytest.fixture(params=["processes", "dask"])
def ctx(request):
    with shared(request.param) as context:
        yield context


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module and imports it, and does so again with other code."""
    name = f"code_of_{tmp_path.name}"
    path = tmp_path / f"{name}.py"
    monkeypatch.syspath_prepend(tmp_path)
    versions = iter(range(9))

    def written(source):
        path.write_text(textwrap.dedent(source))
        age = 1e9 + next(versions)  # the cache of compiled code goes by the time
        os.utime(path, (age, age))
        known = sys.modules.get(name)
        return importlib.reload(known) if known else importlib.import_module(name)

    yield written
    sys.modules.pop(name, None)


def level(ctx, udf):
    dataset = ctx.load("memory", data=np.zeros((4, 4, 4), "uint8"), sig_dims=2, num_partitions=2)
    (found,) = set(ctx.run_udf(dataset, udf)["level"].data.tolist())
    return found


CACHED = """
    import functools

    @functools.cache
    def power(n):
        return {base} if n == 1 else {base} * power(n - 1)

    class Powers:
        @functools.lru_cache(maxsize=3)
        def third(self):
            return power(3)
"""


@pytest.mark.parametrize("name", ["power", "Powers"])
def test_functions_with_a_cache_are_those_of_a_reloaded_module(ctx, module, name):
    for base in (2, 3):
        value = getattr(module(CACHED.format(base=base)), name)

        class Third(Level):
            def level(self, value=value):
                return value().third() if isinstance(value, type) else value(3)

        assert level(ctx, Third()) == base**3


def test_functions_with_a_cache_as_parameters(ctx, module):
    for base in (2, 3):
        cached = functools.partial(module(CACHED.format(base=base)).power, 1)
        assert level(ctx, Level(function=cached)) == base
        cached = functools.cache(lambda base=base: base + 1)
        assert level(ctx, Level(function=cached)) == base + 1


def test_properties_with_a_cache(ctx):
    class Cached(Level):
        @functools.cached_property
        def weights(self):
            return np.arange(4)

        def level(self):
            assert self.weights is self.weights
            return self.weights.sum()

    assert level(ctx, Cached()) == 6


def test_what_a_cached_function_has_beside_it_goes_along():
    cached = functools.lru_cache(maxsize=3, typed=True)(lambda n: n + 1)
    cached.unit = "px"
    again = pickle.loads(pickles.packed(code.sent(cached)))
    assert again(1) == 2
    assert again.cache_parameters() == {"maxsize": 3, "typed": True}
    assert again.unit == "px"
    assert again.__wrapped__(2) == 3


def test_cached_functions_of_libraries_go_by_name():
    import fnmatch

    cached = fnmatch._compile_pattern
    assert pickle.loads(pickles.packed(cached)) is cached


def test_another_function_in_the_place_of_the_cached_one_is_refused():
    cached = functools.wraps(len)(functools.cache(lambda n: n))
    cached.__module__ = "__main__"
    with pytest.raises(pickle.PicklingError, match=r"functools\.wraps below functools\.cache"):
        pickles.packed(cached)


OBJECTS = """
    import enum

    class Scale:
        def __init__(self, plus=0):
            self.plus = plus

        def __call__(self):
            return {scale} + self.plus

    def scale():
        return {scale}

    class Mode(enum.Enum):
        FAST = 1
        EXACT = 2
"""


@pytest.mark.parametrize("kind", ["memory", "npy"])
def test_stages_with_classes_among_their_parameters(ctx, module, tmp_path, kind):
    """Whether workers keep the data set open or not."""
    source = """
        import framefold as ff

        class Multiplied(ff.Transform):
            def __init__(self, mode, factors):
                super().__init__(mode=mode, factors=factors)

            def process_frame(self, frame, out):
                is_fast = self.params.mode is Mode.FAST
                out[:] = frame * self.params.factors[0]() if is_fast else 0
    """
    frames = np.ones((4, 4, 4), "uint8")
    np.save(tmp_path / "frames.npy", frames)
    given = (
        {"data": frames, "sig_dims": 2} if kind == "memory" else {"path": tmp_path / "frames.npy"}
    )
    dataset = ctx.load(kind, **given, num_partitions=2)
    own = module(textwrap.dedent(OBJECTS).format(scale=2) + textwrap.dedent(source))
    piped = dataset.pipe(own.Multiplied(own.Mode.FAST, [own.scale]))
    sums = ctx.map(dataset=piped, f=lambda frame: int(frame.sum()))
    assert sums.data.ravel().tolist() == [32] * 4


def test_there_is_one_class_of_a_name(ctx, module):
    """Whether the function refers to it as it is, or by its module, which workers import."""
    own = module(OBJECTS.format(scale=1))
    Mode, Scale = own.Mode, own.Scale

    class ByItsName(Level):
        def level(self):
            return 10 * (self.params.mode is Mode.FAST) + isinstance(self.params.scale, Scale)

    class ByItsModule(Level):
        def level(self):
            return 10 * (self.params.mode is own.Mode.FAST) + isinstance(
                self.params.scale, own.Scale
            )

    for cls in (ByItsName, ByItsModule):
        assert level(ctx, cls(mode=Mode.FAST, scale=Scale())) == 11


def test_there_is_one_class_where_other_code_is_imported(ctx, module, tmp_path, monkeypatch):
    """A function refers to a class, and by its module to a function that refers to it, too."""
    own = module(OBJECTS.format(scale=1))
    name = f"helpers_{own.__name__}"
    (tmp_path / f"{name}.py").write_text(
        f"from {own.__name__} import Mode\ndef is_fast(mode):\n    return mode is Mode.FAST\n"
    )
    helpers = importlib.import_module(name)
    monkeypatch.setitem(sys.modules, name, helpers)
    Mode = own.Mode

    class Asks(Level):
        def level(self):
            mode = self.params.mode
            return (
                100 * helpers.is_fast(mode) + 10 * helpers.is_fast(Mode.FAST) + (mode is Mode.FAST)
            )

    class AsksWithoutParameters(Level):
        def level(self):
            return helpers.is_fast(Mode.FAST)

    assert level(ctx, Asks(mode=Mode.FAST)) == 111
    assert level(ctx, AsksWithoutParameters()) == 1


def test_classes_that_workers_import_are_compared(ctx, module):
    """Where they have those of before, an error says so."""
    own = module(OBJECTS.format(scale=1))

    class Both(Level):
        def level(self):
            return own.Scale()() + self.params.scale()

    assert level(ctx, Both(scale=own.Scale())) == 2
    own = module(OBJECTS.format(scale=2))
    with pytest.raises(DifferentCodeError, match="is not the same in worker processes"):
        level(ctx, Both(scale=own.Scale()))


def test_classes_that_need_keywords_are_imported(ctx, module):
    """Python keeps none of `(Scale, factor=2)`, with which the class would be made again."""
    source = """
        import framefold as ff

        class Scale:
            def __init_subclass__(cls, factor):
                cls.factor = factor

            def __call__(self):
                return self.factor * {scale}

        class Twice(Scale, factor=2):
            pass

        class Uses(ff.UDF):
            def get_result_buffers(self):
                return {{"level": self.buffer("nav", dtype="int64")}}

            def process_frame(self, frame):
                self.results.level[:] = Twice()()
    """
    assert level(ctx, module(source.format(scale=1)).Uses()) == 2
    with pytest.raises(DifferentCodeError, match="keywords of class Twice are not kept"):
        level(ctx, module(source.format(scale=2)).Uses())


def test_there_is_one_class_where_a_module_keeps_some_of_its_objects(ctx, module, tmp_path):
    """Whatever else the module has them in: it imports that of the class."""
    own = module(OBJECTS.format(scale=1))
    name = f"tables_{own.__name__}"
    source = """
        from {own} import Mode, Scale

        class Settings:
            def __init__(self, mode):
                self.mode = mode

        levels = {{Mode.FAST: 10}}
        settings = Settings(Mode.FAST)
    """
    path = tmp_path / f"{name}.py"
    path.write_text(textwrap.dedent(source).format(own=own.__name__))
    tables = importlib.import_module(name)

    class Compares(Level):
        def level(self):
            mode = self.params.mode
            return tables.levels.get(mode, 0) + (tables.settings.mode is mode)

    assert level(ctx, Compares(mode=own.Mode.FAST)) == 11
    sys.modules.pop(name)
