"""The viewer as a widget, at the level of the messages that a notebook carries."""

import gc
import json
import os
import subprocess
import sys
import threading
import time
import weakref
from typing import ClassVar

import numpy as np
import pytest
from view_client import LIMIT, Client

import framefold as ff
from framefold._viewer.connection import Connection
from framefold._viewer.viewing import host_of
from framefold.exceptions import (
    ArgumentTypeError,
    BadFileError,
    FramefoldError,
    InvalidArgumentError,
    MissingLibraryError,
)
from framefold.io.corrections import CorrectionSet
from framefold.io.dataset.npy import NPYDataSet

FRAMES = np.random.default_rng(11).poisson(4.0, (6, 7, 12, 14)).astype(np.uint16)


@pytest.fixture(scope="module")
def context():
    return ff.Context.make_with("inline")


@pytest.fixture
def dataset(context):
    return context.load("memory", data=FRAMES)


class Carrier:
    """What carries messages, as a widget does: keeps what was sent."""

    def __init__(self):
        self.sent = []
        self.more = threading.Condition()

    def send(self, content, buffers):
        with self.more:
            self.sent.append((content, buffers))
            self.more.notify_all()

    def wait_for(self, wanted):
        """The first message for which ``wanted(content, buffers)`` is true."""
        with self.more:
            done = self.more.wait_for(lambda: any(wanted(*each) for each in self.sent), LIMIT)
            assert done, self.sent
            return next(each for each in self.sent if wanted(*each))


def text(**message):
    return {"text": json.dumps(message)}


def is_hello(content, buffers):
    return json.loads(content.get("text", "{}")).get("type") == "hello"


def is_text(content, message):
    return json.loads(content.get("text", "{}")) == message


def pulling():
    return [t for t in threading.enumerate() if t.name == "framefold-view" and t.is_alive()]


def wait_until(true):
    until = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def no_thread_of_others():
    """Threads of the test before have ended."""
    wait_until(lambda: not pulling())


