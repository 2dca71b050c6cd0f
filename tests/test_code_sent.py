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
    cached.__module__ = __name__
    with pytest.raises(pickle.PicklingError, match=r"functools\.wraps below functools\.cache"):
        pickles.packed(cached)
