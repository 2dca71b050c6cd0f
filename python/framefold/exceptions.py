"""Exceptions raised by framefold, sorted by who has to act.

Each class derives from :class:`FramefoldError` and from the builtin exception that callers
would expect. Exceptions from user code are not wrapped: they come back as themselves.
"""

from __future__ import annotations


class FramefoldError(Exception):
    """Base of all exceptions of framefold.

    Attributes
    ----------
    path : str or None
        The file concerned.
    hint : str or None
        The next step, if there is one.
    """

    path: str | None = None
    hint: str | None = None


class InvalidArgumentError(FramefoldError, ValueError):
    """The call cannot work: change the arguments."""


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument is missing, or there is none of that name, or it is something else altogether."""


class BadFileError(FramefoldError, ValueError):
    """A file is damaged, or is not what it claims to be."""


class FileChangedError(BadFileError):
    """A file was replaced or written to after its data set was opened: open it again."""


class ReadOnlyError(FramefoldError, TypeError):
    """Something was changed that only tells of a data set: the change would have no effect."""


class UnsupportedError(FramefoldError, NotImplementedError):
    """Valid input that framefold cannot process."""


class MissingLibraryError(FramefoldError, ImportError):
    """A library that framefold can do without is needed now: install it."""


class LimitError(FramefoldError, MemoryError):
    """A size limit was exceeded."""

    def __reduce__(self) -> tuple[type[LimitError], tuple[object, ...], dict[str, object]]:
        # Dask's way to send exceptions fails for those that derive from MemoryError.
        return type(self), self.args, self.__dict__


class DeviceError(FramefoldError, RuntimeError):
    """A CUDA device failed, or was lost earlier: use the CPU.

    Attributes
    ----------
    device : int or None
        The number of the device.
    """

    device: int | None = None


class FileAccessError(FramefoldError, OSError):
    """The operating system refused."""


class MissingFileError(FileAccessError, FileNotFoundError):
    """There is no such file."""


class UDFError(FramefoldError, RuntimeError):
    """A user-defined function broke one of the rules of the interface."""


class MissingMergeError(UDFError, NotImplementedError):
    """The results of a user-defined function need a ``merge`` of its own."""


class UndeclaredResultError(UDFError, KeyError):
    """A user-defined function returned a result that it did not declare."""

    # That of KeyError shows the message as a literal.
    __str__ = Exception.__str__


class InvalidResultError(UDFError, ValueError):
    """A user-defined function declared or returned something that cannot be a result."""


class UDFRunCancelled(FramefoldError, RuntimeError):  # noqa: N818 - the interface's own name
    """The run was cancelled on request."""


class WorkerError(FramefoldError, RuntimeError):
    """A worker process died, or could not be started."""


class WorkerTimeoutError(WorkerError, TimeoutError):
    """A partition took longer than the executor's ``timeout``."""


class EngineError(FramefoldError, RuntimeError):
    """framefold broke one of its own promises: please report it."""


#: The reference's names: of what goes wrong with a UDF, and of what is raised for an executor that
#: there is not.
UDFException = UDFError
ExecutorSpecException = InvalidArgumentError
