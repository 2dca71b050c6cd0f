"""The widget in a kernel of Jupyter's: messages go over its channels, as from a notebook's page."""

import json
import time
from importlib.util import find_spec

import numpy as np
import pytest
from own_kernels import own_sockets
from view_client import LIMIT

# Importing them takes a second, which only the process that runs these tests has to spend.
MISSING = [
    name for name in ("anywidget", "ipykernel", "nbclient", "nbformat") if find_spec(name) is None
]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {' '.join(MISSING)}")

CODE = """
import numpy as np
import framefold as ff

ctx = ff.Context.make_with("inline")
frames = np.arange(4 * 5 * 6 * 7, dtype=np.uint16).reshape(4, 5, 6, 7)
dataset = ctx.load("memory", data=frames)
widget = ff.view(dataset, {"total": ff.SumSigUDF()}, context=ctx)
widget
"""
FRAMES = np.arange(4 * 5 * 6 * 7, dtype=np.uint16).reshape(4, 5, 6, 7)


@pytest.fixture(scope="module")
def kernel():
    from jupyter_client.manager import KernelManager

    with own_sockets() as config:
        manager = KernelManager(kernel_name="python3", config=config)
        manager.start_kernel()
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=LIMIT)
        yield client
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture
def config():
    with own_sockets() as config:
        yield config


class Page:
    """What a notebook's page does with the messages of a kernel."""

    def __init__(self, client):
        self.client = client

    def run(self, code):
        """Execute a cell; all messages that it caused."""
        sent = self.client.execute(code)
        found = []
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            message = self.client.get_iopub_msg(timeout=LIMIT)
            assert message["msg_type"] != "error", message["content"]["traceback"]
            found.append(message)
            if (
                message["msg_type"] == "status"
                and message["content"]["execution_state"] == "idle"
                and message["parent_header"].get("msg_id") == sent
            ):
                return found
        raise AssertionError("the cell did not end")

    def send(self, comm_id, **message):
        content = {"view": "a", "text": json.dumps(message)}
        data = {"method": "custom", "content": content}
        session = self.client.session
        self.client.shell_channel.send(session.msg("comm_msg", {"comm_id": comm_id, "data": data}))

    def wait_for(self, comm_id, wanted):
        """The first message of a widget's own for which ``wanted(content, buffers)`` is true."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            message = self.client.get_iopub_msg(timeout=LIMIT)
            if message["msg_type"] != "comm_msg" or message["content"]["comm_id"] != comm_id:
                continue
            data = message["content"]["data"]
            if data.get("method") != "custom":
                continue
            assert data["content"]["view"] == "a"
            if wanted(data["content"], message["buffers"]):
                return data["content"], message["buffers"]
        raise AssertionError("the message did not come")


def type_of(content):
    return json.loads(content.get("text", "{}")).get("type")


def test_pictures_come_over_the_channels_of_the_kernel(kernel):
    page = Page(kernel)
    messages = page.run(CODE)
    (opened,) = [
        message["content"]
        for message in messages
        if message["msg_type"] == "comm_open" and "_esm" in message["content"]["data"]["state"]
    ]
    shown = [m["content"] for m in messages if m["msg_type"] == "execute_result"]
    assert "application/vnd.jupyter.widget-view+json" in shown[0]["data"]
    comm_id = opened["comm_id"]
    page.send(comm_id, type="hello", version=1)
    content, _ = page.wait_for(comm_id, lambda content, _: type_of(content) == "hello")
    assert json.loads(content["text"])["description"]["own"][0]["name"] == "total"
    for gen, (channel, expected) in enumerate(
        [
            ({"kind": "sum"}, FRAMES.sum(axis=(2, 3))),
            ({"kind": "own", "name": "total", "buffer": "intensity"}, FRAMES.sum(axis=(2, 3))),
            ({"kind": "max"}, FRAMES.max(axis=(2, 3))),
        ]
    ):
        page.send(
            comm_id,
            type="ask",
            pane="scan",
            gen=gen,
            wish="exact",
            precision="f64",
            query={"channel": channel},
        )
        message = b""
        while b'"exact"' not in message:
            _, buffers = page.wait_for(comm_id, lambda _, buffers: buffers)
            message = bytes(buffers[0])
            page.send(comm_id, type="ack", pane="scan", gen=gen)
        end = 8 + int.from_bytes(message[4:8], "little")
        found = np.frombuffer(message[end:], "<f8").reshape(4, 5)
        np.testing.assert_array_equal(found, expected)
    names = "[t.name for t in __import__('threading').enumerate()]"
    page.run(f"assert 'framefold-view' in {names}")
    page.run("widget.close()")
    page.run(
        f"import time\nfor _ in range(6000):\n    if 'framefold-view' not in {names}: break\n"
        f"    time.sleep(0.01)\nelse: raise AssertionError('a thread is left')"
    )


def test_notebooks_with_the_widget_run_from_top_to_bottom(config):
    import nbclient
    import nbformat

    cells = [
        nbformat.v4.new_code_cell(CODE),
        nbformat.v4.new_code_cell("widget.close()"),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    options = {"timeout": LIMIT, "kernel_name": "python3", "config": config}
    done = nbclient.NotebookClient(notebook, **options).execute()
    (output,) = done.cells[0].outputs
    assert "application/vnd.jupyter.widget-view+json" in output["data"]
    # The one module and its style are in it, and nothing is loaded from elsewhere.
    state = done.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    (widget,) = [each["state"] for each in state.values() if "_esm" in each["state"]]
    assert "render" in widget["_esm"]


def test_exported_notebooks_run_in_a_kernel(tmp_path, monkeypatch, config):
    pytest.importorskip("matplotlib")
    # The kernel has pictures in its output, unless the environment says another place.
    monkeypatch.delenv("MPLBACKEND", raising=False)
    import nbclient
    import nbformat
    from view_client import Client

    import framefold as ff

    path = tmp_path / "scan.npy"
    np.save(path, FRAMES)
    client = Client(ff.Context.make_with("inline").load("npy", path))
    query = {"pane": "scan", "channel": {"kind": "max"}}
    _, content = client.file(type="script", form="notebook", queries=[query], state=None)
    notebook = nbformat.reads(content.decode(), as_version=4)
    runner = nbclient.NotebookClient(
        notebook,
        timeout=LIMIT,
        kernel_name="python3",
        config=config,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    done = runner.execute()
    np.testing.assert_array_equal(np.load(tmp_path / "scan-scan.npy"), FRAMES.max(axis=(2, 3)))
    pictures = [
        output
        for cell in done.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 1
    client.session.close()