class TestConnection:
    def test_pictures_come_as_buffers(self, dataset):
        carrier = Carrier()
        connection = Connection(host_of(dataset), carrier.send)
        connection.receive(text(type="hello", version=1))
        content, _ = carrier.wait_for(is_hello)
        described = json.loads(content["text"])["description"]
        assert [axis["size"] for axis in described["nav"]] == [6, 7]
        query = {"channel": {"kind": "sum"}}
        ask = {"type": "ask", "pane": "scan", "gen": 1, "wish": "exact", "precision": "f64"}
        connection.receive(text(**ask, query=query))
        _, buffers = carrier.wait_for(lambda content, buffers: buffers)
        (message,) = buffers
        end = 8 + int.from_bytes(message[4:8], "little")
        assert json.loads(message[8:end])["state"] == "exact"
        found = np.frombuffer(message[end:], "<f8").reshape(6, 7)
        np.testing.assert_array_equal(found, FRAMES.sum(axis=(2, 3)))
        connection.close()

    def test_binary_messages_of_clients_arrive(self, dataset):
        carrier = Carrier()
        connection = Connection(host_of(dataset), carrier.send)
        header = {"type": "mask", "id": 5, "name": "m", "shape": [12, 14], "dtype": "f32"}
        header = json.dumps(header).encode()
        header += b" " * (-len(header) % 8)
        message = b"FFV1" + len(header).to_bytes(4, "little") + header
        message += np.ones((12, 14), "<f4").tobytes()
        connection.receive({}, [memoryview(message)])
        content, _ = carrier.wait_for(lambda content, _: "text" in content)
        answer = json.loads(content["text"])
        assert (answer["type"], answer["id"], answer["shape"]) == ("mask", 5, [12, 14])
        connection.close()

    def test_places_where_it_is_shown_have_sessions_of_their_own(self, dataset):
        carrier = Carrier()
        connection = Connection(host_of(dataset), carrier.send)
        for view in ("a", "b"):
            connection.receive({**text(type="hello", version=1), "view": view})
        for view in ("a", "b"):
            carrier.wait_for(lambda c, b, view=view: c.get("view") == view and is_hello(c, b))
        connection.receive({"view": "a", "ended": True})
        wait_until(lambda: len(pulling()) == 1)
        connection.receive({"view": "c", "ended": True})
        for i in range(40):
            connection.receive({**text(type="hello", version=1), "view": i})
        wait_until(lambda: len(pulling()) <= 16)
        connection.close()
        wait_until(lambda: not pulling())

    def test_a_page_that_is_loaded_again_begins_from_the_beginning(self, dataset):
        carrier = Carrier()
        connection = Connection(host_of(dataset), carrier.send)
        ask = {"type": "ask", "pane": "scan", "wish": "exact", "precision": "u8", "query": {}}
        for n in (1, 2, 3):
            connection.receive(text(type="hello", version=1))
            wait_until(lambda n=n: sum(is_hello(*each) for each in carrier.sent) == n)
            # Numbers of questions grow within a session: this one is answered by a new one alone.
            connection.receive(text(**ask, gen=4 - n))
            done = {"type": "done", "pane": "scan", "gen": 4 - n}
            carrier.wait_for(lambda content, _, done=done: is_text(content, done))
        wait_until(lambda: len(pulling()) == 1)
        assert not any("closed" in content for content, _ in carrier.sent)
        connection.close()

    def test_what_is_no_message_does_no_harm(self, dataset):
        carrier = Carrier()
        connection = Connection(host_of(dataset), carrier.send)
        for content in (None, [], "x", {"text": 3}, {"view": [], "text": "{}"}, {"other": 1}):
            connection.receive(content)
        assert not pulling()
        connection.receive({"text": "no JSON"})
        content, _ = carrier.wait_for(lambda content, _: "text" in content)
        assert json.loads(content["text"])["type"] == "error"
        connection.receive({}, [b"FFV1" + b"\xff" * 16])
        connection.receive(text(type="hello", version=1))
        carrier.wait_for(is_hello)
        connection.close()

    def test_closing_ends_threads(self, dataset):
        carrier = Carrier()
        connection = Connection(host_of(dataset), carrier.send)
        connection.receive(text(type="hello", version=1))
        carrier.wait_for(is_hello)
        assert len(pulling()) == 1
        connection.close()
        connection.close()
        wait_until(lambda: not pulling())
        n = len(carrier.sent)
        connection.receive(text(type="hello", version=1))
        assert not pulling()
        assert len(carrier.sent) == n

    def test_the_last_reference_ends_threads(self, dataset):
        carrier = Carrier()
        connection = Connection(host_of(dataset), carrier.send)
        connection.receive(text(type="hello", version=1))
        carrier.wait_for(is_hello)
        gone = weakref.ref(connection)
        del connection
        gc.collect()
        assert gone() is None
        wait_until(lambda: not pulling())

    def test_a_channel_that_breaks_ends_the_session(self, dataset):
        class Broken(Carrier):
            def send(self, content, buffers):
                raise RuntimeError("the channel is closed")

        carrier = Broken()
        connection = Connection(host_of(dataset), carrier.send)
        connection.receive(text(type="hello", version=1))
        wait_until(lambda: not pulling())
        connection.close()

    def test_waiting_takes_no_processor(self, dataset):
        carrier = Carrier()
        connection = Connection(host_of(dataset), carrier.send)
        connection.receive(text(type="hello", version=1))
        carrier.wait_for(is_hello)
        connection.receive(
            text(type="ask", pane="pattern", gen=1, wish="exact", precision="u8", query={})
        )
        carrier.wait_for(lambda c, _: json.loads(c.get("text", "{}")).get("type") == "done")
        # What is computed in the background for other pictures ends, too.
        begin = time.monotonic()
        while time.monotonic() - begin < LIMIT:
            before = time.process_time()
            time.sleep(1.0)
            taken = time.process_time() - before
            if taken < 0.005:
                break
        assert taken < 0.005, f"{taken} s of the processor in a second"
        connection.close()


