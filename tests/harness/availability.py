"""Whether the API of Kubernetes answers while a test does something to the nodes."""

import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.harness.kubernetes import Kubernetes

from talos.kubernetes.client import Access, KubernetesClient, KubernetesError, parse_kubeconfig
from talos.provision.cluster import NodeInfo

KUBE_PRISM = "https://127.0.0.1:7445"
PAUSE = 0.2
"""Seconds between the end of a question and the next one."""


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
    """Ask for an object all the time: through the cluster's endpoint, or KubePrism of a node."""
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


def _watch(access: Access, node: NodeInfo | None, seen: Watched, stop: threading.Event) -> None:
    client = KubernetesClient(access)
    last = time.monotonic()
    while not stop.wait(PAUSE):
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
