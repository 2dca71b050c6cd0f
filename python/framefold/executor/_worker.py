"""A worker process: ``python -m framefold.executor._worker HANDLE LIFELINE``."""

from __future__ import annotations

import sys

from framefold.executor._serving import serve

if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
