"""A worker process: ``python -m framefold.executor._processes DEVICE HANDLE LIFELINE``.

The device is -1 for a worker on the CPU.
"""

from __future__ import annotations

import sys

from framefold.executor._processes.serving import serve

if __name__ == "__main__":
    device, handle, lifeline = map(int, sys.argv[1:])
    serve(handle, lifeline, None if device < 0 else device)
