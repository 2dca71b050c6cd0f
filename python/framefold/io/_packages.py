"""Packages that bring formats along."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

__all__ = ["GROUP", "formats_of_packages"]

#: The group of their entry points.
GROUP = "framefold.formats"


def formats_of_packages() -> EntryPoints:
    """The entry points of their formats; nothing of the packages is imported."""
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)
