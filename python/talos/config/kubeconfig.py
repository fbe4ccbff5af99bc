"""Files with which programs find the Kubernetes API and show who they are."""

import base64
from dataclasses import dataclass

import yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubeconfig:
    """One cluster, one user, one context. The user has a certificate with its key, or a token."""

    server: str
    authority: bytes
    cluster: str
    user: str
    context: str = ""
    namespace: str = ""
    certificate: bytes = b""
    key: bytes = b""
    token: str = ""
    tls_server_name: str = ""


def format_kubeconfig(chosen: Kubeconfig) -> str:
    """The file's text."""
    cluster = {"server": chosen.server, "certificate-authority-data": _encode(chosen.authority)}
    if chosen.tls_server_name:
        cluster["tls-server-name"] = chosen.tls_server_name
    user = (
        {"token": chosen.token}
        if chosen.token
        else {
            "client-certificate-data": _encode(chosen.certificate),
            "client-key-data": _encode(chosen.key),
        }
    )
    context = {"cluster": chosen.cluster, "user": chosen.user}
    if chosen.namespace:
        context["namespace"] = chosen.namespace
    name = chosen.context or f"{chosen.user}@{chosen.cluster}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": chosen.cluster, "cluster": cluster}],
        "users": [{"name": chosen.user, "user": user}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }
    return yaml.safe_dump(document, sort_keys=False)


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()
