"""Workers in other processes say what they will be given next, so that it can be read ahead."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from framefold.executor._processes.serving import Server


class Works:
    """In the place of a plan: asks what comes next while it has a partition."""

    def __init__(self):
        self.seen = []

    def work(self, take, give, upcoming):
        while (index := take()) is not None:
            self.seen.append((index, upcoming(), upcoming()))
            give(SimpleNamespace(partition=index, len_bytes=1, take_parts=list))


def test_a_worker_process_knows_what_it_has_received():
    server, plan = Server(channel=None), Works()
    job = SimpleNamespace(
        sent=0.0,
        place=None,
        slots=SimpleNamespace(release=lambda free: None),
        run=SimpleNamespace(plan=plan),
        send=lambda: None,
        put=lambda partial: None,
    )
    server._jobs[7] = job
    for index in (3, 1, 5):
        server._inbox.put((("task", 7, index, []), []))
    # Parameters that change come before what is processed with them.
    server._inbox.put((("update", 7, b""), []))
    server._inbox.put((("task", 7, 8, []), []))
    server._process(7, server._next()[0])
    assert plan.seen == [(3, 1, 1), (1, 5, 5), (5, None, None)]
    assert server._next()[0][0] == "update", "nothing is lost"
    # A partition of another run is not one of this.
    server._inbox.put((("task", 9, 0, []), []))
    server._process(7, server._next()[0])
    assert plan.seen[3:] == [(8, None, None)]
    assert server._next()[0][:3] == ("task", 9, 0)


@pytest.mark.parametrize("following", [("end",), ("drop", 7), ("update", 7, b"")])
def test_an_error_between_two_partitions_is_that_of_the_next_one_if_there_is_one(following):
    """As where results cannot be sent any more, since the main process has gone away."""
    sent = []
    server = Server(SimpleNamespace(send=sent.append))

    def fail(take, give, upcoming):
        take()
        give(SimpleNamespace(partition=3))
        raise BrokenPipeError

    server._jobs[7] = SimpleNamespace(
        sent=0.0,
        place=None,
        slots=SimpleNamespace(release=lambda free: None),
        run=SimpleNamespace(plan=SimpleNamespace(work=fail)),
        send=lambda: None,
        put=lambda partial: None,
    )
    for message in [("task", 7, 3, []), ("task", 7, 5, []), ("task", 7, 3, []), following]:
        server._inbox.put((message, []))
    server._process(7, server._next()[0])
    server._process(7, server._next()[0])
    assert [message[:3] for message in sent] == [("failed", 7, 5), ("failed", 7, None)]
    assert server._next()[0] == following


def test_a_dask_worker_knows_the_rest_of_its_batch():
    pytest.importorskip("distributed")
    from framefold.executor._dask.work import Answer, ShippedRun

    run, plan, answer = ShippedRun("1", None, None), Works(), Answer()
    run._run = SimpleNamespace(plan=plan)
    run._process([4, 2, 6], (60.0, 1 << 30), answer, None)
    assert plan.seen == [(4, 2, 2), (2, 6, 6), (6, None, None)]
    assert [result[0] for result in answer.results] == [4, 2, 6]
    # A batch whose time is over ends with the partition at hand.
    run._process([1, 3], (-1.0, 1 << 30), Answer(), None)
    assert plan.seen[3:] == [(1, None, None)]
