"""Real files from real instruments, through Python and the command line, against other readers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from known_oddities import odd
from real_files import manifest, real_data

import framefold as ff
from framefold.udf import UDF

ENTRIES = [
    pytest.param(entry, id=Path(entry["file"]).name)
    for kind in ("MIB", "NPY")
    for entry in manifest(kind)
    if entry["readings"]
]


def test_there_are_real_files():
    if not manifest():
        pytest.skip("no real files: set FRAMEFOLD_TEST_DATA to a folder with MANIFEST.json")
    formats = [entry.values[0]["format"] for entry in ENTRIES]
    assert (formats.count("MIB"), formats.count("NPY")) >= (32, 2)


class Everything(UDF):
    """The least, the largest and the sum of each frame."""

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {
            "least": self.buffer(kind="nav", dtype="float64"),
            "largest": self.buffer(kind="nav", dtype="float64"),
            "total": self.buffer(kind="nav", dtype="float64"),
        }

    def process_frame(self, frame):
        self.results.least[:] = frame.min()
        self.results.largest[:] = frame.max()
        self.results.total[:] = frame.sum(dtype="float64")


def flips_rows(reading):
    """Whether a reader turns frames upside down against the order of rows in the file."""
    return "rosettasciio" in reading["reader"] or "flips rows" in reading.get("orientation", "")


def states_its_scan(entry):
    """Whether the sidecar names the scan's axes; without, each reader guesses for itself."""
    sidecars = [real_data() / path for path in entry["sidecars"]]
    return any("ScanX" in path.read_text(encoding="latin-1") for path in sidecars)


def trusted_geometry(reading):
    return "LOW CONFIDENCE" not in reading["reader"]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("backend", ["mmap", "buffered"])
@odd("left out [0-9]+ files?", "does not say the scan")
def test_python(ctx, entry, backend):
    path = real_data() / entry["file"]
    dataset = ctx.open(path, io_backend=backend)
    every, picked, total = ctx.run_udf(dataset, [Everything(), ff.PickUDF(), ff.SumSigUDF()])
    frames = np.asarray(picked["intensity"].raw_data)
    sums = every["total"].raw_data
    assert np.array_equal(total["intensity"].raw_data, sums.astype(total["intensity"].dtype))
    for reading in entry["readings"]:
        sig = tuple(reading["shape"][-2:])
        assert tuple(dataset.shape.sig) == sig
        assert dataset.dtype == np.dtype(reading["dtype"]).newbyteorder("=")
        assert dataset.shape.nav.size == reading["n_frames"]
        if len(reading["shape"]) == 4 and states_its_scan(entry):
            assert tuple(dataset.shape) == tuple(reading["shape"])
        assert every["least"].data.min() == reading["min"]
        assert every["largest"].data.max() == reading["max"]
        np.testing.assert_allclose(sums.sum(), reading["sum_f64"], rtol=1e-12)
        np.testing.assert_allclose(sums[0], reading["sum_first_frame"], rtol=1e-12)
        np.testing.assert_allclose(sums[-1], reading["sum_last_frame"], rtol=1e-12)
        if "frame_sums" in reading:
            np.testing.assert_allclose(sums, reading["frame_sums"], rtol=1e-12)
        if not trusted_geometry(reading) or (entry["format"] == "NPY" and len(sig) != 2):
            continue
        flipped = entry["format"] == "MIB" and flips_rows(reading)
        oriented = frames[:, ::-1] if flipped else frames
        shaped = oriented.reshape(reading["shape"])
        for index, value in reading["probes"]:
            assert shaped[tuple(index)] == pytest.approx(value, rel=1e-12), index
        in_order = np.ascontiguousarray(shaped, dtype=shaped.dtype.newbyteorder("<"))
        digest = hashlib.sha256(in_order.tobytes()).hexdigest()
        assert digest == reading["sha256_c_order_le"]


@pytest.mark.parametrize("entry", ENTRIES)
def test_command_line(entry, tmp_path, command):
    path = real_data() / entry["file"]
    info = command("info", "--json", path)
    out = tmp_path / "frames.npy"
    command("run", "pick", path, "-o", out)
    frames = np.load(out)
    reading = entry["readings"][0]
    text = json.dumps(json.loads(info))
    assert Path(entry["file"]).name in text
    sig = tuple(reading["shape"][-2:])
    frames = frames.reshape((-1, *sig))
    assert len(frames) == reading["n_frames"]
    assert frames.dtype == np.dtype(reading["dtype"]).newbyteorder("=")
    assert frames.min() == reading["min"]
    assert frames.max() == reading["max"]
    np.testing.assert_allclose(frames.sum(dtype="float64"), reading["sum_f64"], rtol=1e-12)
    first = frames[0].sum(dtype="float64")
    np.testing.assert_allclose(first, reading["sum_first_frame"], rtol=1e-12)
    if trusted_geometry(reading):
        flipped = entry["format"] == "MIB" and flips_rows(reading)
        shaped = (frames[:, ::-1] if flipped else frames).reshape(reading["shape"])
        for index, value in reading["probes"]:
            assert shaped[tuple(index)] == pytest.approx(value, rel=1e-12), index
