"""Who may use a local Dask cluster: the user who started it alone.

A worker runs whatever a scheduler sends it, so a process that reaches either runs code as the
user. All of them listen on the loopback interface alone. As other users of the machine reach that,
too, every connection needs a certificate that is made for the cluster, and is kept in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import dask
from distributed import Nanny, Scheduler, Security, Worker
from distributed.utils import import_term

from framefold.exceptions import InvalidArgumentError, MissingLibraryError
from framefold.executor._dask.settings import quiet

#: Where local clusters listen.
LOOPBACK = "127.0.0.1"
#: Who needs certificates.
ROLES = ("client", "scheduler", "worker")
#: For how long those that are made for a cluster can be used.
VALID = timedelta(days=365)
#: They hold from so much earlier on: clocks that are wrong are set back.
EARLIER = timedelta(days=1)
#: Held while settings of the whole process are others: no thread restores those of another one.
CONFIGURING = threading.Lock()


class ClosedScheduler(Scheduler):  # type: ignore[misc] # distributed has no types
    """A scheduler without HTTP, which knows no certificates, and tells about tasks."""

    def __init__(self, *args: Any, **options: Any) -> None:
        settings = {**quiet(), "distributed.scheduler.http.routes": []}  # none of it is imported
        with CONFIGURING, dask.config.set(settings):  # read there, and nowhere later
            super().__init__(*args, **options)

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start none."""


class ClosedWorker(Worker):  # type: ignore[misc] # distributed has no types
    """A worker without HTTP."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start none."""


def security(given: Any) -> Security:
    """What processes of a cluster show each other.

    Parameters
    ----------
    given
        As ``security`` of :class:`distributed.LocalCluster`. If None or True, the certificates of
        Dask's configuration, or else new ones; False for none.
    """
    if given is not None and not isinstance(given, bool | Security):
        raise InvalidArgumentError(
            f"security is {given!r}, expected a distributed.Security, or True or False"
        )
    if given is False:
        return Security(require_encryption=False)
    if given is not None and given is not True:
        return given
    configured = Security()
    if configured.tls_ca_file is not None and configured.require_encryption:
        return configured
    try:
        # Ciphers that are configured may ask for keys of a kind.
        return _temporary() if configured.tls_ciphers is None else Security.temporary()
    except ImportError as error:
        raise MissingLibraryError(
            "the package 'cryptography' is not installed; without it, other users of this machine "
            "could run code on the workers of a local Dask cluster: pip install 'framefold[dask]'. "
            "If there are no others, DaskJobExecutor.make_local(cluster_kwargs={'security': "
            "False}) does without it"
        ) from error


def _temporary() -> Security:
    """As :meth:`distributed.Security.temporary`, with a key on the curve P-256.

    That is found in less than a millisecond, where one of RSA takes up to a tenth of a second, and
    each connection afterwards is cheaper. It is the harder one to break: 128 bits, not 112.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "framefold-dask")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + VALID)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return Security(
        require_encryption=True,
        tls_ca_file=public,
        **{f"tls_{role}_key": private for role in ROLES},
        **{f"tls_{role}_cert": public for role in ROLES},
    )


def scheduler_spec(given: Any, dashboard_address: Any, security: Security) -> dict[str, Any]:
    """The scheduler of a local cluster, as for :class:`distributed.SpecCluster`.

    Parameters
    ----------
    given
        The user's own, if there is one.
    dashboard_address
        Where the user wants a dashboard; None for none.
    security
        What processes show each other.
    """
    if given is not None:
        if dashboard_address is not None:
            raise InvalidArgumentError(
                "cluster_kwargs have both scheduler and dashboard_address; put the address into "
                "the options of the scheduler"
            )
        return {**given, "options": _closed(given.get("options", {}), security)}
    if dashboard_address is None:
        return {"cls": ClosedScheduler, "options": _closed({"dashboard": False}, security)}
    options = {"dashboard": True, "dashboard_address": dashboard_address}
    return {"cls": Scheduler, "options": _closed(options, security)}


def worker_spec(given: Mapping[str, Any], security: Security) -> dict[str, Any]:
    """A worker that the user specified, as for :class:`distributed.SpecCluster`."""
    cls = import_term(given["cls"]) if isinstance(given["cls"], str) else given["cls"]
    if not (isinstance(cls, type) and issubclass(cls, Worker | Nanny)):
        return dict(given)  # it may know none of these options
    options = _closed(given.get("options", {}), security)
    options.setdefault("dashboard_address", f"{LOOPBACK}:0")
    return {**given, "options": options}


def local_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options for a :class:`distributed.Worker` that listens on this machine alone."""
    found = dict(options)
    if "interface" not in found:
        found.setdefault("host", LOOPBACK)
    if found.get("dashboard_address") is not None:
        found["dashboard_address"] = _here(found["dashboard_address"])
    return found


def _closed(options: Mapping[str, Any], security: Security) -> dict[str, Any]:
    return {"security": security, **local_options(options)}


def _here(address: Any) -> Any:
    """An address, on this machine if it is a port alone."""
    if isinstance(address, list | tuple):
        return [_here(each) for each in address]
    if isinstance(address, int) and not isinstance(address, bool):
        return f"{LOOPBACK}:{address}"
    is_port = isinstance(address, str) and address.lstrip(":").isdecimal()
    return f"{LOOPBACK}:{address.lstrip(':')}" if is_port else address


def worker(scheduler: str, options: Mapping[str, Any], security: Security) -> Worker:
    """A worker of a local cluster, in its process."""
    wanted = options.get("dashboard") or options.get("dashboard_address") is not None
    if not wanted:
        dask.config.set({"distributed.worker.http.routes": []})  # read when it starts
        return ClosedWorker(scheduler, **options, security=security)
    address = {"dashboard_address": f"{LOOPBACK}:0"}
    return Worker(scheduler, **{**address, **options}, security=security)
