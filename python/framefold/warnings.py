"""Warnings that framefold gives."""

from __future__ import annotations


class UseDiscouragedWarning(FutureWarning):
    """Something still works that new code should not use."""