class TestFunctions:
    def test_results_are_pictures_that_get_better(self, dataset, context):
        client = Client(dataset, udfs={"sum": ff.SumUDF(), "sig": ff.SumSigUDF()}, context=context)
        own = client.hello()["description"]["own"]
        assert own == [
            {"name": "sum", "nav": [], "sig": ["intensity"]},
            {"name": "sig", "nav": ["intensity"], "sig": []},
        ]
        channel = {"kind": "own", "name": "sum", "buffer": "intensity"}
        found = client.pictures("pattern", 1, channel=channel)
        np.testing.assert_array_equal(found[-1]["array"], FRAMES.sum(axis=(0, 1)))
        assert (found[-1]["state"], found[-1]["progress"]) == ("exact", 1.0)
        channel = {"kind": "own", "name": "sig", "buffer": "intensity"}
        found = client.pictures("scan", 1, channel=channel)
        np.testing.assert_array_equal(found[-1]["array"], FRAMES.sum(axis=(2, 3)))
        client.session.close()

    def test_buffers_with_several_numbers_are_several_pictures(self, dataset, context):
        masks = [lambda: np.ones((12, 14)), lambda: np.eye(12, 14)]
        udf = ff.ApplyMasksUDF(mask_factories=masks)
        client = Client(dataset, udfs={"masks": udf}, context=context)
        (own,) = client.hello()["description"]["own"]
        assert own["nav"] == ["intensity[0]", "intensity[1]"]
        channel = {"kind": "own", "name": "masks", "buffer": "intensity[1]"}
        found = client.pictures("scan", 1, channel=channel)[-1]["array"]
        expected = np.einsum("yxij,ij->yx", FRAMES, np.eye(12, 14))
        np.testing.assert_array_equal(found, expected)
        client.session.close()

    def test_what_was_not_processed_yet_is_no_number(self, context):
        gate = threading.Event()
        started = threading.Event()

        class Slow(ff.UDF):
            def get_result_buffers(self):
                # Of floats, what is not there is NaN in the buffer, too.
                return {"value": self.buffer(kind="nav", dtype="int64")}

            def process_frame(self, frame):
                # The first rows take longer than a picture waits for the next one.
                time.sleep(0.03)
                if self.meta.coordinates[0][0] >= 3:
                    started.set()
                    assert gate.wait(LIMIT)
                self.results.value[:] = frame.sum()

        dataset = context.load("memory", data=FRAMES, num_partitions=6)
        client = Client(dataset, udfs={"slow": Slow()}, context=context)
        channel = {"kind": "own", "name": "slow", "buffer": "value"}
        client.send(
            type="ask",
            pane="scan",
            gen=1,
            wish="exact",
            precision="f64",
            query={"channel": channel},
        )
        expected = FRAMES.sum(axis=(2, 3))
        header, payload = client.wait_for(lambda h: h["type"] == "picture")
        gate.set()
        found = np.frombuffer(payload, "<f8").reshape(6, 7)
        known = np.isfinite(found)
        np.testing.assert_array_equal(found[known], expected[known])
        assert header["state"] == "partial"
        assert 0 < known.sum() <= 21
        assert header["progress"] == known.mean()
        assert started.wait(LIMIT)
        client.session.close()

    def test_another_question_stops_the_run(self, context):
        state = {"frames": 0}
        started = threading.Event()

        class Endless(ff.UDF):
            def get_result_buffers(self):
                return {"value": self.buffer(kind="nav", dtype="float32")}

            def process_frame(self, frame):
                state["frames"] += 1
                started.set()
                time.sleep(0.02)

        data = np.zeros((100, 100, 4, 4), np.uint8)
        dataset = context.load("memory", data=data, num_partitions=2)
        client = Client(dataset, udfs={"endless": Endless()}, context=context)
        channel = {"kind": "own", "name": "endless", "buffer": "value"}
        ask = {"type": "ask", "pane": "scan", "wish": "exact", "precision": "u8"}
        client.send(**ask, gen=1, query={"channel": channel})
        assert started.wait(LIMIT)
        found = client.pictures("scan", 2, channel={"kind": "sum"})
        assert (found[-1]["array"] == 0).all()
        wait_until(lambda: _stands_still(state))
        assert state["frames"] < 5000
        client.session.close()

    def test_errors_of_functions_are_shown(self, dataset, context):
        class Bad(ff.UDF):
            def get_result_buffers(self):
                return {"value": self.buffer(kind="nav", dtype="float32")}

            def process_frame(self, frame):
                raise ValueError("on purpose")

        client = Client(dataset, udfs={"bad": Bad()}, context=context)
        channel = {"kind": "own", "name": "bad", "buffer": "value"}
        client.send(
            type="ask",
            pane="scan",
            gen=3,
            wish="exact",
            precision="u8",
            query={"channel": channel},
        )
        header, _ = client.next()
        assert (header["type"], header["pane"], header["gen"]) == ("error", "scan", 3)
        assert "'bad'" in header["message"]
        assert "on purpose" in header["message"]
        # The session goes on.
        assert len(client.pictures("pattern", 4)) >= 1
        client.session.close()

    def test_what_is_no_function_is_refused(self, dataset, context):
        with pytest.raises(ArgumentTypeError, match="pass a dict"):
            host_of(dataset, [ff.SumUDF()], context=context)
        with pytest.raises(ArgumentTypeError, match="'a'"):
            host_of(dataset, {"a": np.sum}, context=context)

        class Single(ff.UDF):
            def get_result_buffers(self):
                return {"n": self.buffer(kind="single", dtype="int64")}

            def process_frame(self, frame):
                self.results.n[:] += 1

        with pytest.raises(InvalidArgumentError, match="no result that is a picture"):
            host_of(dataset, {"single": Single()}, context=context)


