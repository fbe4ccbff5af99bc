"""kube-network-policies beside flannel, which enforces none: a container of the same pod."""

from collections.abc import Sequence
from typing import Any

from talos.kubed.manifests.objects import Manifest, make_field

_WATCH = ["list", "watch"]
POLICY_RULES: Sequence[Manifest] = (
    {"apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": _WATCH},
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": _WATCH},
    {
        "apiGroups": ["policy.networking.k8s.io"],
        "resources": ["adminnetworkpolicies", "baselineadminnetworkpolicies"],
        "verbs": _WATCH,
    },
)
"""What the pod's account may do beside what flannel needs."""


def make_enforcer(image: str, environment: Sequence[dict[str, Any]]) -> Manifest:
    """The container. It decides over the first packet of each connection of a pod that a policy is about.

    Privileged, as it writes rules of nftables in the node's network, and takes packets out of a queue of
    theirs. While it does not run the packets pass.
    """
    return {
        "name": "kube-network-policies",
        "image": image,
        "command": ["/bin/netpol", "--hostname-override=$(MY_NODE_NAME)", "--v=2"],
        "env": [make_field("MY_NODE_NAME", "spec.nodeName"), *environment],
        "securityContext": {"privileged": True},
    }
