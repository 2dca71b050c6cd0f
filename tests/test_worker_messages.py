"""What goes between the main process and its workers: messages, and code in them."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
import tracemalloc

import pytest
from process_cases import open_files
from sample_udfs import Level

from framefold.executor._processes import channels
from framefold.executor._processes.channels import TOGETHER, Channel, Connection, over_socket
from framefold.executor._processes.slots import MappedSlots, Slots
from framefold.executor._wire import code, pickles


@pytest.fixture
def ends():
    if not channels.CAN_SHARE:
        pytest.skip("descriptors cannot be sent")
    sockets = socket.socketpair()
    both = [Channel(Connection(os.dup(each.fileno())), each) for each in sockets]
    yield both
    for channel in both:
        channel.close()


def memory():
    return [name for name in open_files() if "memfd:framefold" in name]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("n_sent", [0, 1, 2])
def test_descriptors_of_a_message_that_ends_early_are_closed(ends, n_sent):
    ours, theirs = ends
    before = memory()
    descriptor = pickles.allocate(100)
    # A worker that is killed may have sent the message, and some of its descriptors.
    theirs.connection.send_bytes(pickle.dumps((("done",), 3)))
    for _ in range(n_sent):
        socket.send_fds(theirs._carrier, [b"d"], [descriptor])
    os.close(descriptor)
    theirs.close()
    with pytest.raises((EOFError, OSError)):
        ours.receive()
    assert memory() == before


def test_descriptors_arrive_with_their_message(ends):
    ours, theirs = ends
    descriptor = pickles.allocate(100)
    os.pwrite(descriptor, b"what was written", 0)
    theirs.send(("done", 3), [descriptor, descriptor])
    os.close(descriptor)
    message, received = ours.receive()
    assert message == ("done", 3)
    assert [os.pread(each, 16, 0) for each in received] == [b"what was written"] * 2
    for each in received:
        os.close(each)


@pytest.mark.parametrize("n_bytes", [0, 1, TOGETHER, TOGETHER + 1, 5_000_000])
def test_messages_of_any_length_arrive_whole(ends, n_bytes):
    ours, theirs = ends
    data = os.urandom(n_bytes)
    sending = threading.Thread(target=lambda: [theirs.send((data, n)) for n in range(3)])
    sending.start()
    assert [ours.receive() for _ in range(3)] == [((data, n), []) for n in range(3)]
    sending.join()
    theirs.close()
    theirs.close()
    for end, error in ((ours, EOFError), (theirs, OSError)):
        with pytest.raises(error):
            end.receive()
    with pytest.raises(OSError, match="closed"):
        theirs.send(("more",))


@pytest.mark.skipif(sys.platform == "win32", reason="messages go over pipes")
def test_time_limits_of_other_sockets_do_not_hold():
    socket.setdefaulttimeout(0.01)
    try:
        ours, theirs = (over_socket(each, Channel) for each in socket.socketpair())
    finally:
        socket.setdefaulttimeout(None)
    late = threading.Timer(0.2, theirs.send, [("late",)])
    late.start()
    try:
        assert ours.receive() == (("late",), [])
    finally:
        late.join()
        ours.close()
        theirs.close()


def test_a_long_message_is_in_memory_once(ends):
    ours, theirs = (end.connection for end in ends)
    data = bytes(32 << 20)
    sending = threading.Thread(target=theirs.send_bytes, args=(data,))
    tracemalloc.start()
    try:
        sending.start()
        received = ours.recv_bytes()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    sending.join()
    assert received == data
    assert peak < 1.5 * len(data)


def test_code_that_is_pickled_at_the_same_time_stays_as_it_is():
    expected, _ = pickles.dumps_by_value(Level, share=False)
    assert expected == pickle.dumps(Level, 5)
    stop = threading.Event()
    n_sent = 0

    def send():
        nonlocal n_sent
        while not stop.is_set():
            pickles.dumps_by_value(code.sent(Level), share=False)
            n_sent += 1

    other = threading.Thread(target=send)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    other.start()
    try:
        others = {pickles.dumps_by_value(Level, share=False)[0] for _ in range(4000)}
    finally:
        stop.set()
        other.join()
        sys.setswitchinterval(interval)
    assert n_sent
    assert others == {expected}


def test_slots_that_are_too_small_are_given_up_on_both_sides():
    if not channels.CAN_SHARE:
        pytest.skip("memory cannot be shared")
    ours, theirs = MappedSlots(), Slots()
    for n_bytes in (100, 50, 10_000, 1_000_000, 2_000_000):
        content = bytes(range(50)) * (n_bytes // 50)
        filled, descriptors = theirs.fill([memoryview(content)])
        lent, ((start, length),) = ours.lend(filled, descriptors)
        assert lent[start : start + length].tobytes() == content
        del lent
        theirs.release(ours.returned())
        assert len(ours._memory) == 1
