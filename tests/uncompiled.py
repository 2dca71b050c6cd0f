"""PyData's sparse arrays as plain Python: compiled, each dtype takes numba seconds, or a minute.

``conftest.py`` imports this before anything else can import them, as Dask does. Modules that worker
processes import take them from here.

Where HyperSpy looks for places on its axes, it is plain Python, too, as it is without numba, which
takes two seconds for a look at an axis of some ten positions.

What a package compiles anew in each process, for 8 seconds, is kept for the others of a run here.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

NAMES = ("sparse", "sparseconverter", "hyperspy.misc._array_tools")
#: Compiled as they are, and kept where NUMBA_CACHE_DIR says.
KEPT = ("libertem_blobfinder.base.correlation",)


class PlainLoader(Loader):
    """Runs a module while numba compiles nothing: it looks where functions are declared."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        try:
            import numba
        except ModuleNotFoundError:  # HyperSpy does without it
            self._loader.exec_module(module)
            return
        before = numba.config.DISABLE_JIT
        numba.config.DISABLE_JIT = True
        try:
            self._loader.exec_module(module)
        finally:
            numba.config.DISABLE_JIT = before


class KeepingLoader(PlainLoader):
    """Has numba keep what it compiles of a module's functions, as ``njit(cache=True)`` would."""

    def exec_module(self, module: Any) -> None:
        from numba.core.registry import CPUDispatcher

        self._loader.exec_module(module)
        for function in vars(module).values():
            if isinstance(function, CPUDispatcher) and function.__module__ == module.__name__:
                function.enable_caching()


class Finder(MetaPathFinder):
    """Finds them where they are, to be loaded by one of these loaders."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        loader = PlainLoader if name in NAMES else KeepingLoader if name in KEPT else None
        spec = PathFinder.find_spec(name, path, target) if loader else None
        if loader and spec is not None and spec.loader is not None:
            spec.loader = loader(spec.loader)
        return spec


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(name)
    return import_module(name)


sys.meta_path.insert(0, Finder())
