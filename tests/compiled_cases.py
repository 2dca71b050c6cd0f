"""What tests of compiled functions share: runs of the same class with and without compiling."""

from types import FunctionType

import numpy as np
import pytest

import framefold as ff
from framefold.compilation.marks import MARK


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    """A cache of the module's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRAMEFOLD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def interpreted(cls):
    """The same class, of which nothing is compiled."""
    made = {}
    for base in reversed(cls.__mro__[: cls.__mro__.index(ff.UDF)]):
        for name, value in vars(base).items():
            if isinstance(value, FunctionType) and hasattr(value, MARK):
                plain = FunctionType(
                    value.__code__,
                    value.__globals__,
                    name,
                    value.__defaults__,
                    value.__closure__,
                )
                made[name] = plain
    return type(cls.__name__, (cls,), {**made, "__module__": cls.__module__})


def dataset(ctx, data, sig_dims=2, **options):
    """A data set in memory."""
    return ctx.load("memory", data=data, sig_dims=sig_dims, **options)


def results(ctx, data, udf, sig_dims=2, options=None, **run):
    """Raw arrays of all results by name."""
    found = ctx.run_udf(dataset=dataset(ctx, data, sig_dims, **(options or {})), udf=udf, **run)
    return {name: np.array(buffer.raw_data) for name, buffer in found.items()}


def both(ctx, data, cls, sig_dims=2, options=None, equal=True, params=None, **run):
    """The results of a compiled class, which are those of the interpreter to the last bit.

    Parameters are made anew for each, by ``params()``.
    """
    params = params or dict
    compiled = results(ctx, data, cls(**params()), sig_dims, options, **run)
    plain = results(ctx, data, interpreted(cls)(**params()), sig_dims, options, **run)
    assert compiled.keys() == plain.keys()
    for name, array in compiled.items():
        assert array.dtype == plain[name].dtype, name
        assert array.shape == plain[name].shape, name
        if equal:
            np.testing.assert_array_equal(array, plain[name], err_msg=name)
        else:
            np.testing.assert_allclose(array, plain[name], rtol=1e-5, atol=1e-6, err_msg=name)
    return compiled
