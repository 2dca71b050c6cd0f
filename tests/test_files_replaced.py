"""Files that are replaced or changed while their data set is in use: never two in one result."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import sys
import time

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import BadFileError, FileChangedError, FramefoldError
from framefold.udf import UDF

N_FRAMES = 400
SIG = (4, 4)


def write(path, value, n_frames=N_FRAMES):
    """A file beside ``path``, and put in its place."""
    beside = path.with_name(f"{path.name}.new")
    np.full((n_frames, *SIG), value, dtype=np.uint16).tofile(beside)
    os.replace(beside, path)


def load(ctx, path, **options):
    shapes = {"nav_shape": (N_FRAMES,), "sig_shape": SIG}
    return ctx.load("raw", path, dtype="uint16", **shapes, **options)


class ValuesUDF(UDF):
    """The value of each frame; what ``event`` says happens with the given frame, once."""

    def get_result_buffers(self):
        return {"value": self.buffer(kind="nav", dtype="int64")}

    def process_frame(self, frame):
        self.results.value[:] = int(frame[0, 0])
        path, new, frames, dies = self.params.event
        if self.meta.coordinates[0, 0] in frames and os.path.exists(new):
            os.replace(new, path)
            if dies:
                os._exit(1)
        time.sleep(self.params.seconds)


NOTHING = ("", "", (), False)


def values(ctx, dataset, event=NOTHING, seconds=0.0):
    result = ctx.run_udf(dataset, ValuesUDF(event=event, seconds=seconds))
    return set(np.unique(result["value"].data).tolist())


@pytest.fixture(params=["inline", "threads", "processes", "auto", "dask", "delayed"])
def ctx(request):
    workers = {} if request.param in ("inline", "delayed") else {"cpus": 2}
    with shared(request.param, **workers) as ctx:
        yield ctx


def test_the_next_run_says_that_a_file_was_replaced(tmp_path, ctx):
    path = tmp_path / "a.raw"
    write(path, 1)
    dataset = load(ctx, path)
    assert values(ctx, dataset) == {1}
    write(path, 2)
    for _ in range(2):
        with pytest.raises(FileChangedError, match=r"a\.raw.*another file took its place"):
            values(ctx, dataset)
    assert values(ctx, load(ctx, path)) == {2}


def test_a_file_that_is_replaced_once_a_run_is_planned(tmp_path, ctx):
    path = tmp_path / "a.raw"
    write(path, 1)
    if ctx.executor.__class__.__name__ == "DelayedJobExecutor":
        pytest.skip("there are no steps")
    steps = ctx.run_udf_iter(load(ctx, path), ValuesUDF(event=NOTHING, seconds=0.0))
    write(path, 2)
    if ctx.executor.__class__.__name__ in ("ProcessJobExecutor", "DaskJobExecutor"):
        with pytest.raises(FramefoldError, match=r"a\.raw.*another file"):
            list(steps)
    else:
        *_, last = steps
        assert set(np.unique(last.buffers[0]["value"].data).tolist()) == {1}


@pytest.mark.parametrize("executor", ["auto", "processes"])
def test_a_run_never_mixes_two_files(tmp_path, executor):
    path, new = tmp_path / "a.raw", tmp_path / "b.raw"
    write(path, 1)
    write(new, 2)
    dies = executor == "processes"
    event = (str(path), str(new), (4,) if dies else (0,), dies)
    with ff.Context.make_with(executor, cpus=2) as ctx:
        dataset = load(ctx, path, num_partitions=N_FRAMES)
        # Half a minute at least, for a worker that starts late: in the place of one that died, too.
        with pytest.raises(FileChangedError, match=r"a\.raw.*another file took its place"):
            values(ctx, dataset, event, seconds=0.15)
        with pytest.raises(FileChangedError, match=r"a\.raw.*another file took its place"):
            values(ctx, dataset)


@pytest.mark.parametrize("scheduler", ["synchronous", "processes"])
def test_a_graph_that_is_computed_later_refuses_another_file(tmp_path, scheduler):
    pytest.importorskip("dask")
    path = tmp_path / "a.raw"
    write(path, 1)
    with ff.Context.make_with("delayed") as ctx:
        results = ctx.run_udf(load(ctx, path), ValuesUDF(event=NOTHING, seconds=0.0))
        graph = results["value"].delayed_data
        write(path, 2)
        with pytest.raises(FileChangedError, match=r"a\.raw"):
            graph.compute(scheduler=scheduler)


def test_an_export_refuses_another_file(tmp_path):
    path = tmp_path / "a.raw"
    write(path, 1)
    ctx = ff.Context.make_with("inline")
    dataset = load(ctx, path)
    write(path, 2)
    for name in ("out.npy", "out.toml"):
        with pytest.raises(FileChangedError, match=r"a\.raw"):
            ctx.export_dataset(dataset, tmp_path / name)


def test_pickles_and_copies_refuse_another_file(tmp_path):
    path = tmp_path / "a.raw"
    write(path, 1)
    ctx = ff.Context.make_with("inline")
    dataset = load(ctx, path)
    data = pickle.dumps(dataset)
    assert values(ctx, pickle.loads(data)) == values(ctx, copy.deepcopy(dataset)) == {1}
    write(path, 2)
    for again in (lambda: pickle.loads(data), lambda: copy.copy(dataset)):
        with pytest.raises(FileChangedError, match=r"a\.raw"):
            again()


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
@pytest.mark.parametrize("how", ["in place", "touched", "same time", "shorter", "longer"])
def test_what_counts_as_another_file(tmp_path, how, backend):
    path = tmp_path / "a.raw"
    write(path, 1)
    os.utime(path, (1e9, 1e9))
    ctx = ff.Context.make_with("inline")
    dataset = load(ctx, path, io_backend=backend)
    data = pickle.dumps(dataset)
    match how:
        case "in place":
            with open(path, "r+b") as file:
                file.write(b"\2\0" * 16)
        case "touched":
            os.utime(path, (2e9, 2e9))
        case "same time":
            write(path, 2)
            os.utime(path, (1e9, 1e9))
        case "shorter":
            os.truncate(path, 100)
        case "longer":
            with open(path, "r+b") as file:
                file.write(b"\2\0" * 16)
                file.seek(0, 2)
                file.write(b"\0" * 100)
    with pytest.raises(FileChangedError, match=r"a\.raw"):
        values(ctx, dataset)
    with pytest.raises(FramefoldError, match=r"a\.raw"):
        pickle.loads(data)


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_a_file_that_has_grown_is_the_same(tmp_path, executor):
    path = tmp_path / "a.raw"
    write(path, 1)
    with shared(executor, cpus=2) as ctx:
        dataset = load(ctx, path)
        with open(path, "ab") as file:
            file.write(b"\2\0" * 16)
        assert values(ctx, dataset) == {1}


def test_a_file_that_was_deleted_can_still_be_read(tmp_path):
    path = tmp_path / "a.raw"
    write(path, 1)
    ctx = ff.Context.make_with("threads", cpus=2)
    dataset = load(ctx, path)
    path.unlink()
    assert values(ctx, dataset) == {1}


def test_a_file_that_is_written_to_during_a_run_ends_it(tmp_path):
    path = tmp_path / "a.raw"
    write(path, 1)
    ctx = ff.Context.make_with("inline")
    steps = ctx.run_udf_iter(load(ctx, path), ValuesUDF(event=NOTHING, seconds=0.0))
    next(steps)
    time.sleep(0.02)  # the clock of the file system is no finer
    with open(path, "r+b") as file:
        file.seek(-32, 2)
        file.write(b"\2\0" * 16)
    with pytest.raises(FramefoldError, match=r"a\.raw.*written to"):
        list(steps)


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_a_file_that_is_overwritten_with_a_longer_one_during_a_run_ends_it(
    tmp_path, executor, backend
):
    path = tmp_path / "a.raw"
    write(path, 1)
    with shared(executor) as ctx:
        dataset = load(ctx, path, io_backend=backend, num_partitions=8)
        steps = ctx.run_udf_iter(dataset, ValuesUDF(event=NOTHING, seconds=0.001))
        next(steps)
        time.sleep(0.02)  # the clock of the file system is no finer
        with open(path, "r+b") as file:
            file.write(np.full((N_FRAMES + 50, *SIG), 2, dtype=np.uint16).tobytes())
        with pytest.raises(FramefoldError, match=r"a\.raw"):
            list(steps)


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_a_file_that_grows_during_a_run_is_the_same(tmp_path, executor):
    path = tmp_path / "a.raw"
    write(path, 1, n_frames=N_FRAMES)
    with shared(executor) as ctx:
        dataset = load(ctx, path, num_partitions=8)
        steps = ctx.run_udf_iter(dataset, ValuesUDF(event=NOTHING, seconds=0.001))
        next(steps)
        with open(path, "ab") as file:
            file.write(b"\2\0" * 16)
        *_, last = steps
        assert set(np.unique(last.buffers[0]["value"].data).tolist()) == {1}


def test_every_file_of_a_set_counts(tmp_path):
    ctx = ff.Context.make_with("inline")
    for index in range(3):
        np.save(tmp_path / f"{index}.npy", np.full((5, *SIG), index, dtype=np.uint16))
    dataset = ctx.load("npy", str(tmp_path / "*.npy"))
    data = pickle.dumps(dataset)
    assert values(ctx, dataset) == {0, 1, 2}
    np.save(tmp_path / "new.tmp.npy", np.full((5, *SIG), 7, dtype=np.uint16))
    os.replace(tmp_path / "new.tmp.npy", tmp_path / "1.npy")
    with pytest.raises(FileChangedError, match=r"1\.npy"):
        values(ctx, dataset)
    with pytest.raises(FileChangedError, match=r"1\.npy"):
        pickle.loads(data)


def test_what_lies_beside_the_frames_counts(tmp_path):
    ctx = ff.Context.make_with("inline")
    zarr = tmp_path / "a.zarr"
    np.save(tmp_path / "a.npy", np.ones((5, *SIG), dtype=np.uint16))
    ctx.export_dataset(ctx.load("npy", tmp_path / "a.npy"), zarr)
    dataset = ctx.load("zarr", zarr)
    data = pickle.dumps(dataset)
    described = sorted(zarr.rglob(".zarray")) + sorted(zarr.rglob("zarr.json"))
    beside = described[-1].with_name("beside")
    beside.write_bytes(described[-1].read_bytes())
    os.replace(beside, described[-1])
    with pytest.raises(FileChangedError, match=described[-1].name):
        values(ctx, dataset)
    with pytest.raises(FileChangedError, match=described[-1].name):
        pickle.loads(data)


@pytest.fixture
def chunked(tmp_path):
    """A Zarr array of ones, and how to write another one."""
    ctx = ff.Context.make_with("inline")

    def export(name, value, **options):
        data = np.full((N_FRAMES, *SIG), value, dtype=np.uint16)
        dataset = ctx.load("memory", data=data, sig_dims=2)
        options = {"chunks": (10, *SIG), "compression": "none", **options}
        ctx.export_dataset(dataset, tmp_path / name, **options)
        return tmp_path / name

    return export


@pytest.mark.parametrize("what", ["folder", "one by one", "removed"])
@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_chunks_that_are_replaced_during_a_run_end_it(tmp_path, chunked, executor, what):
    path, new = chunked("a.zarr", 1), chunked("b.zarr", 2)
    with shared(executor) as ctx:
        dataset = ctx.load("zarr", path, num_partitions=8)
        if executor == "processes":
            assert values(ctx, dataset) == {1}
        steps = ctx.run_udf_iter(dataset, ValuesUDF(event=NOTHING, seconds=0.002))
        next(steps)
        time.sleep(0.02)  # the clock of the file system is no finer
        if what == "folder":
            os.rename(path, tmp_path / "old.zarr")
            os.rename(new, path)
        elif what == "removed":
            shutil.rmtree(path)
        else:
            for file in new.glob("c/**/*"):
                if file.is_file():
                    (path / file.relative_to(new)).write_bytes(file.read_bytes())
        with pytest.raises(FramefoldError, match=r"a\.zarr"):
            list(steps)
        if what == "removed":
            with pytest.raises(FramefoldError, match=r"a\.zarr"):
                values(ctx, dataset)


@pytest.mark.skipif(sys.platform != "linux", reason="needs to know whose clock it is")
def test_chunks_written_before_a_data_set_is_opened_again_elsewhere(chunked):
    path = chunked("a.zarr", 1)
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("zarr", path)
    data = pickle.dumps(dataset)
    assert values(ctx, pickle.loads(data)) == {1}
    for file in path.glob("c/**/*"):  # as copies of what a clock wrote that is ahead
        os.utime(file, (4e9, 4e9))
    dataset = ctx.load("zarr", path)
    data = pickle.dumps(dataset)
    assert values(ctx, pickle.loads(data)) == {1}
    time.sleep(0.02)
    for file in path.glob("c/**/*"):
        if file.is_file():
            file.write_bytes(file.read_bytes())
    again = pickle.loads(data)
    for each in (dataset, again):
        with pytest.raises(FramefoldError, match=r"a\.zarr.*written since"):
            values(ctx, each)
    assert values(ctx, ctx.load("zarr", path)) == {1}


def of_another_system(stamps):
    """What a data set says of its files, as if they were opened on another host."""
    fields = [("flags", "u1"), ("len", "<u8"), ("modified", "V16"), ("system", "<u8")]
    found = np.frombuffer(stamps, [*fields, ("rest", "V48")]).copy()
    found["system"] += 1
    return found.tobytes()


@pytest.mark.skipif(sys.platform != "linux", reason="needs to know whose disk it is")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_chunks_of_copies_elsewhere(chunked, tmp_path, zarr_format):
    path = chunked("a.zarr", 1, zarr_format=zarr_format)
    ctx = ff.Context.make_with("inline")
    chunks = [file for file in path.rglob("*0") if file.is_file()]
    chunk, n = max(chunks), len(chunks)
    dataset = ctx.load("zarr", path)
    stamps = of_another_system(dataset._engine.stamps)

    def check(stamps=stamps):
        ctx.load("zarr", path)._engine.check_same(stamps)

    check()
    turned = dataset.pipe(ff.Flip("y"))._engine.stamps
    os.utime(chunk, (1e9, 1e9))
    for each in (stamps, of_another_system(turned)):
        with pytest.raises(BadFileError, match=r"a\.zarr.*another time"):
            check(each)
    os.rename(chunk, tmp_path / "chunk")
    with pytest.raises(BadFileError, match=f"are {n - 1} files of chunks, and {n} where"):
        check()
    fewer = of_another_system(ctx.load("zarr", path)._engine.stamps)
    check(fewer)
    os.rename(tmp_path / "chunk", chunk)  # written since, as to an array that grows
    check(fewer)


@pytest.mark.skipif(sys.platform != "linux", reason="needs to know whose disk it is")
def test_chunks_of_every_array_of_a_stack(chunked):
    paths = [chunked(name, 1) for name in ("a.zarr", "b.zarr")]
    ctx = ff.Context.make_with("inline")
    stamps = ctx.open(paths)._engine.stamps
    for path in paths:
        ctx.open(paths)._engine.check_same_since(stamps)
        chunk = next(file for file in path.glob("c/**/*") if file.is_file())
        before = chunk.stat().st_mtime_ns
        os.utime(chunk, (1e9, 1e9))
        for check, given in [
            ("check_same", of_another_system(stamps)),
            ("check_same_since", stamps),
        ]:
            with pytest.raises(BadFileError, match=rf"{path.name}.*another time"):
                getattr(ctx.open(paths)._engine, check)(given)
        os.utime(chunk, ns=(before, before))


@pytest.mark.skipif(sys.platform != "linux", reason="needs to know whose disk it is")
def test_chunks_that_were_written_twice_in_a_second(chunked):
    path = chunked("a.zarr", 1)
    ctx = ff.Context.make_with("inline")
    chunk = next(file for file in path.glob("c/**/*") if file.is_file())
    seconds = chunk.stat().st_mtime_ns // 10**9 * 10**9
    os.utime(chunk, ns=(seconds, seconds))
    stamps = ctx.load("zarr", path)._engine.stamps
    os.utime(chunk, ns=(seconds, seconds + 4_000_000))
    with pytest.raises(BadFileError, match=r"a\.zarr.*another time"):
        ctx.load("zarr", path)._engine.check_same_since(stamps)
    # Copies on other systems keep whole seconds.
    ctx.load("zarr", path)._engine.check_same_since(of_another_system(stamps))


@pytest.mark.skipif(sys.platform != "linux", reason="needs to know whose disk it is")
def test_chunks_are_looked_at_once(chunked):
    """Of many chunks that takes a while, and it is sent with each run."""
    path = chunked("a.zarr", 1, zarr_format=2)
    dataset = ff.Context.make_with("inline").load("zarr", path)
    stamps = dataset._engine.stamps
    os.utime(next(file for file in path.rglob("*0") if file.is_file()), (1e9, 1e9))
    assert dataset._engine.stamps == stamps
    again = ff.Context.make_with("inline").load("zarr", path)
    assert again._engine.stamps != stamps


def test_linked_files_of_hdf5_count(tmp_path):
    h5py = pytest.importorskip("h5py")
    ctx = ff.Context.make_with("inline")

    def source(path, value):
        with h5py.File(path, "w") as file:
            file["data"] = np.full((5, *SIG), value, dtype=np.uint16)

    source(tmp_path / "outer.h5", 1)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"] = h5py.ExternalLink("outer.h5", "data")
    dataset = ctx.load("hdf5", tmp_path / "a.h5", ds_path="data")
    assert values(ctx, dataset) == {1}
    source(tmp_path / "new.h5", 2)
    os.replace(tmp_path / "new.h5", tmp_path / "outer.h5")
    with pytest.raises(FileChangedError, match=r"outer\.h5"):
        values(ctx, dataset)


def test_copies_on_other_hosts_are_the_same_file(tmp_path):
    """What another system saw has other devices and inodes, and times in seconds."""
    path = tmp_path / "a.raw"
    write(path, 1)
    os.utime(path, ns=(0, 10**18 + 123))
    dataset = load(ff.Context.make_with("inline"), path)._engine
    # One stamp: flags, length, time, then system, device and inode, the time of opening, digests.
    stamps = bytearray(dataset.stamps)
    for place in (25, 33, 41):
        stamps[place] ^= 1
    os.utime(path, ns=(0, 10**18))
    again = load(ff.Context.make_with("inline"), path)._engine
    again.check_same(bytes(stamps))
    for place in (1, 12, 66):  # length, time, digest
        other = stamps.copy()
        other[place] ^= 1
        with pytest.raises(FramefoldError, match=r"a\.raw"):
            again.check_same(bytes(other))