def _stands_still(state):
    before = state["frames"]
    time.sleep(0.2)
    return state["frames"] == before


def test_files_are_opened_again_with_another_scan(context, tmp_path):
    path = tmp_path / "scan.npy"
    np.save(path, FRAMES)
    client = Client(context.load("npy", path).pipe("bin 2"))
    client.hello()
    header, _ = client.request(type="open", nav_shape=[7, 6])
    assert header["type"] == "hello", header
    assert [axis["size"] for axis in header["description"]["nav"]] == [7, 6]
    binned = FRAMES.reshape(7, 6, 6, 2, 7, 2).sum(axis=(3, 5))
    found = client.pictures("pattern", 1, channel={"kind": "max"})[-1]["array"]
    np.testing.assert_array_equal(found, binned.max(axis=(0, 1)))
    _, script = client.file(type="script", form="script", queries=[{"pane": "scan"}], state=None)
    assert b"nav_shape=(7, 6)" in script
    client.session.close()


@pytest.mark.filterwarnings("ignore::framefold.warnings.DataSetWarning")
def test_a_scan_that_was_asked_for_is_in_the_state(context, tmp_path):
    path = tmp_path / "scan.npy"
    np.save(path, FRAMES)
    for options, nav_shape, sync_offset in (
        ({}, None, None),
        ({"nav_shape": (7, 5)}, [7, 5], None),
        ({"nav_shape": (7, 5), "sync_offset": 3}, [7, 5], 3),
    ):
        client = Client(context.load("npy", path, **options).pipe("bin 2"))
        opened = client.hello()["opened"]
        assert opened == {"file": None, "nav_shape": nav_shape, "sync_offset": sync_offset}
        client.session.close()
    client = Client(context.load("npy", path, nav_shape=(7, 5), sync_offset=3))
    client.hello()
    header, _ = client.request(type="open", nav_shape=[5, 7])
    assert header["opened"] == {"file": None, "nav_shape": [5, 7], "sync_offset": 3}
    found = client.pictures("scan", 1, channel={"kind": "sum"})[-1]["array"]
    np.testing.assert_array_equal(found.ravel(), FRAMES.sum(axis=(2, 3)).ravel()[3:38])
    client.session.close()


def test_data_in_memory_keep_their_scan(dataset):
    client = Client(dataset)
    client.hello()
    client.send(type="open", id=4, nav_shape=[7, 6])
    header, _ = client.next()
    assert (header["type"], header["id"]) == ("error", 4)
    assert "memory" in header["message"]
    client.session.close()


def test_corrections_of_a_data_set_are_applied(dataset, monkeypatch):
    own = CorrectionSet(dark=np.full((12, 14), 2.0))
    monkeypatch.setattr(type(dataset), "get_correction_data", lambda self: own)
    client = Client(dataset)
    found = client.pictures("scan", 1, channel={"kind": "sum"})[-1]["array"]
    np.testing.assert_array_equal(found, (FRAMES - 2.0).sum(axis=(2, 3)))
    client.session.close()


def test_a_class_corrects_frames_of_any_scan(tmp_path):
    class Dark(NPYDataSet):
        def __init__(self, path, level):
            super().__init__(path)
            self.level = level

        def get_correction_data(self):
            return CorrectionSet(dark=np.full((12, 14), self.level))

    np.save(tmp_path / "scan.npy", FRAMES)
    client = Client(Dark(tmp_path / "scan.npy", 2.0))
    client.hello()
    client.request(type="open", nav_shape=[7, 6])
    found = client.array({"pane": "scan", "channel": {"kind": "sum"}})
    np.testing.assert_array_equal(found, (FRAMES - 2.0).sum(axis=(2, 3)).reshape(7, 6))
    # A script does not know the class.
    _, script = client.file(type="script", form="script", queries=[], state=None)
    assert b"take this line out: corrections that were given in Python" in script
    client.session.close()


