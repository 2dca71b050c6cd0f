"""Only the user who started a local Dask cluster reaches it, from here or elsewhere."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from contextlib import suppress
from datetime import datetime, timedelta

import pytest
from process_cases import (
    PerFrame,
    eventually,
    frames,
    hard_limit,  # noqa: F401 - a fixture
)

pytest.importorskip("distributed")

import dask
import distributed
import psutil
from dask_cases import connected_to, local_processes

import framefold as ff
from framefold.exceptions import InvalidArgumentError, MissingLibraryError
from framefold.executor._dask import security as dask_security
from framefold.executor.dask import DaskJobExecutor, cluster_spec

if sys.platform != "linux":
    pytest.skip("looks at sockets of other processes", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("hard_limit")

#: What another user of this machine has: an interpreter, and certificates of his own making.
STRANGER = """
import socket, ssl, sys

port = int(sys.argv[1])


def hears(connection):
    try:
        connection.sendall(b"GET /info HTTP/1.0\\r\\n\\r\\n")
        return connection.recv(1)
    except (OSError, EOFError):
        return b""


context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
for wrap in (lambda plain: plain, context.wrap_socket):
    with socket.create_connection(("127.0.0.1", port), 5) as plain:
        try:
            connection = wrap(plain)
        except OSError as error:
            print("refused", error)
            continue
        print("heard", hears(connection))
