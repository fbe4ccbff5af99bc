"""Names on a node: the host's resolver, static hosts, and the servers that are queried."""

import os
import socket
import struct
import subprocess
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.harness.cluster import Cluster, eventually
from tests.harness.peers import find_peer

from talos.dnsd.message import encode_name

SERVER = "198.51.100.53"
PLACE = (f"{SERVER}/32", "dev", "lo")
DOCUMENTS = """\
apiVersion: v1alpha1
kind: ResolverConfig
nameservers: [{{address: {server}}}]
searchDomains: {{domains: [lab.example]}}
hostDNS: {{enabled: true, forwardKubeDNSToHost: true, resolveMemberNames: true}}
---
apiVersion: v1alpha1
kind: StaticHostConfig
name: 192.0.2.7
hostnames: [static.example, static]
"""


@contextmanager
def in_network(cluster: Cluster) -> Generator[ThreadPoolExecutor]:
    """A thread in the node's network, which sees what the node's programs see."""
    target = os.open(f"/proc/{cluster.nodes[0].pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        with ThreadPoolExecutor(1, initializer=os.setns, initargs=(target, os.CLONE_NEWNET)) as thread:
            yield thread
    finally:
        os.close(target)


def resolve(server: str, name: str, kind: int = 1) -> tuple[int, bytes]:
    """The code of an answer, and the last record's data. AssertionError when there is none."""
    query = struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + encode_name(name) + struct.pack("!HH", kind, 1)
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as udp:
        udp.settimeout(5)
        udp.sendto(query, (server, 53))
        try:
            answer = udp.recv(4096)
        except TimeoutError:
            raise AssertionError(f"no answer from {server}") from None
    return answer[3] & 15, answer[-4:]


@pytest.fixture(scope="module")
def names(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A DNS server on the node's network, which the node is configured to query; yields its log."""
    folder = tmp_path_factory.mktemp("dns")
    log = folder / "log"
    # In the node's own network, at an address that nothing else has.
    argv = [
        *find_peer("dnsmasq"), "--keep-in-foreground", "--log-facility=-", "--log-queries",
        "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root", "--group=root", "--pid-file",
        "--bind-interfaces", f"--listen-address={SERVER}", "--address=/a.example/192.0.2.1", "--local-ttl=60",
    ]  # fmt: skip
    before = cluster.talosctl("get", "machineconfig", "v1alpha1", "-o", "jsonpath={.spec}").stdout
    with in_network(cluster) as network, log.open("wb") as output:
        network.submit(subprocess.run, ["ip", "address", "add", *PLACE], check=True).result()
        process = network.submit(subprocess.Popen, argv, stdout=output, stderr=output).result()
        try:
            patch = folder / "patch.yaml"
            patch.write_text(DOCUMENTS.format(server=SERVER))
            cluster.talosctl("patch", "machineconfig", "--patch", f"@{patch}")
            yield log
        finally:
            process.kill()
            process.wait()
            config = folder / "before.yaml"
            config.write_text(before)
            cluster.talosctl("apply-config", "--file", str(config))
            network.submit(subprocess.run, ["ip", "address", "del", *PLACE], check=True).result()


def test_the_resolver_serves_the_host_and_its_pods(cluster: Cluster, names: Path) -> None:
    def check_upstream() -> None:
        upstreams = [(row["ADDRESS"], row["HEALTHY"]) for row in cluster.rows("get", "dnsupstream")]
        assert upstreams == [("198.51.100.53:53", "true")]
        assert {row["STATUS"] for row in cluster.rows("get", "dnsresolvecache")} == {"running"}

    def check_files() -> None:
        host = cluster.talosctl("read", "/etc/resolv.conf").stdout
        assert host == "nameserver 127.0.0.53\nsearch lab.example\n"
        pods = cluster.talosctl("read", "/system/resolved/resolv.conf").stdout
        assert pods == "nameserver 169.254.116.108\nsearch lab.example\n"
        assert "192.0.2.7 static static.example\n" in cluster.talosctl("read", "/etc/hosts").stdout

    eventually("the server is queried", check_upstream)
    eventually("the resolver is that of programs", check_files)
    with in_network(cluster) as network:
        for server in ("127.0.0.53", "169.254.116.108"):
            assert network.submit(resolve, server, "A.example").result() == (0, bytes([192, 0, 2, 1])), server
        queries = names.read_text().lower().count("query[a] a.example")
        assert queries == 1, "the others were answered from the cache"
        assert network.submit(resolve, "127.0.0.53", "static").result() == (0, bytes([192, 0, 2, 7]))
        assert network.submit(resolve, "127.0.0.53", "none.test").result()[0] in {3, 5}
    log = cluster.talosctl("logs", "dns-resolve-cache").stdout
    assert cluster.talosctl("logs", "dnsd").stdout.startswith(log), "both are names of one log, which grows"
    assert "listening on 127.0.0.53:53" in log


def test_a_member_is_found_by_its_name(cluster: Cluster, names: Path) -> None:
    def check_member() -> None:
        members = cluster.rows("get", "members")
        assert members
        with in_network(cluster) as network:
            code, address = network.submit(resolve, "127.0.0.53", members[0]["HOSTNAME"]).result()
        # The server's address is one of the node's, too, for as long as this test runs.
        assert (code, socket.inet_ntoa(address)) in [(0, cluster.addresses[0]), (0, SERVER)]

    assert names.exists()
    eventually("the member's name is known", check_member)
