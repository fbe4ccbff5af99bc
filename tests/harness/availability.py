"""What answers while a test does something to the nodes: their APIs, etcd, the API of Kubernetes."""

import os
import socket
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from driver.availability import Samples, sampling
from tests.harness.cluster import Cluster
from tests.harness.credentials import API_PORT
from tests.harness.etcd import open_keys
from tests.harness.kubernetes import Kubernetes

from talos.kubernetes.access import ClusterAccess, parse_kubeconfig
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.provision.cluster import NodeInfo

KUBE_PRISM = "https://127.0.0.1:7445"
POLL_INTERVAL = 0.2
"""Seconds between the end of a question and the next one."""
SAMPLE_INTERVAL = 0.2
"""Seconds between two checks of the APIs of all nodes, which take longer to restart."""
SAMPLE_TIMEOUT = 1.0
"""Seconds for an API to take a connection."""
WRITE_INTERVAL, WRITE_TIMEOUT = 0.2, 2.0
"""Seconds between two writes to a member of etcd, and for one. Every write is work for all members: 60 of
them a second took more processor time than everything else in a test of an upgrade."""
ETCD_GAP = 10.0
"""Seconds without a write that succeeds: an election, and a client's way to another member."""


@dataclass(slots=True)
class Watched:
    """What one way to the API has done."""

    answers: int = 0
    failures: list[str] = field(default_factory=list[str])
    longest: float = 0.0
    """Seconds between two answers, at most."""


@contextmanager
def in_network_of(node: NodeInfo) -> Generator[None]:
    """This thread is in a node's network for as long as the context is open."""
    with (
        Path("/proc/thread-self/ns/net").open("rb") as own,
        Path(f"/proc/{node.pid}/ns/net").open("rb") as other,
    ):
        os.setns(other.fileno(), os.CLONE_NEWNET)
        try:
            yield
        finally:
            os.setns(own.fileno(), os.CLONE_NEWNET)


@contextmanager
def watched(kubernetes: Kubernetes, node: NodeInfo | None = None) -> Generator[Watched]:
    """Fetch an object all the time: through the cluster's endpoint, or KubePrism of a node."""
    access = parse_kubeconfig(kubernetes.read_kubeconfig())
    if node is not None:
        access = replace(access, server=KUBE_PRISM)
    seen, stop = Watched(), threading.Event()
    thread = threading.Thread(target=_watch, args=(access, node, seen, stop))
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def _watch(access: ClusterAccess, node: NodeInfo | None, seen: Watched, stop: threading.Event) -> None:
    client = KubernetesClient(access)
    last = time.monotonic()
    while not stop.wait(POLL_INTERVAL):
        try:
            if node is None:
                client.call_now("GET", "/api/v1/namespaces/kube-system")
            else:
                with in_network_of(node):
                    client.call_now("GET", "/api/v1/namespaces/kube-system")
        except (KubernetesError, OSError) as error:
            seen.failures.append(f"{time.strftime('%H:%M:%S')} {error}")
            continue
        now = time.monotonic()
        seen.answers, seen.longest, last = seen.answers + 1, max(seen.longest, now - last), now
    seen.longest = max(seen.longest, time.monotonic() - last)


@contextmanager
def sampling_nodes(nodes: Sequence[NodeInfo]) -> Generator[Samples]:
    """Look for as long as the context is open: a node is down whose API takes no connection."""

    def connect(node: NodeInfo) -> None:
        try:
            socket.create_connection((str(node.address), API_PORT), SAMPLE_TIMEOUT).close()
        except OSError as error:
            raise AssertionError(f"{node.name} takes no connection: {error}") from None

    with sampling({node.name: partial(connect, node) for node in nodes}, SAMPLE_INTERVAL) as samples:
        yield samples


@contextmanager
def writing_to_etcd(cluster: Cluster, nodes: Sequence[NodeInfo]) -> Generator[list[float]]:
    """Write to every member of etcd all the time; the seconds between two writes that succeeded, wherever."""
    gaps, is_over, lock, last = [0.0], threading.Event(), threading.Lock(), time.monotonic()

    def write(node: NodeInfo) -> None:
        nonlocal last
        number = 0
        while not is_over.wait(WRITE_INTERVAL):
            # A new connection only after a failure: a handshake is the most expensive part of a write.
            with suppress(AssertionError), open_keys(cluster, node, timeout=WRITE_TIMEOUT) as keys:
                while not is_over.wait(WRITE_INTERVAL):
                    number += 1
                    keys.put(f"upgrade/{node.name}", str(number))
                    with lock:
                        gaps.append(time.monotonic() - last)
                        last = time.monotonic()

    with ThreadPoolExecutor(len(nodes)) as pool:
        writing = [pool.submit(write, node) for node in nodes]
        try:
            yield gaps
        finally:
            is_over.set()
            for one in writing:
                one.result()
            gaps.append(time.monotonic() - last)
