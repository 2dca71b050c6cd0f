"""PyData's sparse arrays as plain Python: compiled, each dtype takes numba seconds, or a minute.

``conftest.py`` imports this before anything else can import them, as Dask does. Modules that worker
processes import take them from here.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

NAMES = ("sparse", "sparseconverter")


class PlainLoader(Loader):
    """Runs a module while numba compiles nothing: it looks where functions are declared."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        import numba

        before = numba.config.DISABLE_JIT
        numba.config.DISABLE_JIT = True
        try:
            self._loader.exec_module(module)
        finally:
            numba.config.DISABLE_JIT = before


class Finder(MetaPathFinder):
    """Finds them where they are, to be loaded by :class:`PlainLoader`."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in NAMES else None
        if spec is not None and spec.loader is not None:
            spec.loader = PlainLoader(spec.loader)
        return spec


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(name)
    return import_module(name)


sys.meta_path.insert(0, Finder())
