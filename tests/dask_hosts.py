"""Hosts for tests of clusters: network namespaces on a bridge, with file systems of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import uuid

import pytest

#: Mounts an empty file system over each folder, and becomes the command that follows.
HIDE = """
while [ "$1" != -- ]; do mount -t tmpfs tmpfs "$1" || exit 1; shift; done
shift
exec "$@"
"""


def sh(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, text=True)


def needed():
    """Skip, in words, where hosts cannot be made."""
    for tool in ("ip", "unshare", "mount"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs the program {tool!r}")
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("makes network namespaces, which needs root on Linux")
    name = f"ffprobe-{uuid.uuid4().hex[:6]}"
    if sh("ip", "netns", "add", name, check=False).returncode:
        pytest.skip("network namespaces are not permitted here")
    try:
        pair = sh("ip", "link", "add", "ffprobe0", "type", "veth", "peer", "ffprobe1", check=False)
        if pair.returncode:
            pytest.skip("veth pairs are not permitted here")
        sh("ip", "link", "del", "ffprobe0")
        if sh("ip", "netns", "exec", name, "unshare", "-m", "true", check=False).returncode:
            pytest.skip("mount namespaces are not permitted here")
    finally:
        sh("ip", "netns", "del", name, check=False)


def free_subnet():
    """The first three numbers of addresses of no other network, and a descriptor that keeps them.

    Two bridges of the same addresses would get each other's packets.
    """
    import fcntl  # there is none on Windows

    for number in range(77, 177):
        path = os.path.join(tempfile.gettempdir(), f"framefold-subnet-{number}")
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        except OSError:  # of another user
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
        else:
            return f"10.213.{number}", descriptor
    pytest.fail("all subnets are taken")


class Network:
    """A bridge, with this machine at ``.1`` and hosts at ``.2`` and further."""

    def __init__(self):
        self.subnet, self._taken = free_subnet()
        subnet = self.subnet
        self.id = uuid.uuid4().hex[:4]
        self.bridge = f"ffb{self.id}"
        self.hosts = []
        self.processes = []
        sh("ip", "link", "add", self.bridge, "type", "bridge")
        try:
            sh("ip", "addr", "add", f"{subnet}.1/24", "dev", self.bridge)
            sh("ip", "link", "set", self.bridge, "up")
        except BaseException:
            self.close()
            raise

    @property
    def address(self):
        """Of this machine."""
        return f"{self.subnet}.1"

    def add_host(self):
        """Another host."""
        number = len(self.hosts) + 2
        host = Host(self, number)
        self.hosts.append(host)
        host.connect()
        return host

    def close(self):
        """End all processes, and take everything down."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        for host in self.hosts:
            sh("ip", "link", "del", host.outer, check=False)
            sh("ip", "netns", "del", host.name, check=False)
        sh("ip", "link", "del", self.bridge, check=False)
        os.close(self._taken)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Host:
    """One network namespace."""

    def __init__(self, network, number):
        self.network = network
        self.address = f"{network.subnet}.{number}"
        self.name = f"ffh{network.id}-{number}"
        self.outer, self.inner = f"ffo{network.id}-{number}", f"ffi{network.id}-{number}"

    def connect(self):
        sh("ip", "netns", "add", self.name)
        sh("ip", "link", "add", self.outer, "type", "veth", "peer", "name", self.inner)
        sh("ip", "link", "set", self.inner, "netns", self.name)
        sh("ip", "link", "set", self.outer, "master", self.network.bridge)
        sh("ip", "link", "set", self.outer, "up")
        within = ("ip", "-n", self.name)
        sh(*within, "addr", "add", f"{self.address}/24", "dev", self.inner)
        sh(*within, "link", "set", self.inner, "up")
        sh(*within, "link", "set", "lo", "up")

    def run(self, command, *, log, hidden=()):
        """Start a command on this host, which does not see what is in the folders ``hidden``."""
        enter = ["ip", "netns", "exec", self.name, "unshare", "-m"]
        shell = ["sh", "-c", HIDE, "sh", *map(str, hidden), "--"]
        process = subprocess.Popen([*enter, *shell, *command], stdout=log, stderr=log)
        self.network.processes.append(process)
        return process

    def cut_off(self):
        """Take the link down: no packet comes through, and no end of it is notified."""
        sh("ip", "link", "set", self.outer, "down")
