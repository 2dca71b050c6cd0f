"""Every executor goes through the same contract, and so does one that is not framefold's."""

from __future__ import annotations

import pickle
import sys
import threading
from contextlib import ExitStack

import pytest
from executor_contract import (
    ExecutorContract,
    ctx,  # noqa: F401 - fixtures
    expected,  # noqa: F401
    inline,  # noqa: F401
    nothing_is_left,  # noqa: F401
    opened,  # noqa: F401
)
from executor_subjects import SUBJECTS, made
from process_cases import hard_limit  # noqa: F401 - a fixture

from framefold.exceptions import WorkerError
from framefold.executor._wire import code

if sys.platform != "linux":
    pytest.skip("looks at /proc, and uses signals", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("hard_limit")


@pytest.fixture(scope="module", params=SUBJECTS)
def subject(request):
    with ExitStack() as stack:
        yield made(request.param, stack)


class TestContract(ExecutorContract):
    pass


def test_code_that_cannot_be_made_is_an_error():
    sent = pickle.dumps(threading.Thread)
    python = sys.version_info[:2]
    assert code._made(sent, python) is threading.Thread
    with pytest.raises(WorkerError, match=r"it is of Python 2\.7"):
        code._made(sent, (2, 7))
    with pytest.raises(WorkerError, match=r"code cannot be made of what was sent .*Threat"):
        code._made(sent.replace(b"Thread", b"Threat"), python)
