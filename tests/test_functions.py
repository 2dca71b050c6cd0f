"""Plain functions in place of a UDF."""

from __future__ import annotations

import numpy as np
import pytest
from sample_udfs import Level

from framefold.common.buffers import BufferWrapper
from framefold.exceptions import (
    InvalidArgumentError,
    UDFError,
)
from framefold.warnings import IgnoredReturnWarning


def test_functions(ctx, dataset, data):
    def make_buffers():
        return {
            "total": BufferWrapper(kind="nav", dtype="float32"),
            "corners": BufferWrapper(kind="nav", extra_shape=(2,), dtype="float32"),
        }

    def fn(frame, total, corners):
        total[:] = np.sum(frame)
        corners[:] = frame[0, 0], frame[-1, -1]

    result = ctx.run_udf(dataset=dataset, fn=fn, make_buffers=make_buffers)
    assert np.array_equal(result["total"].data, data.sum(axis=(2, 3)))
    assert np.array_equal(result["corners"].data[..., 1], data[..., -1, -1])


def test_functions_with_merge(ctx, dataset, data):
    def make_buffers():
        return {"maxbuf": BufferWrapper(kind="sig", dtype="float32")}

    def fn(frame, maxbuf):
        maxbuf[:] = np.maximum(frame, maxbuf)

    def merge(dest, src):
        dest["maxbuf"][:] = np.maximum(dest["maxbuf"], src["maxbuf"])

    result = ctx.run_udf(dataset=dataset, fn=fn, make_buffers=make_buffers, merge=merge)
    assert np.array_equal(result["maxbuf"].data, data.max(axis=(0, 1)))
    with pytest.raises(InvalidArgumentError, match=r"'maxbuf' is not of kind 'nav'.*pass merge="):
        ctx.run_udf(dataset=dataset, fn=fn, make_buffers=make_buffers)
    with pytest.raises(InvalidArgumentError, match="make_buffers is None"):
        ctx.run_udf(dataset=dataset, fn=fn)
    with pytest.raises(InvalidArgumentError, match="both a UDF and functions"):
        ctx.run_udf(dataset=dataset, udf=Level(), fn=fn, make_buffers=make_buffers)
    with pytest.raises(InvalidArgumentError, match="no UDF"):
        ctx.run_udf(dataset=dataset)

    async def awaits(frame, maxbuf):
        maxbuf[:] = 1

    with pytest.raises(UDFError, match="fn is declared with 'async def'"):
        ctx.run_udf(dataset=dataset, fn=awaits, make_buffers=make_buffers, merge=merge)


def test_what_functions_return_and_assign_is_not_lost(ctx, dataset, data):
    def nav():
        return {"total": BufferWrapper(kind="nav", dtype="float32")}

    def images():
        kinds = dict.fromkeys(("image", "before"), BufferWrapper(kind="sig", dtype="float64"))
        return {**kinds, "n": BufferWrapper(kind="single", dtype="int64")}

    def fn(frame, image, before, n):
        image += frame
        n += 1

    def run(merge):
        return ctx.run_udf(dataset=dataset, fn=fn, make_buffers=images, merge=merge)

    def assigns(dest, src):
        # What an entry was before is another array, whichever of them is written first.
        dest["before"] = dest["image"]
        dest["image"] = dest["image"] + src["image"]
        dest["n"] += src["n"]
        return dest

    def replaces(dest, src):
        total = {name: dest[name] + src[name] for name in dest}
        dest.clear()
        dest.update(total)

    def returns(dest, src):
        return {name: dest[name] + src[name] for name in dest}

    def misspells(dest, src):
        dest["imgae"] = dest["image"] + src["image"]

    words = r"^fn returned .*, which is ignored: write .* as in total\[:\] = …"
    with pytest.warns(IgnoredReturnWarning, match=words):
        ctx.run_udf(dataset=dataset, fn=lambda frame, total: frame.sum(), make_buffers=nav)
    whole = data.astype(np.float64).sum(axis=(0, 1))
    for merge in (assigns, replaces):
        result = run(merge)
        assert np.allclose(result["image"].data, whole, rtol=1e-12)
        assert result["n"].data == data[..., 0, 0].size
    before = run(assigns)["before"].data
    assert before.any()
    assert not np.allclose(before, whole)
    with pytest.raises(
        UDFError, match=r"^merge returned a dict, .*dest\['name'\]\[:\] \+= src\['name'\]"
    ):
        run(returns)
    with pytest.raises(AttributeError, match="no result buffer 'imgae' to assign to"):
        run(misspells)
