"""Lets packages that were written for LiberTEM import framefold instead: ``import libertem…``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from framefold.exceptions import InvalidArgumentError

__all__ = ["INTERFACE_VERSION", "install_as_libertem"]

#: The version of LiberTEM whose interface framefold offers: ``libertem.__version__``.
INTERFACE_VERSION = "0.16.0"

ALIAS = "libertem"
TARGET = "framefold"

BASE = "framefold.io.dataset.base"
PARTS = ("backend", "backend_mmap", "exceptions", "tiling", "tiling_scheme")
#: Modules of the reference below one that is a module here, which has their names.
WITHIN = {f"{BASE}.{name}": BASE for name in PARTS}


def install_as_libertem() -> None:
    """Make ``import libertem…`` mean framefold in this process.

    Call it before the first import of a package that imports ``libertem``::

        import framefold as ff

        ff.install_as_libertem()
        from libertem_blobfinder.udf.correlation import FastCorrelationUDF

    What it does:

    - ``libertem.x.y`` is ``framefold.x.y``: one module under two names. A class has one
      identity, whichever way it was imported, so ``isinstance`` and ``except`` hold.
    - ``libertem`` itself is a module of its own that has all of framefold's attributes, and
      ``__version__`` ``'0.16.0'``: the version whose interface framefold offers, for packages
      that look at it. ``framefold.__version__`` is framefold's own.
    - A module that framefold does not have raises :class:`ModuleNotFoundError`, which names it.
    - It takes precedence over a LiberTEM that is installed and was not imported yet.
    - Nothing else changes: no file is written, nothing is imported, and what package managers
      and :mod:`importlib.metadata` know of installed packages stays as it is. It holds for
      this process, until it ends. Calling it again does nothing.

    Raises
    ------
    InvalidArgumentError
        If LiberTEM itself is imported already. Two engines under one name would mix their
        classes, so the call has to come first, or in another process.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    imported = sorted(name for name in sys.modules if _is_alias(name))
    if imported:
        where = getattr(sys.modules[imported[0]], "__file__", None) or "an unknown place"
        raise InvalidArgumentError(
            f"{imported[0]!r} is already imported, from {where}; call "
            f"framefold.install_as_libertem() before anything imports it, or use another process"
        )
    sys.meta_path.insert(0, _Finder())


def _is_alias(name: str) -> bool:
    return name == ALIAS or name.startswith(f"{ALIAS}.")


class _Finder(MetaPathFinder):
    """Finds ``libertem`` and all below it, and nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _is_alias(fullname):
            return None
        if fullname == ALIAS:
            return ModuleSpec(fullname, _PackageLoader(), is_package=True)
        counterpart = TARGET + fullname.removeprefix(ALIAS)
        counterpart = WITHIN.get(counterpart, counterpart)
        try:
            found = importlib.util.find_spec(counterpart)
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith(TARGET):
                raise
            found = None  # what it would be in is a module, not a package
        if found is None:
            raise ModuleNotFoundError(
                f"no module named {fullname!r}: framefold stands in for {ALIAS} "
                f"(framefold.install_as_libertem() was called), and has no {counterpart!r}; its "
                f"docs/compatibility.md says what to use instead",
                name=fullname,
            )
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, _AliasLoader(counterpart), is_package=is_package)


class _AliasLoader(Loader):
    """Puts framefold's module in the place of the one that is being imported."""

    def __init__(self, counterpart: str) -> None:
        self.counterpart = counterpart

    def exec_module(self, module: ModuleType) -> None:
        # The import system takes what it finds here when the loader is done. To return the
        # counterpart from create_module would make it write over that module's __spec__.
        counterpart = importlib.import_module(self.counterpart)
        if not hasattr(counterpart, "__path__"):
            counterpart.__path__ = []  # so that the finder is asked for what would be below it
        sys.modules[module.__name__] = counterpart


class _PackageLoader(Loader):
    """Makes the package ``libertem``, which has its own version."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Package(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__version__"] = INTERFACE_VERSION


class _Package(ModuleType):
    """``libertem``: attributes that it does not have itself are framefold's."""

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(importlib.import_module(TARGET), name)
        except AttributeError:
            raise AttributeError(
                f"module {ALIAS!r} has no attribute {name!r}; {TARGET} stands in for it"
            ) from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(importlib.import_module(TARGET))})
