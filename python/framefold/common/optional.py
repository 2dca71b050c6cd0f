"""Libraries that only some features need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from framefold.exceptions import MissingLibraryError


def require(module: str, who: str, what_for: str) -> Any:
    """Import a library that framefold can do without.

    Parameters
    ----------
    module
        Its import path.
    who
        The feature that needs it, for the message.
    what_for
        What it is needed for.

    Raises
    ------
    MissingLibraryError
        If it is not installed; names the package to install.
    WorkerError
        If it starts threads, and the interpreter ends.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        root = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != root:
            raise  # the library is there; something that it needs itself is not
        package = {"PIL": "pillow", "skimage": "scikit-image", "sklearn": "scikit-learn"}.get(
            root, root
        )
        raise MissingLibraryError(
            f"{who} needs {package} for {what_for}, which is not installed; "
            f"install it with: pip install {package}"
        ) from error
    except RuntimeError as error:  # of libraries that start threads, or see to their ends
        from framefold.common._ending import (  # heavier than what is needed above
            is_ending,
            too_late,
        )

        if not is_ending():
            raise
        raise too_late(f"{who} cannot be used") from error
