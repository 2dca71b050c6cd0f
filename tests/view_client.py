"""A client of the viewer for tests: speaks its messages to a session of the engine."""

import io
import json
import time

import numpy as np

from framefold._viewer.viewing import host_of

#: Longer than an answer may take.
LIMIT = 120.0


class Client:
    """One client of the viewer of a data set."""

    def __init__(self, dataset, **options):
        self.session = host_of(dataset, **options).session()
        self._id = 0

    def send(self, **message):
        self.session.receive_text(json.dumps(message))

    def send_binary(self, header, payload):
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self.session.receive_bytes(b"FFV1" + len(text).to_bytes(4, "little") + text + payload)

    def next(self):
        """The next message: its header, and the bytes behind it."""
        message = self.session.next(LIMIT)
        assert message is not None, "no message within the limit"
        assert message is not False, "the session has ended"
        if isinstance(message, str):
            return json.loads(message), b""
        assert message[:4] == b"FFV1"
        end = 8 + int.from_bytes(message[4:8], "little")
        return json.loads(message[8:end]), message[end:]

    def wait_for(self, wanted):
        """The first message for which ``wanted(header)`` is true; errors are raised."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            header, payload = self.next()
            if wanted(header):
                return header, payload
            assert header["type"] != "error", header
        raise AssertionError("the message did not come")

    def request(self, **message):
        """What is answered to a message with an id."""
        self._id += 1
        self.send(id=self._id, **message)
        return self.wait_for(lambda header: header.get("id") == self._id)

    def hello(self):
        self.send(type="hello", version=1)
        return self.wait_for(lambda header: header["type"] == "hello")[0]

    def mask(self, name, weights):
        """The number of an array of weights that was sent."""
        weights = np.ascontiguousarray(weights, dtype="<f4")
        self._id += 1
        header = {"type": "mask", "id": self._id, "name": name, "dtype": "f32"}
        header["shape"] = list(weights.shape)
        self.send_binary(header, weights.tobytes())
        return self.wait_for(lambda header: header.get("id") == self._id)[0]["mask"]

    def file(self, **message):
        """Name and bytes of a file."""
        header, payload = self.request(**message)
        assert header["type"] == "file", header
        return header["name"], payload

    def array(self, query):
        """The exact answer to a query."""
        return np.load(io.BytesIO(self.file(type="export", query=query, format="npy")[1]))

    def pictures(self, pane, gen, wish="exact", **query):
        """All pictures of an answer: headers, each with its values as ``array``."""
        self.send(type="ask", pane=pane, gen=gen, wish=wish, precision="f64", query=query)
        found = []
        while True:
            header, payload = self.next()
            assert header["type"] != "error", header
            if header["type"] == "done" and header["pane"] == pane and header["gen"] == gen:
                return found
            if header["type"] == "picture":
                assert (header["pane"], header["gen"]) == (pane, gen)
                n_planes = len(header["planes"])
                shape = (*([n_planes] if n_planes > 1 else []), *header["shape"])
                found.append({**header, "array": np.frombuffer(payload, "<f8").reshape(shape)})
                self.send(type="ack", pane=pane, gen=gen)
