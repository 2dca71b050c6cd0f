"""The stub of the classes of formats, made from the engine's table.

Run it to write the stub again: ``python tests/format_stubs.py``.
"""

from __future__ import annotations

from inspect import Parameter, signature
from pathlib import Path

from framefold.io.dataset import _factory

STUB = Path(_factory.__file__).with_name("_classes.pyi")

HEAD = """\
# Made by tests/format_stubs.py from the table of formats; do not edit.

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy.typing as npt

from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset._file import FileDataSet
"""


def text() -> str:
    """The stub as it has to be."""
    parts = [HEAD]
    for name, cls in _factory.built_in().items():
        lines = [
            f"class {name}({cls.__bases__[0].__name__}):",
            "    def __init__(",
            "        self,",
        ]
        named = False
        for parameter in signature(cls).parameters.values():
            if parameter.kind is Parameter.KEYWORD_ONLY and not named:
                named = True
                lines.append("        *,")
            default = "" if parameter.default is Parameter.empty else f" = {_shown(parameter)}"
            lines.append(f"        {parameter.name}: {parameter.annotation}{default},")
        parts.append("\n".join([*lines, "    ) -> None: ...", ""]))
    return "\n".join(parts)


def _shown(parameter: Parameter) -> str:
    default = parameter.default
    return f'"{default}"' if isinstance(default, str) else repr(default)


if __name__ == "__main__":
    STUB.write_text(text())
