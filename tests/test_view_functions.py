"""Functions of the session in the viewer: over which scan they run."""

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
