"""Objects by which pods get access to the nodes' API."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from talos.kubed.manifests.objects import Manifest, make_head

GROUP, VERSION, PLURAL = "talos.dev", "v1alpha1", "serviceaccounts"
SERVICE, NAMESPACE = "talos", "default"
PORT = 50000


def make_account_kind() -> Manifest:
    """The kind of a pod's account: the roles that it requests."""
    text = {"type": "string"}
    spec = {
        "type": "object",
        "required": ["roles"],
        "properties": {"roles": {"type": "array", "items": text, "minItems": 1, "maxItems": 16}},
    }
    status = {"type": "object", "properties": {"failureReason": text}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {
        "plural": PLURAL,
        "singular": "serviceaccount",
        "kind": "ServiceAccount",
        "shortNames": ["tsa"],
    }
    head = make_head("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{PLURAL}.{GROUP}")
    return {**head, "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]}}


def make_service(addresses: Iterable[IPv4Address | IPv6Address]) -> list[Manifest]:
    """The API's service, which leads to the control plane nodes: there is a slice for each family."""
    port = {"name": "apid", "protocol": "TCP", "port": PORT}
    spec = {"ports": [{**port, "targetPort": PORT}], "ipFamilyPolicy": "PreferDualStack"}
    found: list[Manifest] = [{**make_head("v1", "Service", SERVICE, NAMESPACE), "spec": spec}]
    ordered = sorted(addresses, key=lambda address: (address.version, int(address)))
    for family in (4, 6):
        own: list[dict[str, Any]] = [
            {"addresses": [str(address)], "conditions": {"ready": True}}
            for address in ordered
            if address.version == family
        ]
        if own:
            head = make_head("discovery.k8s.io/v1", "EndpointSlice", f"{SERVICE}-ipv{family}", NAMESPACE)
            head["metadata"]["labels"] = {
                "kubernetes.io/service-name": SERVICE,
                "endpointslice.kubernetes.io/managed-by": "talos.dev",
            }
            found.append({**head, "addressType": f"IPv{family}", "endpoints": own, "ports": [port]})
    return found
