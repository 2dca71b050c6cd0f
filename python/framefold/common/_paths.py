"""Paths that callers pass."""

from __future__ import annotations

import os
from typing import Any

from framefold.exceptions import ArgumentTypeError, InvalidArgumentError


def as_words(path: str | os.PathLike[str]) -> str:
    """A path as text for any file: what is not of UTF-8 as `ascii` has it."""
    return os.fspath(path).encode("utf-8", "backslashreplace").decode()


def absolute(path: str | os.PathLike[str]) -> str:
    """The same path from any current folder.

    Unlike :func:`os.path.abspath`, it leaves ``..`` to the system: behind a link to a folder, that
    is the folder around what the link leads to.
    """
    text = os.fspath(path)
    if os.pardir not in text:
        return os.path.abspath(text)
    from pathlib import Path

    return str(Path(text).absolute())


def path_text(name: str, value: Any) -> str:
    """A path as text: a str, bytes, or what has ``__fspath__``, such as :class:`pathlib.Path`.

    Parameters
    ----------
    name
        Of the argument, for the message.
    value
        What was passed.

    Raises
    ------
    ArgumentTypeError
        If it is anything else.
    InvalidArgumentError
        If no file can have that name.
    """
    if not isinstance(value, str | bytes | os.PathLike):
        raise ArgumentTypeError(
            f"{name} is {value!r}, of type {type(value).__name__}, expected the path of a file: a "
            f"str or a pathlib.Path"
        )
    text = os.fsdecode(value)
    try:
        is_name = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise InvalidArgumentError(
            f"{name} is {text!r}, which has characters that no name of a file has; leave NUL and "
            f"lone surrogates out"
        )
    return text
