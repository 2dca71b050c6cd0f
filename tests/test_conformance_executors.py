"""Each real file on every executor gives the bits that the inline executor gives."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest
from known_oddities import POSITIONS_WITHOUT_DATA, odd
from real_files import manifest, real_data
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import FramefoldError

# All real files, odd ones, too: what is said of them is tested with their formats.
pytestmark = [
    POSITIONS_WITHOUT_DATA,
    odd(
        "by name could belong to this set",
        "several series belong to this .emi file",
        "does not say in which order its axes",
        "does not say the scan",
        "the file has several images",
        "the header promises .* frames",
        "the series was stopped",
        "these are halves of frames",
        "this is a picture in colours",
    ),
]

EXECUTORS = ["threads", "processes", "auto", "dask", "delayed"]
#: Formats of which there are real files.
FORMATS = {"blo", "dm", "empad", "hdf5", "mib", "mrc", "npy", "seq", "ser", "tvips", "zarr"}
#: All frames of smaller data are compared, and some of larger ones.
FEW_BYTES = 20 << 20
#: Files that other readers read, and that are refused without further options; and why.
REFUSED = {
    "DM/rosettasciio/2D/test_fft_packed_complex8.dm4": "halves of Fourier transforms",
    "EMD/rosettasciio/example_bytes_string_metadata.emd": "truth values of the library's own kind",
    "HSPY/rosettasciio/example1_v1.0.hdf5": "one axis, and pictures have two",
    "HSPY/rosettasciio/example1_v1.2.hdf5": "one axis, and pictures have two",
    "K2IS/LiberTEM/single-block.raw": "a block of a file, and not a file",
    "RAW/kikuchipy/edax/edax_binary.up1": "nothing in it says what it is",
    "RAW/kikuchipy/nordif/Pattern.dat": "nothing in it says what it is",
    "SER/rosettasciio/new/128x128-TEM_search.emi": "a description alone",
    "SER/rosettasciio/new/16x16-spectrum_image_5x5x4000-not_square.emi": "a description alone",
    "SER/rosettasciio/old/64x64x5_TEM_preview.emi": "a description alone",
    "SER/rosettasciio/old/no_AcquireDate.emi": "a description alone",
}


def opened(ctx):
    """What can be opened, with its data set: several files need options to be read."""
    found = []
    for entry in manifest():
        path = real_data() / entry["file"]
        choices = [reading.get("dataset") for reading in entry["readings"]]
        # Numbers are those of a reader's signals, and no names.
        names = sorted({name for name in choices if isinstance(name, str)})
        for options in [{"ds_path": name} for name in names] or [{}]:
            try:
                dataset = ctx.open(path, **options)
            except FramefoldError:
                if entry["readable"]:
                    assert entry["file"] in REFUSED, (entry["file"], options)
                continue
            assert entry["file"] not in REFUSED
            found.append((f"{entry['file']} {options}", dataset))
    return found


def test_each_file_is_there_as_it_was_read():
    for entry in manifest():
        path = real_data() / entry["file"]
        if path.is_dir():
            assert any(path.iterdir()), entry["file"]
        else:
            assert sha256(path.read_bytes()).hexdigest() == entry["sha256_file"], entry["file"]
        for name in entry["sidecars"]:
            assert (real_data() / name).exists(), (entry["file"], name)


def selection(dataset):
    roi = np.zeros(tuple(dataset.shape.nav), dtype=bool)
    n_bytes = dataset.shape.size * dataset.dtype.itemsize
    step = max(1, n_bytes // FEW_BYTES)
    roi.reshape(-1)[::step] = True
    return roi


def results(ctx, dataset):
    """What sum and frames are, to the bit."""
    total = ctx.run_udf(dataset, ff.SumUDF())["intensity"].data
    frames = ctx.run_udf(dataset, ff.PickUDF(), roi=selection(dataset))["intensity"].raw_data
    arrays = [np.asarray(total), np.asarray(frames)]
    return [(array.dtype, array.shape, sha256(array.tobytes()).digest()) for array in arrays]


@pytest.fixture(scope="module")
def inline():
    if not manifest():
        pytest.skip("no real files: set FRAMEFOLD_TEST_DATA to a folder with MANIFEST.json")
    ctx = ff.Context.make_with("inline")
    return {name: (dataset, results(ctx, dataset)) for name, dataset in opened(ctx)}


def test_files_of_each_format_are_there(inline):
    assert {dataset.format for dataset, _ in inline.values()} >= FORMATS
    assert len(inline) >= 278


@pytest.mark.parametrize("executor", EXECUTORS)
def test_same_bits(inline, executor):
    if executor in ("dask", "delayed"):
        pytest.importorskip("distributed")
    options = {} if executor == "delayed" else {"cpus": 2}
    with shared(executor, **options) as ctx:
        for name, (dataset, expected) in inline.items():
            assert results(ctx, dataset) == expected, name