def test_files_that_have_changed_and_odd_budgets_are_refused(context, dataset, tmp_path):
    path = tmp_path / "scan.npy"
    np.save(path, FRAMES)
    opened = context.load("npy", path)
    np.save(path, FRAMES[:2])
    with pytest.raises(BadFileError, match=r"scan\.npy"):
        host_of(opened)
    with pytest.raises(FramefoldError, match="budget"):
        host_of(dataset, budget="much")


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are UTF-8 there")
def test_names_that_are_not_utf_8(context, tmp_path):
    path = tmp_path / os.fsdecode(b"\xff\xfe.npy")
    np.save(tmp_path / "a.npy", FRAMES)
    (tmp_path / "a.npy").rename(path)
    client = Client(context.load("npy", path))
    assert client.hello()["description"]["name"] == "\ufffd\ufffd.npy"
    name, script = client.file(type="script", form="script", queries=[], state=None)
    assert name == "__-view.py"
    assert os.fsencode(path).removesuffix(b"\xff\xfe.npy") + rb"\udcff\udcfe.npy" in script
    client.session.close()


class TestWidget:
    @pytest.fixture(autouse=True)
    def _library(self):
        pytest.importorskip("anywidget")

    @pytest.fixture
    def channel(self, monkeypatch):
        """A channel of a notebook that keeps what a widget sends."""
        import comm

        class Channel(comm.base_comm.BaseComm, Carrier):
            made: ClassVar = []

            def __init__(self, **options):
                Carrier.__init__(self)
                Channel.made.append(self)
                super().__init__(**options)

            def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
                Carrier.send(self, {"type": msg_type, **(data or {})}, buffers or [])

            send = comm.base_comm.BaseComm.send

        monkeypatch.setattr(comm, "create_comm", Channel)
        return Channel

    def custom(self, channel, wanted):
        """The first message of a widget's own for which ``wanted(content, buffers)`` is true."""

        def is_custom(data, buffers):
            return data.get("method") == "custom" and wanted(data["content"], buffers)

        data, buffers = channel.wait_for(is_custom)
        return data["content"], buffers

    def test_it_answers_its_page(self, dataset, context, channel):
        widget = ff.view(dataset, {"sum": ff.SumUDF()}, context=context)
        # Its layout is a widget, too.
        (made,) = [each for each in channel.made if "_esm" in each.sent[0][0]["state"]]
        state = made.sent[0][0]["state"]
        assert state["_esm"].startswith(("/", "var", "import", "const", "(", "function"))
        assert "render" in state["_esm"]
        assert ".ffv" in state["_css"]
        content = {"text": json.dumps({"type": "hello", "version": 1})}
        message = {"content": {"data": {"method": "custom", "content": content}}, "buffers": []}
        made.handle_msg(message)
        hello = json.loads(self.custom(made, is_hello)[0]["text"])
        assert hello["description"]["own"][0]["name"] == "sum"
        widget.close()
        wait_until(lambda: not pulling())

    def test_it_has_the_one_page(self, channel):
        from framefold import _engine
        from framefold._viewer.widget import ViewerWidget

        script, style = _engine.viewer_page()
        assert (ViewerWidget._esm, ViewerWidget._css) == (script, style) or script in str(
            ViewerWidget._esm
        )

    def test_what_is_no_data_set_is_refused(self):
        with pytest.raises(ArgumentTypeError, match=r"ff\.Context\(\)\.open"):
            ff.view("scan.mib")


def test_without_anywidget_it_says_what_to_install(dataset, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(MissingLibraryError, match="pip install"):
        ff.view(dataset)


def test_interpreters_end_while_a_client_waits(tmp_path):
    """Threads that wait for messages, and one that runs a function, do not keep a program alive."""
    program = """
import json, threading, time
import numpy as np
import framefold as ff
from framefold._viewer.connection import Connection
from framefold._viewer.viewing import host_of

class Slow(ff.UDF):
    def get_result_buffers(self):
        return {"value": self.buffer(kind="nav", dtype="float32")}
    def process_frame(self, frame):
        begun.set()
        time.sleep(0.01)

class Carrier:
    def send(self, content, buffers):
        pass

begun = threading.Event()
context = ff.Context.make_with("inline")
dataset = context.load("memory", data=np.zeros((100, 100, 4, 4)))
carrier = Carrier()
connection = Connection(host_of(dataset, {"slow": Slow()}, context=context), carrier.send)
connection.receive({"text": json.dumps({"type": "hello", "version": 1})})
query = {"channel": {"kind": "own", "name": "slow", "buffer": "value"}}
connection.receive({"text": json.dumps({"type": "ask", "pane": "scan", "gen": 1,
    "wish": "exact", "precision": "u8", "query": query})})
assert begun.wait(60)
print("ends")
"""
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env={**os.environ},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")
    assert time.monotonic() - begin < 60
