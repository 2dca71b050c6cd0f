"""Ctrl-C while data sets in memory are made, and while results are saved."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

if sys.platform == "win32":
    pytest.skip("signals work differently here", allow_module_level=True)

CONVERTING = """
    import sys, threading
    import numpy as np
    import framefold as ff
    from framefold import _engine

    def begin():
        print("begins", flush=True)

    def convert(n):
        if way == "dense":
            data = np.broadcast_to(np.float32(0), (n, 512, 512))
            ctx.load("memory", data=data, array_backends=[ff.UDF.BACKEND_SCIPY_CSR])
        elif way == "tiff":
            pages = np.zeros((n << 5, 1, 1), np.uint8)
            _engine.WholeFile(path, True).write_tiff(pages, 0, "pages")
        else:
            indices = np.memmap(path, dtype=np.uint32, mode="w+", shape=(n << 14,))
            values = indices.view(np.uint8)[: n << 14]
            _engine.from_csr(np.arange(n + 1) << 14, indices, values, (128, 128))

    way, path = sys.argv[1:]
    ctx = ff.Context.make_with("inline")
    convert(2)  # and import all that it needs
    threading.Timer(0.2, begin).start()
    try:
        convert(1 << 20)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("way", ["dense", "sparse", "tiff"])
def test_ctrl_c_while_arrays_are_converted(way, tmp_path):
    """Each would take many minutes."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CONVERTING), way, tmp_path / "indices"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout.readline().startswith("begins")
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out) == (0, "interrupted\n"), err
