"""The host's resolver: requests a second and the time of one, from its cache, beside dnsmasq."""

import os
import selectors
import socket
import struct
import subprocess
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.bench.report import Table
from tests.harness.cluster import Cluster, eventually, running_cluster
from tests.harness.peers import find_peer

from talos.dnsd.message import encode_name

SERVER, PLACE = "198.51.100.53", ("198.51.100.53/32", "dev", "lo")
CONFIG = f"apiVersion: v1alpha1\nkind: ResolverConfig\nnameservers: [{{address: {SERVER}}}]\n"
RESOLVER = "127.0.0.53"
ONE_BY_ONE, IN_FLIGHT, DURATION = 5000, 32, 3.0  # seconds
QUERY = struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + encode_name("a.example") + struct.pack("!HH", 1, 1)


def measure_times(server: str) -> list[float]:
    """Microseconds of each question, one after the other."""
    times: list[float] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(5)
        udp.connect((server, 53))
        for _ in range(ONE_BY_ONE):
            begin = time.perf_counter()
            udp.send(QUERY)
            udp.recv(512)
            times.append((time.perf_counter() - begin) * 1e6)
    return sorted(times)


def measure_rate(server: str) -> float:
    """Questions a second with many in flight; the client takes a good part of the processor itself."""
    answered = 0
    with selectors.DefaultSelector() as selector:
        sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(IN_FLIGHT)]
        for udp in sockets:
            udp.connect((server, 53))
            udp.send(QUERY)
            selector.register(udp, selectors.EVENT_READ)
        begin = time.perf_counter()
        while time.perf_counter() - begin < DURATION:
            for key, _ in selector.select(1):
                udp = key.fileobj
                assert isinstance(udp, socket.socket)
                udp.recv(512)
                answered += 1
                udp.send(QUERY)
        elapsed = time.perf_counter() - begin
        for udp in sockets:
            udp.close()
    return answered / elapsed


@contextmanager
def in_network(cluster: Cluster) -> Generator[ThreadPoolExecutor]:
    """A thread in the node's network, with a DNS server of its own."""
    target = os.open(f"/proc/{cluster.nodes[0].pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    argv = [
        *find_peer("dnsmasq"), "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
        "--user=root", "--group=root", "--pid-file", "--bind-interfaces", f"--listen-address={SERVER}",
        "--address=/a.example/192.0.2.1", "--local-ttl=3600",
    ]  # fmt: skip
    try:
        with ThreadPoolExecutor(1, initializer=os.setns, initargs=(target, os.CLONE_NEWNET)) as thread:
            thread.submit(subprocess.run, ["ip", "address", "add", *PLACE], check=True).result()
            process = thread.submit(subprocess.Popen, argv).result()
            try:
                yield thread
            finally:
                process.kill()
                process.wait()
    finally:
        os.close(target)


def test_names(tmp_path: Path) -> None:
    table = Table("DNS from the cache", ("p50, us", "p99, us", f"requests/s, {IN_FLIGHT} in flight"))
    patch = tmp_path / "patch.yaml"
    patch.write_text(CONFIG)
    with running_cluster(tmp_path, bootstrap=False) as cluster:

        def check_upstream() -> None:
            rows = cluster.rows("get", "dnsupstream")
            assert [row["ADDRESS"] for row in rows] == [f"{SERVER}:53"], rows

        with in_network(cluster) as network:
            eventually(
                "the config is taken",
                lambda: cluster.talosctl("patch", "machineconfig", "--patch", f"@{patch}"),
            )
            eventually("the server is queried", check_upstream)
            for name, server in (("dnsd", RESOLVER), ("dnsmasq", SERVER)):
                times = network.submit(measure_times, server).result()
                rate = network.submit(measure_rate, server).result()
                p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
                table.add(name, f"{p50:.0f}", f"{p99:.0f}", f"{rate:.0f}")
    table.show()
