"""What a run is, in words: where its results are from, and whether another run is the same."""

from __future__ import annotations

import base64
import datetime
import functools
import hashlib
import json
import os
import platform
import sys
import types
import zlib
from collections.abc import Mapping, Set
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from framefold import _engine
from framefold.common.buffers import BufferWrapper
from framefold.exceptions import UnsupportedError
from framefold.udf.base import UDF

if TYPE_CHECKING:
    from framefold.run.plan import Run

#: Longer texts are shown by their digests.
LONGEST = 200
#: Values within values are looked at so deep.
DEEPEST = 30


def provenance(run: Run) -> dict[str, Any]:
    """Where the results of a run are from: texts and lists of texts, as attributes of a file."""
    dataset, selected = run.dataset, run.plan.n_selected
    positions = dataset.shape.nav.size
    roi = "all positions"
    if run.roi is not None:
        roi = f"{selected} of {positions} positions, {_digest(np.packbits(run.roi).tobytes())}"
    about = {
        "creator": f"framefold {_engine.__version__}",
        "numpy": np.__version__,
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "data_set": [os.fspath(path) for path in dataset.paths] or ["memory"],
        "data_set_format": dataset.format,
        "data_set_shape": str(tuple(dataset.shape)),
        "data_set_dtype": str(dataset.dtype),
        "roi": roi,
    }
    if dataset._changes:
        about["data_set_changes"] = [f"{name}: {_shown(what)}" for name, what in dataset._changes]
    if run.corrections is not None and run.corrections.have_corrections():
        about["corrections"] = _shown(run.corrections.__getstate__())
    return about


def of_udf(udf: UDF) -> dict[str, Any]:
    """What a UDF is: its class, and its parameters as a JSON object of texts."""
    parameters = {name: _shown(value) for name, value in udf._kwargs.items()}
    return {
        "udf": f"{type(udf).__module__}.{type(udf).__qualname__}",
        "parameters": json.dumps(parameters, ensure_ascii=False),
    }


def identity(run: Run) -> dict[str, str]:
    """What has to be the same of two runs for the same results, bit for bit, part by part.

    Functions that user code calls, and that are not its own, are not looked at.

    Raises
    ------
    UnsupportedError
        If a parameter is something that cannot be compared.
    """
    dataset, corrected = run.dataset, run.corrections
    frames = zlib.crc32(np.fromiter(chain.from_iterable(run.partitions), "<u8").tobytes())
    parts = {
        "version of framefold": _engine.__version__,
        "version of NumPy": np.__version__,
        "version of Python": platform.python_version(),
        "data set": described((dataset.format, tuple(dataset.shape), dataset._opened_with)),
        "changes of the data set": described(dataset._changes),
        "ROI": described(run.roi),
        "corrections": described(corrected and corrected.__getstate__()),
        "plan": f"{_digest(run.plan.explain().encode())}, frames {frames:08x}",
    }
    for number, udf in enumerate(run.udfs):
        name = type(udf).__name__ + (f" (number {number})" if len(run.udfs) > 1 else "")
        parts[f"code of {name}"] = _of_udf(type(udf))
        for key, value in udf._kwargs.items():
            parts[f"parameter {key!r} of {name}"] = described(value)
    return parts


def stamps(run: Run) -> str:
    """What the files of the data set are, for :func:`check_files`."""
    return base64.b64encode(run.dataset._engine.stamps).decode()


def check_files(run: Run, known: str) -> None:
    """Compare the files of the data set with those that :func:`stamps` described.

    Raises
    ------
    BadFileError
        If one is another file, or was written to; names it.
    """
    run.dataset._engine.check_same(base64.b64decode(known))


