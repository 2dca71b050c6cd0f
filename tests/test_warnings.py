"""What is odd about data, a run or its parameters is a warning that shows the user's own line."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import ReadOnlyError
from framefold.io.dataset.mib import MIBDataSet
from framefold.io.dataset.npy import NPYDataSet
from framefold.udf import UDF
from framefold.udf._mixins import UDFFrameMixin
from framefold.udf.com import CoMUDF
from framefold.udf.FEM import FEMUDF
from framefold.udf.masks import ApplyMasksUDF
from framefold.udf.reduction import ReductionUDF
from framefold.udf.stddev import StdDevUDF
from framefold.udf.sumsigudf import SumSigUDF
from framefold.warnings import (
    DataSetWarning,
    DetectorWarning,
    MissingFramesWarning,
    UncalledMethodWarning,
)

SIG = (8, 12)


@pytest.fixture
def scan(tmp_path):
    """A scan of 4 × 5 positions."""
    path = tmp_path / "scan.npy"
    np.save(path, np.arange(4 * 5 * 96, dtype=np.uint16).reshape((4, 5, *SIG)))
    return path


@pytest.fixture
def folder(tmp_path):
    """Frames 1 to 5 as files, of which number 3 is missing."""
    folder = tmp_path / "frames"
    folder.mkdir()
    for number in (1, 2, 4, 5):
        np.save(folder / f"frame_{number}.npy", np.full((1, *SIG), number, np.uint8))
    return folder


def with_warnings(action):
    """What an action returns, and its warnings: category, text, file."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        value = action()
    return value, [(each.category, str(each.message), each.filename) for each in found]


def cut_mib(tmp_path):
    from framefold.utils.write_mib import write_mib

    path = tmp_path / "scan.mib"
    write_mib(path, np.zeros((3, 4, 64, 64), np.uint8))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 100)
    return path


#: A name, what is opened with which options, and the words of the warnings.
ODD = {
    "a missing file": (lambda scan, folder, tmp: (folder, {}), ["leave out 1"]),
    "frames left over": (
        lambda scan, folder, tmp: (scan, {"nav_shape": (3, 5)}),
        [r"scan shape \[3, 5\] has 15 positions for 20 frames; the last 5 frames are not shown"],
    ),
    "too few frames": (
        lambda scan, folder, tmp: (scan, {"nav_shape": (5, 5)}),
        ["25 positions for 20 frames; the last 5 positions have no data"],
    ),
    "an offset": (
        lambda scan, folder, tmp: (scan, {"sync_offset": -2}),
        ["first 2 positions have no data"],
    ),
    "a shear": (
        lambda scan, folder, tmp: (scan, {"nav_shape": (5, 4)}),
        ["the data have rows of 5 positions: the picture is sheared"],
    ),
    "a partial last frame": (
        lambda scan, folder, tmp: (cut_mib(tmp), {}),
        ["the last .* bytes", "announces 12 frames", "3 x 4 positions", "last position has no"],
    ),
}


@pytest.mark.parametrize("way", ["open", "load", "class"])
@pytest.mark.parametrize("what", ODD)
def test_odd_data_warn_when_they_are_opened(ctx, scan, folder, tmp_path, what, way):
    make, words = ODD[what]
    path, options = make(scan, folder, tmp_path)
    filetype = "mib" if path.suffix == ".mib" else "npy"
    if way == "open":
        dataset, found = with_warnings(lambda: ctx.open(path, **options))
    elif way == "load":
        dataset, found = with_warnings(lambda: ctx.load(filetype, path, **options))
    elif path.is_dir():
        pytest.skip("the class opens one file")
    else:
        cls = NPYDataSet if filetype == "npy" else MIBDataSet
        dataset, found = with_warnings(lambda: cls(path, **options))
    assert [category for category, *_ in found] == [DataSetWarning] * len(words)
    for (_, text, file), word in zip(found, words, strict=True):
        assert file == __file__
        assert text.startswith(f"'{path}"), text
        assert re.search(word, text), text
    assert [text.partition("': ")[2] for _, text, _ in found] == dataset.warnings


def test_copies_and_workers_do_not_warn_again(scan):
    with shared("processes", cpus=1) as ctx:
        with pytest.warns(DataSetWarning, match="not shown"):
            dataset = ctx.open(scan, nav_shape=(3, 5))
        again, found = with_warnings(lambda: pickle.loads(pickle.dumps(dataset)))
        assert found == []
        assert again.warnings == dataset.warnings
        _, found = with_warnings(lambda: ctx.run_udf(dataset, ff.SumUDF()))
        assert found == []
        assert type(dataset).detect_params(scan) is not False
        memory, found = with_warnings(
            lambda: ctx.load(
                "memory", data=np.ones((4, 5, 2, 2)), nav_shape=(3, 5), sig_dims=2, sync_offset=0
            )
        )
        assert [text for _, text, _ in found] == [
            f"the data set 'memory' of shape (3, 5, 2, 2): {memory.warnings[0]}"
        ]
        assert with_warnings(lambda: pickle.loads(pickle.dumps(memory)))[1] == []


