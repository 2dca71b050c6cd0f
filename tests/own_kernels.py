"""Kernels of notebooks that other programs cannot take the ports of.

Jupyter looks for ports that are free, and the kernel takes them when it has started, which takes
seconds on a busy machine: where another one, such as of tests in another process, takes one of them
meanwhile, the kernel ends. Sockets in a folder of their own have names that no other program uses.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def own_sockets() -> Iterator[Any]:
    """The configuration of a kernel manager, or of what makes one; of ports where it has to be."""
    from traitlets.config import Config

    if sys.platform == "win32":
        yield Config()
        return
    # Not below the folder of a test: names of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="framefold-kernel-") as folder:
        path = os.path.join(folder, "socket")
        yield Config({"KernelManager": {"transport": "ipc", "ip": path}})