def described(value: Any, depth: int = 0) -> str:
    """A value as text: the same for equal values, in any process.

    Raises
    ------
    UnsupportedError
        If nothing is known of a value that could be compared.
    """
    if depth > DEEPEST:
        raise UnsupportedError(f"a {type(value).__name__} refers to too many others, or to itself")
    inner = functools.partial(described, depth=depth + 1)
    if value is None or isinstance(value, (bool, int, float, complex, np.generic, np.dtype)):
        return repr(value)
    if isinstance(value, (str, bytes)):
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        return repr(value) if len(value) <= LONGEST else f"{len(value)} of {_digest(data)}"
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return f"objects {value.shape} {inner(value.tolist())}"
        data = np.ascontiguousarray(value).tobytes()
        return f"{value.dtype.str} {value.shape} {_digest(data)}"
    if isinstance(value, BufferWrapper):
        return f"{value.kind} {value.extra_shape} {inner(np.asarray(value))}"
    if isinstance(value, Mapping):
        items = sorted((inner(key), inner(each)) for key, each in value.items())
        return "{" + ", ".join(f"{key}: {each}" for key, each in items) + "}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}[" + ", ".join(map(inner, value)) + "]"
    if isinstance(value, Set):
        return "set[" + ", ".join(sorted(map(inner, value))) + "]"
    if isinstance(value, (slice, range)):
        return f"{type(value).__name__}{inner((value.start, value.stop, value.step))}"
    if isinstance(value, type):
        return f"class {value.__module__}.{value.__qualname__}"
    if isinstance(value, os.PathLike):
        return repr(os.fspath(value))
    if isinstance(value, functools.partial):
        return f"partial {inner((value.func, value.args, value.keywords))}"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, types.MethodType):
        return f"method {inner((value.__self__, value.__func__))}"
    if isinstance(value, types.CodeType):
        return _of_code(value, depth)
    # What numba makes of a function has that function.
    function = getattr(value, "py_func", value)
    if isinstance(function, types.FunctionType):
        return _of_function(function, depth)
    if isinstance(value, (types.BuiltinFunctionType, np.ufunc)):
        return f"{getattr(value, '__module__', '')}.{value.__name__}"
    cls = type(value)
    name = f"{cls.__module__}.{cls.__qualname__}"
    if any("__reduce__" in vars(each) for each in cls.__mro__[:-1]):
        # Part of it may be no attribute. It says itself how it is made; its code may be in a file.
        try:
            made = value.__reduce__()
        except TypeError as error:
            why = f"a {cls.__name__} cannot be compared with another one: {error}"
            raise UnsupportedError(why) from None
        return f"{name} {inner(made)} {_digest_of_module(cls.__module__)}"
    if hasattr(value, "__dict__"):
        return f"{name} {inner(vars(value))}"
    raise UnsupportedError(f"a {cls.__name__} cannot be compared with another one")


def _digest_of_module(name: str) -> str:
    path = getattr(sys.modules.get(name), "__file__", None)
    if path is None:
        return "built in"
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _of_function(function: types.FunctionType, depth: int) -> str:
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_set(cell)]
    rest = function.__code__, function.__defaults__, function.__kwdefaults__, cells
    return f"{function.__module__}.{function.__qualname__} {described(rest, depth + 1)}"


def _is_set(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _of_code(code: types.CodeType, depth: int) -> str:
    parts = code.co_code, code.co_names, code.co_varnames, code.co_consts
    return _digest(described(parts, depth + 1).encode())


def _of_udf(cls: type[UDF]) -> str:
    """A class with the code that is its own, but for that of framefold."""
    name = f"{cls.__module__}.{cls.__qualname__}"
    own = []
    for each in cls.__mro__:
        if each is object or each.__module__.split(".")[0] == "framefold":
            continue
        for key, member in sorted(vars(each).items()):
            if isinstance(member, (staticmethod, classmethod)):
                member = member.__func__
            if isinstance(member, property):
                member = member.fget, member.fset
            if not key.startswith("__") or isinstance(member, types.FunctionType):
                own.append(f"{key}: {described(member, 1)}")
    return f"{name} {_digest(', '.join(own).encode())}"


def _shown(value: Any) -> str:
    """A value as text for people, also one that cannot be compared."""
    try:
        text = described(value)
    except UnsupportedError:
        text = f"a {type(value).__module__}.{type(value).__qualname__}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({_digest(text.encode())})"


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()[:32]}"
