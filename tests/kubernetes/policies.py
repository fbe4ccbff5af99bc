"""What network policies let through, tried between pods of two nodes."""

from typing import Any

from tests.harness.cluster import eventually
from tests.harness.kubernetes import Kubernetes
from tests.kubernetes.objects import SERVE_NAME, SLEEP, make_head, make_pod

SERVER, FRIEND, STRANGER, NEIGHBOUR = "server", "friend", "stranger", "neighbour"
CLIENTS = (FRIEND, STRANGER, NEIGHBOUR)
"""The last one is on the server's node, the others are not."""
ENFORCED = 60.0
"""Seconds until a policy, or its end, is everywhere."""


def make_policy(name: str, *ingress: dict[str, Any]) -> dict[str, Any]:
    """A policy that lets nothing but this into the server."""
    selected = {"matchLabels": {"app": SERVER}}
    spec = {"podSelector": selected, "policyTypes": ["Ingress"], "ingress": list(ingress)}
    return {**make_head("NetworkPolicy", name, version="networking.k8s.io/v1"), "spec": spec}


def start_pods(kubernetes: Kubernetes) -> str:
    """Start a server and its clients, wait until they are ready, and return the server's address."""
    far, near = (node.name for node in kubernetes.cluster.nodes[:2])
    kubernetes.apply(
        make_pod(SERVER, SERVE_NAME, node=near),
        make_pod(FRIEND, SLEEP, node=far),
        make_pod(STRANGER, SLEEP, node=far),
        make_pod(NEIGHBOUR, SLEEP, node=near),
    )
    for name in (SERVER, *CLIENTS):
        kubernetes.wait_for(f"pod/{name}", "condition=Ready")
    (pod,) = kubernetes.get("pod", SERVER)
    return pod["status"]["podIP"]


def check_enforced(kubernetes: Kubernetes) -> None:
    """Assert that a policy keeps clients out, that one for a label lets these in, and that both end."""
    address = start_pods(kubernetes)

    def check(*allowed: str) -> None:
        for client in CLIENTS:
            argv = ("exec", client, "--", "wget", "-q", "-T", "2", "-O", "-", f"http://{address}:8080/")
            result = kubernetes.kubectl(*argv, check=False)
            assert (result.stdout.strip() == SERVER) is (client in allowed), f"{client}: {result}"

    eventually("all reach the server", lambda: check(*CLIENTS), seconds=ENFORCED)
    kubernetes.apply(make_policy("closed"))
    eventually("none reaches it", check, seconds=ENFORCED)
    kubernetes.apply(make_policy("friends", {"from": [{"podSelector": {"matchLabels": {"app": FRIEND}}}]}))
    eventually("its friend alone reaches it", lambda: check(FRIEND), seconds=ENFORCED)
    kubernetes.delete("networkpolicy/closed", "networkpolicy/friends", wait=True)
    eventually("all reach it again", lambda: check(*CLIENTS), seconds=ENFORCED)
    kubernetes.delete(*(f"pod/{name}" for name in (SERVER, *CLIENTS)), wait=True)
