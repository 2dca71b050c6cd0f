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
