"""What the code of the interface's specification takes as given."""

import numpy as np
import pytest

from framefold import api
from framefold.executor.concurrent import ConcurrentJobExecutor
from framefold.executor.inline import InlineJobExecutor
from framefold.viz.base import Dummy2DPlot


@pytest.fixture(params=[InlineJobExecutor, ConcurrentJobExecutor])
def ctx(request):
    with api.Context(executor=request.param(), plot_class=Dummy2DPlot) as context:
        yield context


@pytest.fixture
def data():
    return np.random.default_rng(5).random((16, 16, 32, 32)).astype(np.float32)


@pytest.fixture
def dataset(ctx, data):
    return ctx.load("memory", data=data, sig_dims=2)


@pytest.fixture
def roi(dataset):
    return np.random.default_rng(6).choice([True, False], dataset.shape.nav)
