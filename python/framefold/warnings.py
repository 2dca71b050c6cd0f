"""Warnings that framefold gives."""

from __future__ import annotations


class ThreadsInsteadWarning(RuntimeWarning):
    """A run would be faster in worker processes, but something keeps it in this process."""


class LostDeviceWarning(RuntimeWarning):
    """A CUDA device was lost, and runs go on with the CPU and the other devices."""


class NotCompiledWarning(RuntimeWarning):
    """A function that is to be compiled runs in the interpreter, as Numba is not installed."""


class UseDiscouragedWarning(FutureWarning):
    """Something still works that new code should not use."""


class IgnoredReturnWarning(UserWarning):
    """A function returned something in place of writing it into result buffers."""


class DataSetWarning(UserWarning):
    """Something about a data set is odd, and no error; shown when it is opened."""


class MissingFramesWarning(UserWarning):
    """Positions of the scan that a run takes part in, or that are written, have no data."""


class NoIntensityWarning(UserWarning):
    """Frames whose centre of mass is exactly at the reference take part in a regression."""


class DetectorWarning(UserWarning):
    """A virtual detector or a mask covers no pixel, or has its centre outside of the frames."""


class UncalledMethodWarning(UserWarning):
    """A function processes data by an inherited method, and the one of its own is not called."""


class UnusedCorrectionsWarning(UserWarning):
    """A file brings corrections that are applied only if they are asked for."""