def test_errors_leave_nothing_open(ctx, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataSetWarning, match="leave out 1") as caught:
            ctx.open(folder)
    # The traceback is alive, and with it all that its frames know.
    assert caught.tb is not None
    assert str(folder) not in Path("/proc/self/maps").read_text()
    open_files = [os.readlink(fd) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    assert not any(str(folder) in name for name in open_files)


def test_python_w_error_fails_where_it_should(folder):
    script = (
        f"import framefold as ff\nctx = ff.Context.make_with('inline')\nctx.open({str(folder)!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("framefold.warnings.DataSetWarning: ")
    assert "leave out 1" in last
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stderr.startswith("<string>:3: DataSetWarning: ")


def test_runs_warn_of_positions_without_data(ctx, scan):
    with pytest.warns(DataSetWarning):
        dataset = ctx.open(scan, sync_offset=3)

    def run(**how):
        return ctx.run_udf(dataset, ff.SumSigUDF(), **how)

    words = f"'{scan}': 3 of 20 selected scan positions have no data"
    _, found = with_warnings(run)
    assert [(each[0], each[2]) for each in found] == [(MissingFramesWarning, __file__)]
    assert found[0][1].startswith(words)
    # Only what concerns the result.
    roi = np.zeros((4, 5), bool)
    roi[0] = True
    assert with_warnings(lambda: run(roi=roi))[1] == []
    roi[3, 4] = True
    assert (
        "1 of 6 selected scan positions has no data: it does not"
        in with_warnings(lambda: run(roi=roi))[1][0][1]
    )
    _, found = with_warnings(lambda: list(ctx.run_udf_iter(dataset, ff.SumSigUDF())))
    assert [text.startswith(words) for _, text, _ in found] == [True]
    assert with_warnings(lambda: ctx.explain(dataset, ff.SumSigUDF()))[1] == []


def zeros():
    return np.zeros(SIG)


def a_pixel():
    return np.eye(*SIG)


def sparse_zeros():
    import scipy.sparse

    return scipy.sparse.csr_matrix(SIG)


NOTHING_SEEN = {
    "a mask of zeros": (lambda: ApplyMasksUDF([a_pixel, zeros]), "mask 1 of 2 covers no pixel"),
    "sparse masks of zeros": (
        lambda: ApplyMasksUDF([sparse_zeros] * 7),
        "masks 0, 1, 2, 3, 4, … of 7 cover no pixel",
    ),
    "shifted masks": (
        lambda: ApplyMasksUDF([zeros], shifts=(1, 1)),
        "mask 0 of 1 covers no pixel",
    ),
    "a ring that is too large": (
        lambda: ReductionUDF("masks", ring=(20, 30)),
        "ReductionUDF: the ring 20,30 covers no pixel of frames of shape \\[8, 12\\]",
    ),
    "a centre elsewhere": (
        lambda: ReductionUDF("masks", disk=(9, 4, 3)),
        "the disk 9,4,3 has its centre \\(9, 4\\) outside of frames",
    ),
    "a centre of mass elsewhere": (
        lambda: ff.CoMUDF.with_params(cy=100, r=3),
        "CoMUDF: the region around \\(cy, cx\\) covers no pixel",
    ),
    "a ring around another place": (
        lambda: FEMUDF((-3, 4), 1, 5),
        "FEMUDF: .* has its centre \\(-3, 4\\) outside",
    ),
}


@pytest.mark.parametrize("what", NOTHING_SEEN)
def test_detectors_that_see_nothing(ctx, scan, what):
    make, words = NOTHING_SEEN[what]
    dataset = ctx.open(scan)
    _, found = with_warnings(lambda: ctx.run_udf(dataset, make()))
    assert [(category, file) for category, _, file in found] == [(DetectorWarning, __file__)]
    assert re.search(words, found[0][1]), found


def test_detectors_of_analyses(ctx, scan):
    dataset = ctx.open(scan)
    for make, n_warnings in [
        (lambda: ctx.create_ring_analysis(dataset, ri=20, ro=30), 1),
        (lambda: ctx.create_disk_analysis(dataset, cy=-3, cx=2, r=5), 1),
        (lambda: ctx.create_disk_analysis(dataset, cy=-30, cx=2, r=5), 2),
        (lambda: ctx.create_com_analysis(dataset, cy=20, cx=2), 1),
        (lambda: ctx.create_mask_analysis([zeros], dataset), 1),
        (lambda: ctx.create_ring_analysis(dataset), 0),
        (lambda: ctx.create_com_analysis(dataset), 0),
        (lambda: ctx.create_point_analysis(dataset), 0),
    ]:
        _, found = with_warnings(lambda make=make: ctx.run(make()))
        assert [each[0] for each in found] == [DetectorWarning] * n_warnings, found
        assert all(file == __file__ for *_, file in found)


def test_what_tells_of_a_data_set_cannot_be_changed(ctx, tmp_path):
    dataset = ctx.load("memory", data=np.ones((4, 5, *SIG)))
    for change in [
        lambda: dataset.metadata.update(camera_length=3.0),
        lambda: dataset.metadata.setdefault("camera_length", 3.0),
        lambda: dataset.metadata.__setitem__("camera_length", 3.0),
        lambda: dataset.metadata_units.clear(),
        lambda: dataset.meta.__setitem__("title", "x"),
        lambda: setattr(dataset.meta, "shape", (3,)),
        lambda: dataset.warnings.append("x"),
        lambda: dataset.warnings.extend(["x"]),
    ]:
        with pytest.raises(ReadOnlyError, match="has no effect on the data set; "):
            change()
    with pytest.raises(TypeError, match=r"use calibrate\(…\) of the data set"):
        dataset.metadata["scan_step_x"] = 0.5


def test_what_tells_of_a_data_set_is_a_dict_or_a_list(ctx, tmp_path):
    path = tmp_path / "scan.mib"
    from framefold.utils.write_mib import write_mib

    write_mib(path, np.zeros((2, 3, 64, 64), np.uint8))
    dataset = ctx.open(path)
    plain = dict(dataset.metadata)
    assert plain
    assert dataset.metadata == plain
    assert repr(dataset.metadata) == repr(plain)
    assert json.loads(json.dumps(dataset.metadata)) == plain
    assert dataset.metadata.get("threshold", 1) == plain.get("threshold", 1)
    for made in (dataset.metadata.copy(), copy.deepcopy(dataset.metadata), dataset.metadata | {}):
        made["mine"] = 1
    assert pickle.loads(pickle.dumps(dataset.metadata)) == plain
    meta = pickle.loads(pickle.dumps(dataset.meta))
    assert meta == dataset.meta
    assert meta.shape == dataset.shape
    assert dataset.warnings == []
    assert json.dumps(dataset.warnings) == "[]"
    assert copy.copy(dataset.warnings) == []
    assert [*dataset.warnings, "x"] == ["x"]


def by(name):
    """A way to process data that leaves results as they are."""
    return {name: lambda self, *data: None}


SECOND = type("Second", (SumSigUDF,), by("process_frame"))


class Chooses(SECOND):
    """Says itself what is called."""

    def get_method(self):
        return "tile"

    process_partition = by("process_partition")["process_partition"]


class Template(UDF):
    """Calls what derived classes have for a frame."""

    get_result_buffers = SumSigUDF.get_result_buffers

    def process_tile(self, tile):
        list(map(self.process_frame, tile))

    def process_frame(self, frame):
        raise NotImplementedError


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_methods_that_an_inherited_one_hides(scan, executor):
    with shared(executor) as ctx:
        dataset = ctx.load("npy", str(scan))
        found = with_warnings(lambda: ctx.run_udf(dataset=dataset, udf=SECOND()))[1]
    text = (
        "Second: process_frame of Second is not called: process_tile, inherited from SumSigUDF, "
        "comes before it; implement process_tile in Second, or have get_method return 'frame'"
    )
    assert found == [(UncalledMethodWarning, text, __file__)]


@pytest.mark.parametrize(
    ("bases", "name", "n"),
    [
        ((SumSigUDF,), "process_tile", 0),
        ((SumSigUDF,), "process_frames", 1),
        ((SumSigUDF,), "process_partition", 1),
        ((UDFFrameMixin, SumSigUDF), "process_frame", 1),
        ((type("Frames", (), by("process_frame")), SumSigUDF), "postprocess", 1),
        ((FEMUDF, type("Tiles", (), by("process_tile"))), "postprocess", 0),
        ((SECOND,), "process_tile", 0),
        ((SECOND,), "get_preferred_dtype", 1),
        ((Chooses,), "process_frame", 1),
        ((Chooses,), "postprocess", 0),
        ((Template,), "process_frame", 0),
        ((CoMUDF,), "process_frame", 0),
        ((CoMUDF,), "process_partition", 1),
        ((StdDevUDF,), "process_frame", 0),
        ((FEMUDF,), "process_partition", 1),
        ((FEMUDF,), "process_tile", 0),
    ],
)
def test_which_methods_are_hidden(scan, bases, name, n):
    ctx = ff.Context.make_with("inline")
    udf = type("Derived", bases, by(name))
    made = udf(center=(3, 4), rad_in=1, rad_out=3) if issubclass(udf, FEMUDF) else udf()
    dataset = ctx.load("npy", str(scan))
    found = with_warnings(lambda: ctx.run_udf(dataset=dataset, udf=made))[1]
    assert [each[0] for each in found] == [UncalledMethodWarning] * n
