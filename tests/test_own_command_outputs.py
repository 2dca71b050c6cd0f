"""Where commands with functions of one's own write, and how they end."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np
import pytest
from own_command_cases import DATA, MAXIMUM, run_own  # noqa: F401 - a fixture

import framefold as ff


def test_folders_of_results(run, capsys, tmp_path):
    assert run("mine:total,max a.npy b.npy -o out/ -q") == 0
    found = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert found == ["a-max.h5", "a-total.h5", "b-max.h5", "b-total.h5"]
    assert run("mine:total a.npy -o out/ -q") == 0
    assert (tmp_path / "out/total.h5").exists()
    capsys.readouterr()
    assert run("mine:total,max a.npy") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("a.npy: own_")
    assert ":total: result (4, 6)" in printed[0]
    assert printed[1].startswith("a.npy: max: intensity (3, 5)")
    # One that cannot be written keeps all from appearing, and the folder with them.
    assert run("max,mine:Large a.npy --roi 1:3 -o 'new/{reduction}.npy'") == 4
    assert run("max,mine:broken a.npy -o new/") == 6
    assert not (tmp_path / "new").exists()
    assert run("sum,mine:total a.npy -o '{reduction}/out.npy' -q") == 0
    assert (tmp_path / "sum/out.npy").exists()
    assert np.array_equal(np.load("total/out.npy"), DATA.sum(axis=(2, 3)))


def test_a_file_that_fails_keeps_no_other_from_being_done(run, capsys, tmp_path):
    np.save("nan.npy", np.full((2, 3, 3, 5), np.nan))
    (tmp_path / "c.npy").write_text("no array")
    assert run("mine:Whole a.npy c.npy nan.npy missing.npy b.npy -o {stem}-out.npz -q") == 3
    printed = capsys.readouterr().err
    assert "'c.npy'" in printed.splitlines()[0]
    assert "ValueError: not a number\n" in printed
    assert "when it ran over 'nan.npy'" in printed
    assert "'missing.npy'" in printed.splitlines()[-1]
    assert {path.name for path in tmp_path.glob("*.npz")} == {"a-out.npz", "b-out.npz"}
    # What is wrong with all of them is said before the first one.
    (tmp_path / "a-out.npz").unlink()
    assert run("mine:total a.npy b.npy -o {stem}-out.npz") == 2
    assert "'b-out.npz': the output exists" in capsys.readouterr().err
    assert not (tmp_path / "a-out.npz").exists()


@pytest.mark.parametrize(
    "line",
    [
        "mine:total a.npy -o a.npy",
        "mine:total a.npy a-out.npy -o {stem}-out.npy",
        "mine:total a.npy --dark plane.npy -o plane.npy",
        "mine:total a.npy --gain plane.npy -o ./plane.npy",
        "mine:total a.npy --bad-pixels plane.npy -o plane.npy",
        "mine:total a.npy --roi roi.npy -o roi.npy",
        "'masks --masks masks.npy,mine:total' a.npy -o {reduction}.npy",
        "mine:total a.zarr -o a.zarr",
        "mine:total a.zarr -o link.zarr",
        "mine:total folder.zarr/a.npy -o folder.zarr",
        "mine:total links.h5 -o frames.h5",
    ],
)
def test_files_that_are_read_are_not_replaced(run, capsys, tmp_path, line):
    plane = np.ones((3, 5), dtype="float32")
    others = {"a-out": DATA, "plane": plane, "masks": plane, "roi": np.ones((4, 6), bool)}
    for name, array in others.items():
        np.save(f"{name}.npy", array)
    ctx = ff.Context.make_with("inline")
    ctx.export_dataset(ctx.open("a.npy"), "a.zarr")
    (tmp_path / "link.zarr").symlink_to("a.zarr")
    (tmp_path / "folder.zarr").mkdir()
    np.save("folder.zarr/a.npy", DATA)
    if "links" in line:
        h5py = pytest.importorskip("h5py")
        with h5py.File("frames.h5", "w") as frames, h5py.File("links.h5", "w") as links:
            frames["data"] = DATA
            links["data"] = h5py.ExternalLink("frames.h5", "data")

    def files():
        return {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}

    before = files()
    assert run(f"{line} -f") == 2
    assert "the output is one of the input files" in capsys.readouterr().err
    assert files().items() >= before.items()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize(
    ("sent", "function", "code"), [(15, "terminated", 143), (1, "hung_up", 129)]
)
def test_signals_leave_nothing(run, tmp_path, command, sent, function, code):
    if signal.getsignal(sent) == signal.SIG_IGN:
        pytest.skip("what is ignored stays so")
    (module,) = tmp_path.glob("own_*.py")
    before = sorted(tmp_path.glob(".*")) + sorted(tmp_path.glob("*.np*"))
    out = tmp_path / "out.npz"
    command("run", f"{module}:{function}", tmp_path / "a.npy", "-j", 1, "-o", out, code=code)
    assert sorted(tmp_path.glob(".*")) + sorted(tmp_path.glob("*.np*")) == before


def test_output_without_a_reader_ends_it_quietly(run, capsys, monkeypatch):
    for line in ("mine:total a.npy missing.npy", "mine:total a.npy --help"):
        reader, writer = os.pipe()
        os.close(reader)
        with monkeypatch.context() as patch, open(writer, "w") as output:
            patch.setattr(sys, "stdout", output)
            assert run(line) == 0
    assert capsys.readouterr().err == ""


def test_a_wrong_buffer_is_found_before_the_data_are_read(run, capsys, tmp_path):
    for out in ("out.npz", "out.zarr"):
        assert run(f"mine:Wave a.npy -b x -o {out}") == 2
        assert "no result buffer 'x'; there are wave, peak" in capsys.readouterr().err
    assert not (tmp_path / "seen").exists()
    assert run("'stddev -b x,mine:total' a.npy") == 2
    assert "no result buffer 'x'; there are " in capsys.readouterr().err


def test_nothing_is_written_into_what_is_read(run, capsys, tmp_path):
    ctx = ff.Context.make_with("inline")
    ctx.export_dataset(ctx.open("a.npy"), "a.zarr")
    (tmp_path / "frames").mkdir()
    np.save(tmp_path / "frames/a.npy", DATA)
    places = [tmp_path / "a.zarr", tmp_path / "frames"]
    before = [sorted(place.rglob("*")) for place in places]
    for line, words in [
        ("a.zarr -o a.zarr/", "in a folder that is read"),
        ("b.npy -o a.zarr/", "in a Zarr array or group"),
        ("b.npy -o a.zarr/new/", "in a Zarr array or group"),
        ("frames -o frames", "in a folder that is read"),
    ]:
        assert run(f"mine:total {line}") == 2
        assert words in capsys.readouterr().err
    assert [sorted(place.rglob("*")) for place in places] == before
    assert run("mine:total frames -o frames/results/ -q") == 0
    assert run("mine:Wave 'frames/*.npy' -b wave -o frames/wave.npy") == 2
    assert "would be one of the files of the data set" in capsys.readouterr().err
    assert not (tmp_path / "seen").exists()


def wave(path):
    return np.fromfile(f"{path}/wave/c/0/0/0/0", "i4", DATA.size).reshape(DATA.shape)


def test_results_grow_in_zarr_and_go_on(run, tmp_path, capsys):
    line = "mine:Wave a.npy --num-partitions 8 -o out.zarr"
    (tmp_path / "fail").touch()
    assert run(line) == 6
    assert "in the middle" in capsys.readouterr().err
    assert not (tmp_path / "out.zarr").exists()
    assert (tmp_path / ".out.zarr.framefold-record").exists()
    (tmp_path / "fail").unlink()
    (tmp_path / "seen").unlink()
    assert run(f"{line} --resume") == 0
    seen = set(map(int, (tmp_path / "seen").read_text().split()))
    assert 0 < min(seen) <= 20
    said = capsys.readouterr().out.splitlines()
    assert said == [
        f"out.zarr: wave (4, 6, 3, 5) int32, from {DATA.min()} to {DATA.max()}",
        f"out.zarr: peak (4, 6) float32, from {MAXIMUM.min():.1f} to {MAXIMUM.max():.1f}",
    ]
    assert np.array_equal(wave("out.zarr"), DATA)
    assert "parameters" in (tmp_path / "out.zarr/zarr.json").read_text()
    # The same in one go, and for one of the results.
    assert run("mine:Wave a.npy --num-partitions 8 -o 'all.zarr' -q") == 0
    assert np.array_equal(wave("all.zarr"), DATA)
    assert run("mine:Wave a.npy -o out.zarr -q") == 2
    assert run("mine:Wave a.npy -o out.zarr -q -f -b peak") == 0
    assert not (tmp_path / "out.zarr/wave").exists()
    assert not [path.name for path in tmp_path.iterdir() if "framefold-" in path.name]
    # Regions count in what is said, too.
    capsys.readouterr()
    assert run("mine:Wave a.npy --roi 1:3,:4 -o part.zarr -b wave") == 0
    part = DATA[1:3, :4]
    assert capsys.readouterr().out.endswith(f"int32, from {part.min()} to {part.max()}\n")
    assert np.array_equal(wave("part.zarr")[1:3, :4], part)


def test_resume_is_for_what_grows(run, capsys):
    for line in (
        "mine:Wave a.npy --resume",
        "mine:Wave a.npy --resume -o out.npz",
        "mine:Wave,sum a.npy --resume -o out/{reduction}.zarr",
    ):
        assert run(line) == 2
        assert "--resume goes on with the .zarr of one function" in capsys.readouterr().err
