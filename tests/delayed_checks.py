"""What is computed on every scheduler of Dask, also by scripts, which do without pytest."""

from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import numpy as np
from delayed_cases import SIG, PerFrame, Slow, Total, everything, same_bits, scan, some
from sample_udfs import Recorder

import framefold as ff
from framefold.executor._delayed import progress as delayed_progress
from framefold.io.corrections import CorrectionSet
from framefold.udf.stddev import StdDevUDF

KINDS = ["npy", "memory", "dask"]


def data_set(kind, ctx, folder):
    data = scan("uint16")
    if kind == "npy":
        np.save(folder / "scan.npy", data)
        return ctx.load("npy", folder / "scan.npy", sig_dims=2, num_partitions=5)
    if kind == "dask":
        chunks = da.from_array(data, chunks=(2, 3, 5, 12))
        return ctx.load("dask", chunks, sig_dims=2, min_size=0)
    return ctx.load("memory", data=data, sig_dims=2, sync_offset=2, num_partitions=5)


def check(kind, inline, ctx, folder, **options):
    """Values of all results, computed at once, are those of an inline run."""
    dataset = data_set(kind, inline, folder)
    data = scan("uint16")
    udfs = [PerFrame(), Total(), everything(data), ff.SumUDF(), ff.SumSigUDF(), StdDevUDF()]
    run = {"dataset": dataset, "udf": udfs, "roi": some()}
    run["corrections"] = CorrectionSet(dark=np.ones(SIG))
    expected = inline.run_udf(**run)
    results = ctx.run_udf(**run)
    lazy = [[each.delayed_data for each in of.values()] for of in results]
    (values,) = dask.compute(lazy, **options)
    for udf, found, of in zip(udfs, values, expected, strict=True):
        for array, (name, wanted) in zip(found, of.items(), strict=True):
            assert same_bits(array, wanted.data), (type(udf).__name__, name)


def check_progress_on_workers(ctx):
    """Workers report partitions one by one, and no listener is left in the end."""
    data = scan("uint16")
    dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=6)
    heard, other = Recorder(), Recorder()
    results = ctx.run_udf(dataset=dataset, udf=Slow(), progress=heard)
    fewer = ctx.load("memory", data=data, sig_dims=2, num_partitions=3)
    others = ctx.run_udf(dataset=fewer, udf=Slow(), progress=other)
    with ThreadPoolExecutor() as pool:
        both = [pool.submit(getattr, of["total"], "data") for of in (results, others)]
        for each in both:
            assert np.array_equal(each.result(60), data.sum(axis=(2, 3)))
    for recorder, n_partitions in ((heard, 6), (other, 3)):
        kinds = [kind for kind, _ in recorder.states]
        assert kinds[0] == "start"
        assert kinds[-1] == "end"
        counts = [state.num_part_complete for kind, state in recorder.states if kind == "update"]
        assert counts == sorted(set(counts))
        assert counts[-1] == n_partitions
        # The last events may come after the result.
        assert len(counts) > 1
        assert recorder.states[-1][1].num_frames_complete == 42

    class Breaks(Recorder):
        def update(self, state):
            raise KeyError("the reporter")

    results = ctx.run_udf(dataset=dataset, udf=Slow(), progress=Breaks())
    raised = None
    try:
        _ = results["total"].data
    except KeyError as error:
        raised = error
    assert "the reporter" in str(raised)
    assert all(not listeners for listeners in delayed_progress._listeners.values())
