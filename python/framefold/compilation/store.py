"""Machine code on disk and in this process: what was compiled once is not compiled again.

What is kept needs nothing but LLVM to be loaded, unless it allocates memory: Numba, which takes its
time to be imported, is left out where it is not needed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sys
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from framefold.compilation.names import UncertainError

if TYPE_CHECKING:
    from framefold.compilation._compiler import MachineCode
    from framefold.compilation.plan import Wanted

#: The environment variable that names another folder.
FOLDER = "FRAMEFOLD_CACHE_DIR"
#: The oldest files are removed when there are more.
MOST_FILES = 400
MAGIC = b"framefold machine code 1\n"


class Loaded(NamedTuple):
    """Machine code in this process."""

    #: Addresses of C functions, by entry.
    addresses: dict[str, int]
    #: What it ends with.
    owner: Any
    #: Where it is from: ``compiled``, ``cache``, or ``memory``.
    origin: str
    #: The type of what the function returns that processes the data; empty for None.
    returns: str


_loaded: dict[str, Loaded] = {}
_lock = threading.RLock()


def load(wanted: Wanted) -> Loaded:
    """Machine code for what is wanted: from memory, from disk, or compiled now.

    Raises
    ------
    UDFError
        If something cannot be compiled; names the function, the line, and the reason.
    """
    with _lock:
        try:
            key = wanted.key(about_numba())
        except UncertainError:
            key = None  # compiled anew for each run
        if key is not None and key in _loaded:
            return _loaded[key]._replace(origin="memory")
        keeps = key is not None and wanted.keeps
        if key is not None and keeps and (found := _read(key)) is not None:
            meta, data = found
            loaded = Loaded(*_link(meta, data), "cache", str(meta["returns"]))
        else:
            from framefold.compilation._compiler import compile_wanted

            code, (addresses, owner) = compile_wanted(wanted)
            loaded = Loaded(addresses, owner, "compiled", code.returns)
            if code.is_of_one_run:
                return loaded
            if key is not None and keeps and code.can_be_kept:
                _write(key, code)
        if key is not None:
            _loaded[key] = loaded
        return loaded


def return_type(function: Any, dtype: str, ndim: int) -> str:
    """The dtype of what a function of a frame returns, by name."""
    from framefold.compilation.names import fingerprint, keeps
    from framefold.compilation.plan import GENERATION

    with _lock:
        try:
            about = (GENERATION, about_numba(), fingerprint(function), dtype, ndim, "returns")
            key = hashlib.sha256(repr(about).encode()).hexdigest()
        except UncertainError:
            key = ""
        kept = bool(key) and keeps(function)
        if kept and (found := _read(key)) is not None:
            return str(found[0]["returns"])
        from framefold.compilation import _compiler

        name = _compiler.return_type(function, dtype, ndim)
        if kept:
            _write_file(key, {"returns": name}, b"")
        return name


def about_numba() -> str:
    """What machine code depends on beside the code: Python, libraries, and the processor."""
    stamps = []
    # SciPy's BLAS is called by machine code, which ends the process where there is none.
    for name in ("numba", "llvmlite", "numpy", "scipy"):
        origin = _origin(name)
        stamps.append((origin, os.stat(origin).st_mtime_ns if origin else 0))
    # Not how many threads Numba itself may start, which differs on workers.
    numba = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name != "NUMBA_NUM_THREADS"
    )
    return repr((sys.version, sys.platform, stamps, _processor(), numba))


_origins: dict[str, str | None] = {}


def _origin(name: str) -> str | None:
    """The file of a package, which takes long to find; None if it is not installed."""
    if name not in _origins and (spec := find_spec(name)) is not None:
        _origins[name] = spec.origin
    return _origins.get(name)


@functools.cache
def _processor() -> tuple[str, str]:
    """Its name and what it can do; to ask LLVM for that at each run takes long."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def folder() -> Path | None:
    """Where machine code is kept; None if other users can write to it."""
    given = os.environ.get(FOLDER)
    if given:
        base = Path(given)
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", "~")).expanduser() / "framefold"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "framefold"
    path = base / "compiled"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid"):
            found = path.stat()
            # The files are run as code: other users must not be able to write them.
            if found.st_uid != os.getuid() or found.st_mode & 0o022:
                return None
    except (OSError, RuntimeError):
        return None
    return path


def _read(key: str) -> tuple[dict[str, Any], bytes] | None:
    path = folder()
    if path is None:
        return None
    try:
        content = (path / key).read_bytes()
    except OSError:
        return None
    digest, _, rest = content.removeprefix(MAGIC).partition(b"\n")
    if not content.startswith(MAGIC) or hashlib.sha256(rest).hexdigest().encode() != digest:
        return None  # cut short, or of another version: compiled anew, and replaced
    head, _, data = rest.partition(b"\n")
    with contextlib.suppress(OSError):
        os.utime(path / key)
    meta: dict[str, Any] = json.loads(head)
    return meta, data


def _write(key: str, code: MachineCode) -> None:
    meta = {"entries": list(code.entries), "alone": code.alone, "returns": code.returns}
    _write_file(key, meta, code.data)


def _write_file(key: str, meta: dict[str, Any], data: bytes) -> None:
    path = folder()
    if path is None:
        return
    rest = json.dumps(meta).encode() + b"\n" + data
    digest = hashlib.sha256(rest).hexdigest().encode()
    try:
        handle, name = tempfile.mkstemp(dir=path)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + digest + b"\n" + rest)
            os.replace(name, path / key)
        except BaseException:
            os.unlink(name)
            raise
        _remove_oldest(path)
    except OSError:
        return  # a full disk costs time, not the run


def _remove_oldest(path: Path) -> None:
    files = list(path.iterdir())
    if len(files) <= MOST_FILES:
        return
    by_age = sorted(files, key=lambda file: file.stat().st_mtime)
    for file in by_age[: len(files) - MOST_FILES]:
        file.unlink(missing_ok=True)


def _link(meta: dict[str, Any], data: bytes) -> tuple[dict[str, int], Any]:
    """Addresses of the entries of an object file, and what keeps it loaded."""
    import llvmlite.binding as llvm

    if not meta["alone"]:
        from numba.core.registry import cpu_target
        from numba.core.runtime import rtsys

        # Makes the functions of Numba's own libraries known to LLVM, and gives them an allocator,
        # which Numba itself does when it compiles first.
        rtsys.initialize(cpu_target.target_context)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    if llvm.address_of_symbol("NRT_MemInfo_call_dtor") is None:
        # Never called, as nothing is allocated; but it has to be somewhere.
        llvm.add_symbol("NRT_MemInfo_call_dtor", llvm.address_of_symbol("abort") or 1)
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(data))
    engine.finalize_object()
    names = meta["entries"]
    return {name: engine.get_function_address(f"framefold_{name}") for name in names}, engine
