"""Each real file on every executor gives the bits that the inline executor gives."""

from __future__ import annotations

import json
from hashlib import sha256

import numpy as np
import pytest
from real_files import real_data

import framefold as ff
from framefold.exceptions import FramefoldError

EXECUTORS = ["threads", "processes", "auto", "dask", "delayed"]
#: Formats of which there are real files.
FORMATS = {"blo", "dm", "empad", "hdf5", "mib", "mrc", "npy", "seq", "ser", "tvips", "zarr"}
#: All frames of smaller data are compared, and some of larger ones.
FEW_BYTES = 20 << 20


def entries():
    path = real_data() / "MANIFEST.json"
    if not path.exists():
        pytest.skip("no real files: set FRAMEFOLD_TEST_DATA to a folder with MANIFEST.json")
    return json.loads(path.read_text())["entries"]


def ways_to_open():
    """The files that can be opened, and what it takes: several have to be told what to read."""
    ctx = ff.Context.make_with("inline")
    found = []
    for entry in entries():
        path = real_data() / entry["file"]
        choices = [reading["dataset"] for reading in entry["readings"] if "dataset" in reading]
        ways = [{}] if not choices else [{"ds_path": name} for name in choices]
        for options in ways:
            try:
                ctx.open(path, **options)
            except FramefoldError:
                continue
            found.append((path, options))
    return found


def selection(dataset):
    roi = np.zeros(tuple(dataset.shape.nav), dtype=bool)
    n_bytes = dataset.shape.size * dataset.dtype.itemsize
    step = max(1, n_bytes // FEW_BYTES)
    roi.reshape(-1)[::step] = True
    return roi


def results(ctx, path, options):
    """Format, and what sum and frames are, to the bit."""
    dataset = ctx.open(path, **options)
    total = ctx.run_udf(dataset, ff.SumUDF())["intensity"].data
    frames = ctx.run_udf(dataset, ff.PickUDF(), roi=selection(dataset))["intensity"].raw_data
    arrays = [np.asarray(total), np.asarray(frames)]
    return dataset.format, [
        (array.dtype, array.shape, sha256(array.tobytes()).digest()) for array in arrays
    ]


@pytest.fixture(scope="module")
def inline():
    ctx = ff.Context.make_with("inline")
    return {
        (path, str(options)): (options, results(ctx, path, options))
        for path, options in ways_to_open()
    }


def test_files_of_each_format_are_there(inline):
    assert {found for _, (found, _) in inline.values()} >= FORMATS
    assert len(inline) > 150


@pytest.mark.parametrize("executor", EXECUTORS)
def test_same_bits(inline, executor):
    if executor in ("dask", "delayed"):
        pytest.importorskip("distributed")
    options = {} if executor == "delayed" else {"cpus": 2}
    with ff.Context.make_with(executor, **options) as ctx:
        for (path, _), (how, expected) in inline.items():
            assert results(ctx, path, how) == expected, (path.name, how)
