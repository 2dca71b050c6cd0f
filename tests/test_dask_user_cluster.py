"""A cluster of Dask's own, in a script: arrays that it computes, delayed runs, arrays of data sets.

One script does all of it, as its process and those of the workers take seconds to start.
"""

from __future__ import annotations

import os

import pytest
from dask_scripts import run_script

pytest.importorskip("distributed", reason="distributed is not installed")

SCRIPT = """
import os
import time
import traceback
from pathlib import Path

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import framefold as ff

if __name__ == "__main__":
    from delayed_checks import KINDS, check, check_progress_on_workers
    from framefold.contrib import daskadapter
    from framefold.exceptions import InvalidArgumentError, UnsupportedError

    class Mine(ff.UDF):
        # Workers that import the script do not find this class.

        def get_result_buffers(self):
            return {"intensity": self.buffer(kind="nav")}

        def process_frame(self, frame):
            self.results.intensity[:] = frame.sum()

    def run_over_arrays(client):
        data = np.arange(4 * 7 * 10 * 12, dtype=np.uint16).reshape(4, 7, 10, 12)
        array = da.from_array(data, chunks=(2, 4, 5, 12))
        expected = data.sum(axis=(2, 3), dtype="float32")
        held = array.persist()
        for name in ("dask-integration", "inline", "threads", "delayed"):
            with ff.Context.make_with(name) as ctx:
                # What is being computed when the run begins, and what depends on what is held.
                late = array.map_blocks(lambda block: time.sleep(0.05) or block).persist()
                for given in (late, array, held, held - 0):
                    dataset = ctx.load("dask", given, sig_dims=2, min_size=0)
                    for udf in (ff.SumSigUDF, Mine):
                        sums = ctx.run_udf(dataset=dataset, udf=udf())["intensity"].data
                        assert np.array_equal(sums, expected), name
        broken = array.map_blocks(lambda block: 1 // 0, meta=data[:0]).persist()
        with ff.Context.make_with("dask-integration") as ctx:
            try:
                ctx.run_udf(dataset=ctx.load("dask", broken), udf=Mine())
            except ZeroDivisionError:
                print("broken")
        with ff.Context.make_with("processes", cpus=1) as processes:
            for ctx in (processes, own):
                try:
                    ctx.run_udf(dataset=ctx.load("dask", held), udf=Mine())
                except InvalidArgumentError as error:
                    assert "holds chunks of the array" in str(error)
                    print("refused")
        # Native functions run here, where that cluster is known.
        assert np.array_equal(native_sums(held), expected)

    def native_sums(array):
        dataset = own.load("dask", array, sig_dims=2, min_size=0)
        return own.run_udf(dataset=dataset, udf=ff.SumSigUDF())["intensity"].data

    def run_over_arrays_without_that_cluster():
        data = np.arange(4 * 7 * 10 * 12, dtype=np.uint16).reshape(4, 7, 10, 12)
        array = da.from_array(data, chunks=(2, 3, 5, 12))
        assert np.array_equal(native_sums(array), data.sum(axis=(2, 3), dtype="float32"))

    def run_delayed(client):
        inline, ctx = ff.Context.make_with("inline"), ff.Context.make_with("delayed")
        for kind in KINDS:
            check(kind, inline, ctx, Path())
        dataset = ctx.load("npy", "scan.npy", sig_dims=2)
        array, workers = daskadapter.make_dask_array(dataset)
        assert workers == []
        sums = array.sum(axis=(-1, -2)).compute(workers=workers)
        assert (sums == inline.run_udf(dataset, ff.SumSigUDF())["intensity"].data).all()
        check_progress_on_workers(ctx)

    def make_arrays(client):
        data = np.arange(6 * 7 * 10 * 12, dtype=np.uint16).reshape(6, 7, 10, 12)
        hidden = os.path.abspath("hidden.npy")  # stands for a file that only some machines have
        np.save(hidden, data)
        dataset = ff.Context.make_with("inline").load("npy", hidden, sig_dims=2)
        names = sorted(cluster.workers)
        addresses = {w["name"]: a for a, w in client.scheduler_info()["workers"].items()}
        allowed = names

        def can_read(paths, dask_worker):
            return dask_worker.name in allowed

        daskadapter._can_read, before = can_read, daskadapter._can_read
        daskadapter.BLOCK_BYTES, bytes_before = 2000, daskadapter.BLOCK_BYTES
        try:
            assert daskadapter.make_dask_array(dataset)[1] == []
            allowed = names[:1]
            array, workers = daskadapter.make_dask_array(dataset)
            assert array.npartitions == 6
            assert workers == [addresses[names[0]]]
            sums = array.sum(axis=(-1, -2)).compute(workers=workers)
            assert (sums == data.sum(axis=(-1, -2))).all()
            allowed = []
            try:
                daskadapter.make_dask_array(dataset)
            except UnsupportedError as error:
                assert "no worker" in str(error) and "hidden.npy" in str(error)
            else:
                raise AssertionError("an array that no worker can read was made")
        finally:
            daskadapter._can_read, daskadapter.BLOCK_BYTES = before, bytes_before

    def report(part, *arguments):
        try:
            part(*arguments)
            print(part.__name__)
        except Exception:
            traceback.print_exc()

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with ff.Context.make_with("dask", cpus=1) as own:
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            for part in (run_over_arrays, run_delayed, make_arrays):
                report(part, client)
        report(run_over_arrays_without_that_cluster)
    print("the end")
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The script, once it has ended, and the lines that it printed."""
    here = os.path.dirname(os.path.abspath(__file__))
    done = run_script(tmp_path_factory.mktemp("script"), SCRIPT, paths=[here])
    return done, done.stdout.splitlines()


def test_arrays_that_it_computes(done):
    process, lines = done
    assert lines[:4] == ["broken", "refused", "refused", "run_over_arrays"], process.stderr
    assert "run_over_arrays_without_that_cluster" in lines, process.stderr


def test_delayed_runs(done):
    process, lines = done
    assert "run_delayed" in lines, process.stderr


def test_arrays_of_files_that_some_workers_can_read(done):
    process, lines = done
    assert "make_arrays" in lines, process.stderr


def test_the_script_ends_well(done):
    process, lines = done
    assert process.returncode == 0, process.stderr
    assert lines[-1] == "the end", process.stderr
