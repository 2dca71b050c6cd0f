"""A worker process: ``python -m framefold.executor._processes DEVICE HANDLE LIFELINE``.

The device is -1 for a worker on the CPU.
"""

from __future__ import annotations

import gc
import sys

if __name__ == "__main__":
    gc.disable()  # looking for garbage in what is being imported takes a tenth of the time
    from framefold.executor._processes.serving import serve

    device, handle, lifeline = map(int, sys.argv[1:])
    serve(handle, lifeline, None if device < 0 else device)
