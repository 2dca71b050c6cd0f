"""What goes to a worker process: in order, and without waiting until it is read.

A worker whose user code holds the GIL reads nothing. What does not fit into the channel meanwhile
is sent on a separate thread, so that the pool's thread goes on for all other workers, and ends this
one when its time is over.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from framefold.executor._processes.channels import Channel

#: How long the thread may take to notice that the channel is shut, in seconds.
PATIENCE = 5.0


class QueuedMessage(NamedTuple):
    """A message that waits until the channel has room for it."""

    #: Of the run that it belongs to.
    number: int
    #: What it is about: the first entry of the message.
    kind: str
    data: bytes
    #: Duplicates, which are closed once the message is sent.
    descriptors: list[int]


class Outgoing:
    """The way to one worker. Used by one thread.

    Parameters
    ----------
    channel
        To the worker.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._waiting: deque[QueuedMessage] = deque()
        self._thread: threading.Thread | None = None

    @property
    def is_held_up(self) -> bool:
        """Whether there is something that has not been sent."""
        return self._thread is not None

    def send(self, number: int, message: tuple[Any, ...], descriptors: Sequence[int] = ()) -> None:
        """Send a message of a run, now or later.

        Raises
        ------
        OSError
            If the worker is known to have ended.
        """
        data = Channel.packed(message, len(descriptors))
        if self._thread is None and self._channel.takes(len(data)):
            self._channel.send_packed(data, descriptors)
            return
        queued = QueuedMessage(number, message[0], data, [os.dup(each) for each in descriptors])
        with self._lock:
            self._waiting.append(queued)
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._go_on, name="ff-sending", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # there can be no more threads: it has to be waited for
                self._waiting.remove(queued)
            else:
                self._thread = thread
                return
        try:
            self._channel.send_packed(queued.data, queued.descriptors)
        finally:
            _close([queued])

    def withdraw(self, number: int) -> list[str]:
        """Send no more of a run; of each message that is left out, what it is about."""
        with self._lock:
            left_out = [queued for queued in self._waiting if queued.number == number]
            kept = [queued for queued in self._waiting if queued.number != number]
            self._waiting = deque(kept)
        _close(left_out)
        return [queued.kind for queued in left_out]

    def close(self) -> None:
        """Send nothing any more."""
        with self._lock:
            thread = self._thread
            left_out, self._waiting = self._waiting, deque()
        _close(left_out)
        if thread is not None:
            self._channel.shut()
            thread.join(PATIENCE)

    def disown(self) -> None:
        """In a fork, where the thread does not exist and the lock may be taken for ever."""
        _close(self._waiting)
        self._waiting.clear()

    def _go_on(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                queued = self._waiting.popleft()
            try:
                self._channel.send_packed(queued.data, queued.descriptors)
            except OSError:
                pass  # that the worker is gone is noticed where its messages are read
            except BaseException:
                self._channel.shut()  # or it would wait for the rest for ever
            finally:
                _close([queued])


def _close(messages: Iterable[QueuedMessage]) -> None:
    for queued in messages:
        for descriptor in queued.descriptors:
            os.close(descriptor)
