"""Functions of the session in the viewer: what their pictures say, and over which scan they run."""

import numpy as np
import pytest
from view_client import Client

import framefold as ff

FRAMES = np.random.default_rng(11).poisson(4.0, (6, 7, 12, 14)).astype(np.uint16)


@pytest.fixture(scope="module")
def context():
    return ff.Context.make_with("inline")


def own(buffer, pane="scan"):
    return {"pane": pane, "channel": {"kind": "own", "name": "own", "buffer": buffer}}


class Bright(ff.UDF):
    """Sums, of which those above a limit are valid."""

    def get_result_buffers(self):
        return {
            "total": self.buffer(kind="nav", dtype="int64"),
            "pair": self.buffer(kind="nav", dtype="float64", extra_shape=(2,)),
            "frame": self.buffer(kind="sig", dtype="float64"),
        }

    def process_frame(self, frame):
        self.results.total[:] = frame.sum()
        self.results.pair[:] = [0, frame.sum()]
        self.results.frame[:] += frame

    def merge(self, dest, src):
        dest.total[:], dest.pair[:] = src.total, src.pair
        dest.frame[:] += src.frame

    def get_results(self):
        total, pair, frame = self.results.total, self.results.pair, self.results.frame
        return {
            "total": self.with_mask(total, total > 670),
            "pair": self.with_mask(pair, pair > 670),
            "frame": self.with_mask(frame, frame > 170),
        }


def test_what_is_not_valid_is_no_number(context):
    dataset = context.load("memory", data=FRAMES)
    results = context.run_udf(dataset=dataset, udf=Bright())
    client = Client(dataset, udfs={"own": Bright()}, context=context)
    for query, result in [
        (own("total"), results["total"].masked_data),
        (own("pair[1]"), results["pair"].masked_data[..., 1]),
        (own("frame", "pattern"), results["frame"].masked_data),
    ]:
        found, expected = client.array(query), result.astype(float).filled(np.nan)
        assert 0 < np.isnan(expected).sum() < expected.size
        np.testing.assert_array_equal(found, expected)
    client.session.close()


@pytest.mark.filterwarnings("ignore::framefold.warnings.MissingFramesWarning")
def test_functions_run_over_the_scan_that_is_shown(context, tmp_path):
    np.save(tmp_path / "scan.npy", FRAMES)
    dataset = context.load("npy", tmp_path / "scan.npy")
    client = Client(dataset, udfs={"own": ff.SumSigUDF()}, context=context)
    client.hello()
    client.request(type="open", sync_offset=2)
    expected = client.array({"pane": "scan", "channel": {"kind": "sum"}})
    assert np.isnan(expected).sum() == 2
    np.testing.assert_array_equal(client.array(own("intensity")), expected)
    client.request(type="open", nav_shape=[14, 3])
    totals = FRAMES.sum(axis=(2, 3))
    np.testing.assert_array_equal(client.array(own("intensity")), totals.reshape(14, 3))
    # Over more axes, it makes no picture.
    header, _ = client.request(type="open", nav_shape=[2, 3, 7])
    assert header["description"]["own"] == []
    client.request(type="open")
    np.testing.assert_array_equal(client.array(own("intensity")), totals)
    client.session.close()


class Weighted(ff.SumSigUDF):
    """With a weight for each position of a scan of 6 x 7."""

    def __init__(self, weight):
        ff.UDF.__init__(self, weight=weight)

    def process_frame(self, frame):
        self.results.intensity[:] = frame.sum() * self.params.weight


@pytest.mark.filterwarnings("ignore::framefold.warnings.MissingFramesWarning")
def test_a_function_that_fails_over_another_scan_is_left_out(context, tmp_path):
    np.save(tmp_path / "scan.npy", FRAMES)
    dataset = context.load("npy", tmp_path / "scan.npy")
    weighted = Weighted(ff.UDF.aux_data(np.ones((6, 7)), kind="nav"))
    client = Client(dataset, udfs={"own": weighted}, context=context)
    assert [own["name"] for own in client.hello()["description"]["own"]] == ["own"]
    header, _ = client.request(type="open", nav_shape=[14, 3])
    assert header["description"]["own"] == []
    found = client.array({"pane": "scan", "channel": {"kind": "sum"}})
    np.testing.assert_array_equal(found, FRAMES.sum(axis=(2, 3)).reshape(14, 3))
    client.session.close()