"""


def listening(process):
    """Where a process accepts connections from the network."""
    connections = psutil.Process(process).net_connections("inet")
    return {each.laddr for each in connections if each.status == psutil.CONN_LISTEN}


def children():
    return {process.pid for process in psutil.Process().children(recursive=True)}


class Watched:
    """A cluster, and all addresses on which its processes listen."""

    def __init__(self, **options):
        before, others = listening(os.getpid()), children()
        self.context = ff.Context(executor=DaskJobExecutor.make_local(**options))
        try:
            executor = self.context.executor
            data = frames(self.context, n_partitions=2)
            self.context.run_udf(data, PerFrame(len_of_nothing))
            assert eventually(lambda: executor.n_workers == len(executor.client.cluster.workers))
            self.processes = children() - others
            self.here = listening(os.getpid()) - before
            self.elsewhere = set().union(*map(listening, self.processes))
        except BaseException:
            self.context.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


def len_of_nothing(_number):
    return 0


@pytest.fixture(scope="module")
def closed():
    with Watched(spec=cluster_spec(2)) as cluster:
        yield cluster


def test_it_listens_on_the_loopback_interface_alone(closed):
    addresses = closed.here | closed.elsewhere
    assert {address.ip for address in addresses} == {"127.0.0.1"}
    # The scheduler, and two workers; HTTP nowhere.
    assert (len(closed.here), len(closed.elsewhere)) == (1, 2)


def test_no_connection_from_another_address(closed):
    # The second one belongs to the same interface, but reaches what listens on all of them.
    for address in (socket.gethostname(), "127.0.0.2"):
        try:
            ip = socket.gethostbyname(address)
        except OSError:
            continue
        for place in closed.here | closed.elsewhere:
            if ip == place.ip:
                continue
            with pytest.raises(OSError, match="refused"):
                socket.create_connection((ip, place.port), 5)


def test_another_user_is_sent_away(closed):
    someone = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    assert closed.here | closed.elsewhere
    for place in closed.here | closed.elsewhere:
        code = [sys.executable, "-I", "-S", "-c", STRANGER, str(place.port)]
        try:
            said = subprocess.run(code, capture_output=True, text=True, timeout=40, **someone)
        except PermissionError:  # the interpreter is in a folder of ours
            said = subprocess.run(code, capture_output=True, text=True, timeout=40)
        assert said.returncode == 0, said.stderr
        lines = said.stdout.splitlines()
        assert len(lines) == 2
        assert all(line.startswith("refused") or line == "heard b''" for line in lines), lines


@pytest.mark.parametrize("whose", ["none", "Dask", "another cluster"])
def test_certificates_of_others_do_not_count(closed, whose):
    make = {"none": lambda: None, "Dask": distributed.Security.temporary}
    others = make.get(whose, lambda: dask_security.security(None))()
    protocol = "tcp" if others is None else "tls"
    options = {"security": others, "timeout": 2, "set_as_default": False}
    for place in sorted(closed.here | closed.elsewhere):
        with pytest.raises((OSError, TimeoutError)):
            distributed.Client(f"{protocol}://127.0.0.1:{place.port}", **options)


def test_the_key_is_nowhere_where_others_could_read_it(closed):
    for process in (os.getpid(), *closed.processes):
        for name in ("cmdline", "environ"):
            with open(f"/proc/{process}/{name}", "rb") as file:
                assert b"PRIVATE KEY" not in file.read()
    cluster = closed.context.executor.client.cluster
    assert "PRIVATE KEY" in cluster.security.tls_worker_key
    assert "PRIVATE KEY" not in repr(cluster.security)
    assert "PRIVATE KEY" not in repr(closed.context.executor.client)


def test_who_has_the_certificates_is_let_in(closed):
    with ff.Context(executor=connected_to(closed.context.executor)) as ctx:
        results = ctx.run_udf(frames(ctx), PerFrame(len_of_nothing))
    assert set(results["pid"].data) <= set(local_processes(closed.context.executor))


def test_nannies():
    worker = {"cls": distributed.Nanny, "options": {"nthreads": 1}}
    with Watched(spec={"one": worker}) as cluster:
        addresses = cluster.here | cluster.elsewhere
        assert {address.ip for address in addresses} == {"127.0.0.1"}
        assert cluster.context.executor.client.cluster.security.require_encryption


def test_a_dashboard_is_there_on_request():
    options = {"dashboard_address": ":0"}
    with Watched(spec=cluster_spec(1), cluster_kwargs=options) as cluster:
        assert {address.ip for address in cluster.here | cluster.elsewhere} == {"127.0.0.1"}
        assert (len(cluster.here), len(cluster.elsewhere)) == (2, 1)
        port = cluster.context.executor.client.cluster.scheduler.services["dashboard"].port
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert b"200 OK" in connection.recv(100)


def test_without_the_library_for_certificates(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingLibraryError, match="pip install 'framefold") as caught:
        ff.Context.make_with("dask", cpus=1)
    assert "cluster_kwargs={'security': False}" in str(caught.value)
    without = {"security": False}
    with Watched(spec=cluster_spec(1), cluster_kwargs=without) as cluster:
        assert {address.ip for address in cluster.here | cluster.elsewhere} == {"127.0.0.1"}
        assert cluster.context.executor.client.scheduler.address.startswith("tcp://")


def test_certificates_of_one_s_own():
    own = distributed.Security.temporary()
    with Watched(spec=cluster_spec(1), cluster_kwargs={"security": own}) as cluster:
        assert cluster.context.executor.client.security is own
    with pytest.raises(InvalidArgumentError, match="security is 'yes'"):
        DaskJobExecutor.make_local(cluster_spec(1), cluster_kwargs={"security": "yes"})


@pytest.mark.parametrize("ciphers", [None, "ECDHE-RSA-AES256-GCM-SHA384"])
def test_keys_are_those_that_configured_ciphers_ask_for(ciphers):
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    settings = {"comm.tls.ciphers": ciphers, "comm.tls.max-version": 1.2}
    with dask.config.set({f"distributed.{name}": value for name, value in settings.items()}):
        security = dask_security.security(None)
    key = load_pem_private_key(security.tls_worker_key.encode(), None)
    assert isinstance(key, EllipticCurvePrivateKey if ciphers is None else RSAPrivateKey)
    assert (security.require_encryption, security.tls_ciphers) == (True, ciphers)
    # Both sides show a certificate, and each is what the other one asks for.
    listening = security.get_listen_args("scheduler")["ssl_context"]
    connecting = security.get_connection_args("worker")["ssl_context"]
    assert listening.verify_mode == connecting.verify_mode == ssl.CERT_REQUIRED
    assert shaken_hands(connecting, listening)


def test_certificates_hold_also_after_the_clock_was_set_back(monkeypatch):
    class Fast(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(minutes=10)

    monkeypatch.setattr(dask_security, "datetime", Fast)
    security = dask_security.security(None)
    listening = security.get_listen_args("scheduler")["ssl_context"]
    connecting = security.get_connection_args("worker")["ssl_context"]
    assert shaken_hands(connecting, listening)


def shaken_hands(connecting, listening):
    """Whether two ends come to trust each other."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        connecting.wrap_bio(to_client, to_server),
        listening.wrap_bio(to_server, to_client, server_side=True),
    ]
    left = list(ends)
    for _ in range(10):
        for end in tuple(left):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
                left.remove(end)
    return not left


def test_memory_is_shared_as_before(closed):
    """Addresses of another kind must not hide that workers are on this machine."""
    from framefold.executor._dask.memory import is_near

    workers = closed.context.executor.client.scheduler_info()["workers"]
    assert len(workers) == 2
    assert all(is_near(address) for address in workers)
    assert all(address.startswith("tls://127.0.0.1:") for address in workers)
