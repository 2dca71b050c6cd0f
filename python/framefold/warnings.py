"""Warnings that framefold gives."""

from __future__ import annotations


class ThreadsInsteadWarning(RuntimeWarning):
    """A run would be faster in worker processes, but something keeps it in this process."""


class UseDiscouragedWarning(FutureWarning):
    """Something still works that new code should not use."""


class MissingFramesWarning(UserWarning):
    """Positions of the scan without data were written as NaN or 0."""


class UnusedCorrectionsWarning(UserWarning):
    """A file brings corrections that are applied only if they are asked for."""
