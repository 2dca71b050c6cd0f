"""A process that runs one engine, and does what lines of JSON on its standard input say.

``{"do": "prepare", "data": …, "task": …, "params": …}`` opens a data set, ``{"do": "answer",
"path": …}`` computes once and saves the result, ``{"do": "time"}`` computes once more and says how
long that took, ``{"do": "close"}`` lets go of the data set. ``{"do": "tile", "data": …}`` asks how
many frames a tile has. The answer to each is one line.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from typing import Any

import numpy as np


def main() -> None:
    module, options = sys.argv[1], json.loads(sys.argv[2])
    # Whatever libraries print must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine: Any = None
    work: Any = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer: dict[str, Any] = {}
            if command["do"] == "start":
                engine = importlib.import_module(module).Engine(**options)
                answer = {"versions": engine.versions()}
            elif command["do"] == "prepare":
                work = engine.prepare(command["data"], command["task"], command["params"])
                answer = {"scale": getattr(work, "scale", 1.0)}
            elif command["do"] == "answer":
                result = work()
                if command["path"] is not None:
                    np.save(command["path"], result)
                del result
            elif command["do"] == "time":
                start = time.perf_counter()
                result = work()
                answer = {"seconds": time.perf_counter() - start}
                del result
            elif command["do"] == "tile":
                answer = {"tile_shape": engine.tile_shape(command["data"])}
            elif command["do"] == "close":
                work = None
                gc.collect()
        except Exception as error:  # whatever goes wrong is for the report
            words = f"{type(error).__name__}: {error}".splitlines()[0]
            answer = {"error": words.removesuffix(": ")}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
