"""What the code of the interface's specification takes as given."""

import numpy as np
import pytest

from framefold import api
from framefold.executor.concurrent import ConcurrentJobExecutor
from framefold.executor.inline import InlineJobExecutor
from framefold.viz.base import Dummy2DPlot


class Plot(Dummy2DPlot):
    """Keeps what it would draw."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.shown = False
        self.drawn = []
        self.made.append(self)

    def display(self):
        self.shown = True

    def update(self, damage, force=False):
        self.drawn.append(np.array(self.data))


@pytest.fixture
def plots():
    """The plots that the test's context makes."""
    Plot.made = []
    return Plot.made


@pytest.fixture(params=[InlineJobExecutor, ConcurrentJobExecutor])
def ctx(request, plots):
    with api.Context(executor=request.param(), plot_class=Plot) as context:
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
