"""Virtual HDF5 data sets, as h5py writes them: parts of other data sets shown as one."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from known_oddities import FRAMES_LEFT_OVER, POSITIONS_WITHOUT_DATA, odd
from long_runs import IS_LONG
from shared_contexts import shared
from test_hdf5 import DAMAGE, read, values

import framefold as ff
from framefold.exceptions import FramefoldError

h5py = pytest.importorskip("h5py", reason="h5py writes the files")

HOW = [{}, {"chunks": (1, 12, 14), "compression": "gzip"}, {"chunks": (3, 5, 14), "shuffle": True}]


def write_parts(folder, frames, sizes, name="part{}.h5", **how):
    """Files with so many of the frames each."""
    start = 0
    for number, size in enumerate(sizes):
        with h5py.File(folder / name.format(number), "w") as file:
            file.create_dataset("entry/data/data", data=frames[start : start + size], **how)
        start += size


def layout_of(sizes, shape, dtype, name="part{}.h5"):
    """All of those files, one after the other."""
    layout = h5py.VirtualLayout(shape=(sum(sizes), *shape), dtype=dtype)
    start = 0
    for number, size in enumerate(sizes):
        source = h5py.VirtualSource(name.format(number), "entry/data/data", shape=(size, *shape))
        layout[start : start + size] = source
        start += size
    return layout


def save(path, layout, name="entry/data/data", libver="latest", **how):
    with h5py.File(path, "w", libver=libver) as file:
        file.create_virtual_dataset(name, layout, **how)
    return path


def expected(path, name="entry/data/data"):
    with h5py.File(path) as file:
        return file[name][()]


@pytest.mark.parametrize("libver", ["earliest", "v108", "v110", "latest"])
@pytest.mark.parametrize("how", HOW, ids=["run", "gzip", "shuffle"])
@POSITIONS_WITHOUT_DATA
@FRAMES_LEFT_OVER
def test_files_one_after_the_other(tmp_path, libver, how):
    frames = values((20, 12, 14), ">u2")
    sizes = (5, 4, 8, 3)
    write_parts(tmp_path, frames, sizes, **how)
    path = save(tmp_path / "master.h5", layout_of(sizes, (12, 14), ">u2"), libver=libver)
    ctx = ff.Context()
    dataset = ctx.open(path)
    assert dataset.dtype == np.dtype("u2")
    assert tuple(dataset.shape) == frames.shape
    assert dataset.warnings == []
    assert [file.name for file in dataset.paths] == [f"part{n}.h5" for n in range(4)]
    assert "4 parts" in dataset.meta["layout"]
    for tile in [None, (1, 40), (3, 400), (40, 10**6)]:
        assert np.array_equal(read(dataset, tile=tile), frames), tile
    roi = np.random.default_rng(4).random(20) < 0.4
    found = ctx.run_udf(dataset, ff.SumUDF(), roi=roi)["intensity"].data
    assert np.array_equal(found, frames[roi].sum(axis=0))
    grid = ctx.load("hdf5", path, nav_shape=(4, 4), sync_offset=1, io_backend="buffered")
    assert np.array_equal(read(grid).reshape((16, 12, 14)), frames[1:17])


@pytest.mark.parametrize("user_block", [0, 512, 4096])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_files_with_a_user_block(tmp_path, libver, user_block):
    """Frames of fewer bytes than a header has of them, and more attributes than fit into it."""
    frames = values((8, 1, 2), "u1")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver, userblock_size=user_block) as file:
        file["all"] = frames
        layout = h5py.VirtualLayout(shape=(4, 1, 2), dtype="u1")
        layout[...] = h5py.VirtualSource(".", "all", shape=frames.shape)[4:]
        made = file.create_virtual_dataset("last", layout)
        made.attrs.update({f"a{number}": "text" * number for number in range(20)})
    assert np.array_equal(read(ff.Context().load("hdf5", path, ds_path="last")), frames[4:])


@odd("frames that nothing else is part of are")
def test_modules_of_a_detector_beside_each_other(tmp_path):
    """Each file has part of every frame; between them is a gap."""
    rng = np.random.default_rng(2)
    layout = h5py.VirtualLayout(shape=(6, 21, 14), dtype="u2")
    for number in range(3):
        data = rng.integers(0, 1000, size=(6, 6, 14), dtype="u2")
        with h5py.File(tmp_path / f"m{number}.h5", "w") as file:
            file.create_dataset("data", data=data, chunks=(2, 6, 5), compression="gzip")
        source = h5py.VirtualSource(f"m{number}.h5", "data", shape=(6, 6, 14))
        layout[:, number * 7 : number * 7 + 6, :] = source
    path = save(tmp_path / "a.h5", layout, name="x", fillvalue=77)
    dataset = ff.Context().open(path)
    for tile in [None, (1, 40), (2, 100), (4, 10**6)]:
        assert np.array_equal(read(dataset, tile=tile), expected(path, "x")), tile
    # A module that is missing leaves the fill value in its place.
    (tmp_path / "m1.h5").unlink()
    dataset = ff.Context().open(path)
    assert "m1.h5" in dataset.warnings[0]
    assert dataset.valid_mask.all()
    assert np.array_equal(read(dataset), expected(path, "x"))


def test_interleaved_and_reshaped_sources(tmp_path):
    frames = values((24, 8, 10), "f4")
    for number in range(3):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file.create_dataset("d", data=frames[number::3], chunks=(2, 8, 10))
    with h5py.File(tmp_path / "single.h5", "w") as file:
        for number, frame in enumerate(frames):
            file[f"frames/{number}"] = frame
        file["all"] = frames
        file["rows"] = frames[:, 3]
    layouts = {}
    layouts["interleaved"] = h5py.VirtualLayout(shape=frames.shape, dtype="f4")
    for number in range(3):
        source = h5py.VirtualSource(f"{number}.h5", "d", shape=(8, 8, 10))
        layouts["interleaved"][number::3] = source
    layouts["scan"] = h5py.VirtualLayout(shape=(4, 6, 8, 10), dtype="f4")
    for row in range(4):
        source = h5py.VirtualSource("single.h5", "all", shape=frames.shape)
        layouts["scan"][row] = source[row * 6 : row * 6 + 6]
    layouts["whole"] = h5py.VirtualLayout(shape=(4, 6, 8, 10), dtype="f4")
    layouts["whole"][...] = h5py.VirtualSource("single.h5", "all", shape=frames.shape)
    layouts["single"] = h5py.VirtualLayout(shape=frames.shape, dtype="f4")
    for number in range(24):
        source = h5py.VirtualSource("single.h5", f"frames/{number}", shape=(8, 10))
        layouts["single"][number] = source
    layouts["crop"] = h5py.VirtualLayout(shape=(12, 4, 5), dtype="f4")
    source = h5py.VirtualSource("single.h5", "all", shape=frames.shape)
    layouts["crop"][...] = source[1:24:2, 3:7, 5:10]
    layouts["every second row"] = h5py.VirtualLayout(shape=(24, 4, 10), dtype="f4")
    layouts["every second row"][...] = source[:, 1::2, :]
    layouts["row"] = h5py.VirtualLayout(shape=(24, 8, 10), dtype="f4")
    layouts["row"][:, 3, :] = h5py.VirtualSource("single.h5", "rows", shape=(24, 10))
    for libver in ("earliest", "latest"):
        for name, layout in layouts.items():
            path = save(tmp_path / "a.h5", layout, name="x", libver=libver, fillvalue=-1)
            wanted = expected(path, "x")
            dataset = ff.Context().open(path)
            assert tuple(dataset.shape) == wanted.shape
            for tile in [None, (1, 7), (5, 40)]:
                found = read(dataset, tile=tile)
                assert np.array_equal(found, wanted), (name, libver, tile)


@odd("frames that nothing else is part of are")
@POSITIONS_WITHOUT_DATA
def test_files_that_are_not_there(tmp_path):
    frames = values((12, 8, 10), "u2")
    write_parts(tmp_path, frames, (4, 4, 4), chunks=(1, 8, 10))
    path = save(tmp_path / "a.h5", layout_of((4, 4, 4), (8, 10), "u2"), fillvalue=9)
    (tmp_path / "part1.h5").unlink()
    ctx = ff.Context()
    dataset = ctx.open(path)
    assert "'part1.h5'" in dataset.warnings[0]
    assert dataset.valid_mask.tolist() == [True] * 4 + [False] * 4 + [True] * 4
    total = ctx.run_udf(dataset, ff.SumUDF())["intensity"].data
    assert np.array_equal(total, frames[[0, 1, 2, 3, 8, 9, 10, 11]].sum(axis=0))
    for number in (0, 2):
        (tmp_path / f"part{number}.h5").unlink()
    with pytest.raises(FramefoldError, match=r"3 sources.*are not there"):
        ctx.open(path)


def test_frames_that_nothing_is_shown_at_have_the_fill_value(tmp_path):
    frames = values((4, 8, 10), "i2")
    write_parts(tmp_path, frames, (4,))
    layout = h5py.VirtualLayout(shape=(9, 8, 10), dtype="i2")
    layout[3:7] = h5py.VirtualSource("part0.h5", "entry/data/data", shape=frames.shape)
    path = save(tmp_path / "a.h5", layout, fillvalue=-5)
    dataset = ff.Context().open(path)
    assert dataset.valid_mask.all()
    assert np.array_equal(read(dataset), expected(path))
    assert (read(dataset)[0] == -5).all()


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_what_shows_nothing_has_the_fill_value(tmp_path, libver):
    layout = h5py.VirtualLayout(shape=(2, 3, 4), dtype="u2")
    path = save(tmp_path / "a.h5", layout, libver=libver, fillvalue=7)
    dataset = ff.Context().open(path)
    assert (dataset.paths, dataset.warnings) == ([path], [])
    assert np.array_equal(read(dataset), expected(path))


def endless(path, file, dataset, shape, block):
    """A virtual data set without an end on its first axis."""
    space = h5py.h5s.create_simple((0, *shape), (h5py.h5s.UNLIMITED, *shape))
    zeros = (0,) * (len(shape) + 1)
    if block is None:
        count, size = (1,) * len(zeros), (h5py.h5s.UNLIMITED, *shape)
        source = h5py.h5s.create_simple((1, *shape), (h5py.h5s.UNLIMITED, *shape))
        source.select_hyperslab(zeros, count, None, size)
        space.select_hyperslab(zeros, count, None, size)
    else:
        source = h5py.h5s.create_simple((block, *shape))
        space.select_hyperslab(
            zeros,
            (h5py.h5s.UNLIMITED, *(1 for _ in shape)),
            (block, *shape),
            (block, *shape),
        )
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_virtual(space, file.encode(), dataset.encode(), source)
    with h5py.File(path, "w", libver="latest") as out:
        space.select_all()
        h5py.h5d.create(out.id, b"x", h5py.h5t.STD_U16LE, space, plist)
    return path


@odd("frames that nothing else is part of are")
def test_names_that_count(tmp_path):
    frames = values((12, 8, 10), "u2")
    write_parts(tmp_path, frames, (3, 3, 3, 3), name="p_{}.h5", chunks=(1, 8, 10))
    path = endless(tmp_path / "a.h5", "p_%b.h5", "entry/data/data", (8, 10), 3)
    dataset = ff.Context().load("hdf5", path, ds_path="x")
    assert np.array_equal(expected(path, "x"), frames)
    assert np.array_equal(read(dataset), frames)
    # What comes after a gap is read, too.
    (tmp_path / "p_1.h5").unlink()
    dataset = ff.Context().load("hdf5", path, ds_path="x")
    assert "p_1.h5" in dataset.warnings[0]
    assert dataset.valid_mask.tolist() == [True] * 3 + [False] * 3 + [True] * 6


def test_sources_that_grow(tmp_path):
    frames = values((7, 8, 10), "u2")
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file.create_dataset("d", data=frames, maxshape=(None, 8, 10), chunks=(2, 8, 10))
    path = endless(tmp_path / "a.h5", "s.h5", "d", (8, 10), None)
    assert np.array_equal(expected(path, "x"), frames)
    assert np.array_equal(read(ff.Context().load("hdf5", path, ds_path="x")), frames)


def test_virtual_data_sets_of_virtual_ones_and_of_the_same_file(tmp_path):
    frames = values((8, 8, 10), "u2")
    write_parts(tmp_path, frames, (3, 5), chunks=(1, 8, 10))
    save(tmp_path / "inner.h5", layout_of((3, 5), (8, 10), "u2"))
    outer = h5py.VirtualLayout(shape=(2, 4, 8, 10), dtype="u2")
    outer[...] = h5py.VirtualSource("inner.h5", "entry/data/data", shape=frames.shape)
    path = save(tmp_path / "outer.h5", outer)
    assert np.array_equal(read(ff.Context().open(path)).reshape(frames.shape), frames)
    with h5py.File(tmp_path / "one.h5", "w") as file:
        file["raw"] = frames
        layout = h5py.VirtualLayout(shape=(3, 8, 10), dtype="u2")
        layout[...] = h5py.VirtualSource(".", "raw", shape=frames.shape)[2:5]
        file.create_virtual_dataset("part", layout)
    dataset = ff.Context().load("hdf5", tmp_path / "one.h5", ds_path="part")
    assert np.array_equal(read(dataset), frames[2:5])


def test_circles_are_refused(tmp_path):
    for name, other in [("a", "b"), ("b", "a")]:
        layout = h5py.VirtualLayout(shape=(3, 8, 10), dtype="u2")
        layout[...] = h5py.VirtualSource(f"{other}.h5", "x", shape=(3, 8, 10))
        save(tmp_path / f"{name}.h5", layout, name="x")
    with pytest.raises(FramefoldError, match="parts of itself"):
        ff.Context().open(tmp_path / "a.h5")


def test_sources_outside_of_the_folder(tmp_path, command):
    frames = values((5, 8, 10), "u2")
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    write_parts(outside, frames, (5,))
    for name in ["../outside/part0.h5", str(outside / "part0.h5")]:
        layout = h5py.VirtualLayout(shape=frames.shape, dtype="u2")
        layout[...] = h5py.VirtualSource(name, "entry/data/data", shape=frames.shape)
        path = save(inside / "a.h5", layout)
        with pytest.raises(FramefoldError, match=r"outside of its folder|not there"):
            ff.Context().open(path)
        dataset = ff.Context().open(path, allow_external_links=True)
        assert np.array_equal(read(dataset), frames)
        with h5py.File(inside / "b.h5", "w") as file:
            file["x"] = h5py.ExternalLink(name, "/entry/data/data")
        linked = ff.Context().load("hdf5", inside / "b.h5", ds_path="x", allow_external_links=True)
        assert np.array_equal(read(linked), frames)
    command("info", path, "--allow-external-links")
    command("info", path, code=3)


def test_shapes_that_do_not_fit_are_refused(tmp_path):
    write_parts(tmp_path, values((6, 8, 10), "u1"), (6,))
    layout = h5py.VirtualLayout(shape=(8, 6, 10), dtype="u1")
    layout[...] = h5py.VirtualSource("part0.h5", "entry/data/data", shape=(6, 8, 10))
    path = save(tmp_path / "a.h5", layout)
    with pytest.raises(FramefoldError, match="another shape"):
        ff.Context().open(path)


@pytest.mark.parametrize("executor", ["inline", "threads", "processes"])
def test_executors_read_the_same(tmp_path, executor):
    frames = values((12, 8, 10), "u2")
    write_parts(tmp_path, frames, (5, 7), chunks=(1, 8, 10), compression="gzip")
    path = save(tmp_path / "a.h5", layout_of((5, 7), (8, 10), "u2"))
    with shared(executor, cpus=2) as ctx:
        dataset = ctx.open(path, num_partitions=4)
        found = ctx.run_udf(dataset, ff.SumUDF())["intensity"].data
    assert np.array_equal(found, frames.sum(axis=0))


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_damaged_files_give_errors(tmp_path, libver):
    """In a process of their own, which has to come to its end."""
    frames = values((6, 8, 10), "u2")
    write_parts(tmp_path, frames, (3, 3), chunks=(1, 8, 10))
    source = save(tmp_path / "a.h5", layout_of((3, 3), (8, 10), "u2"), libver=libver)
    step = max(1, source.stat().st_size // (500 if IS_LONG else 166))
    done = subprocess.run(
        [sys.executable, "-c", DAMAGE, source, tmp_path / "b.h5", str(step)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "panicked" not in done.stderr, done.stderr
