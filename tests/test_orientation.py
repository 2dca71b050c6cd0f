"""Which way the rows of frames run, as the guide says it, compared with what HyperSpy reads."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from real_files import real_file

import framefold as ff
from framefold.utils.write_mib import write_mib

#: A file of each format, the reader of rosettasciio, and whether that one turns rows over.
FILES = [
    ("BLO/rosettasciio/test1.blo", "blockfile", False),
    ("DM/nionswift-io/ref_F_0_2.dm3", "digitalmicrograph", False),
    ("EMPAD/hyperspy/stack_images.xml", "empad", False),
    (
        "MIB/read_mib/Merlin_Test_Data_1_Frame/Quad_1_Frame_CounterDepth_12_Rows_256.mib",
        "quantumdetector",
        True,
    ),
    ("MRC/mrcfile/emd_3001.map", "mrc", False),
    ("PRZ/rosettasciio/panta_rhei_sample.prz", "pantarhei", False),
    ("SER/openNCEM/16_STOimage_1.ser", "tia", False),
    ("TIFF/pims/stuck.tif", "tiff", False),
    ("TVIPS/rosettasciio/test_tvips_2233_000.tvips", "tvips", False),
]


# rosettasciio leaves files to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("name", "reader", "turned"), FILES, ids=[row[1] for row in FILES])
def test_rows_are_those_of_hyperspy_but_for_mib(name, reader, turned):
    pytest.importorskip("rsciio")
    path = real_file(name)
    dataset = ff.Context.make_with("inline").open(path)
    data = np.asarray(import_module(f"rsciio.{reader}").file_reader(str(path))[0]["data"])
    theirs = data.reshape(-1, *data.shape[-2:])[0]
    ours = dataset[(0,) * len(dataset.shape.nav)]
    assert not np.array_equal(ours, ours[::-1])
    assert np.array_equal(ours, theirs[::-1] if turned else theirs)


def test_diagnostics_say_which_way_rows_run(tmp_path):
    ctx = ff.Context.make_with("inline")
    write_mib(tmp_path / "scan.mib", np.zeros((2, 3, 16, 64), dtype=np.uint8))
    np.save(tmp_path / "scan.npy", np.zeros((2, 3, 16, 64), dtype=np.uint8))
    rows = {
        name: [row["value"] for row in ctx.open(path).diagnostics if row["name"] == "row order"]
        for name in ("scan.mib", "scan.npy")
        for path in [tmp_path / name]
    }
    assert rows["scan.npy"] == []
    assert len(rows["scan.mib"]) == 1
    assert "HyperSpy turns them over" in rows["scan.mib"][0]
