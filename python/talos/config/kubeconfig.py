"""Files with which programs find the Kubernetes API and show who they are."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import yaml

from talos.config.read.nodes import plain
from talos.config.read.tree import parse_documents
from talos.system.errors import UserError


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


def parse_issued(text: str) -> Kubeconfig:
    """The kubeconfig that a node has issued; UserError when it has more than those have.

    What else there can be makes kubectl run programs (``exec``, ``auth-provider``), read files of its user,
    or go another way (``proxy-url``): a node may not decide on these.
    """
    documents = parse_documents(text, source="the node's kubeconfig")
    if len(documents) != 1:
        raise _refuse("is not one document")
    top = _take(
        plain(documents[0]),
        "",
        {"apiVersion", "kind", "preferences", "clusters", "users", "contexts", "current-context"},
    )
    name, cluster = _take_only(
        top, "clusters", "cluster", {"server", "certificate-authority-data", "tls-server-name"}
    )
    user_name, user = _take_only(
        top, "users", "user", {"client-certificate-data", "client-key-data", "token"}
    )
    context_name, context = _take_only(top, "contexts", "context", {"cluster", "user", "namespace"})
    if (_text(context, "cluster"), _text(context, "user")) != (name, user_name):
        raise _refuse("has a context of another cluster or user")
    return Kubeconfig(
        server=_text(cluster, "server"),
        authority=_decode(cluster, "certificate-authority-data"),
        tls_server_name=_text(cluster, "tls-server-name"),
        cluster=name,
        user=user_name,
        context=context_name,
        namespace=_text(context, "namespace"),
        certificate=_decode(user, "client-certificate-data"),
        key=_decode(user, "client-key-data"),
        token=_text(user, "token"),
    )


def _take_only(top: Mapping[str, Any], key: str, kind: str, known: set[str]) -> tuple[str, Mapping[str, Any]]:
    """Name and fields of the only entry of a list."""
    rows: object = top.get(key)
    if not isinstance(rows, list) or len(cast("list[object]", rows)) != 1:
        raise _refuse(f"does not have one entry of {key}")
    row = _take(cast("list[object]", rows)[0], f"{key}[0]", {"name", kind})
    return _text(row, "name"), _take(row.get(kind), f"{key}[0].{kind}", known)


def _take(value: object, place: str, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _refuse(f"has no fields at {place or 'its top'}")
    fields = cast("dict[str, Any]", value)
    if unknown := sorted(fields.keys() - known):
        raise _refuse(f"has {place}{'.' if place else ''}{unknown[0]}, which no node issues")
    return fields


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise _refuse(f"has a {key} that is no text")
    return value


def _decode(fields: Mapping[str, Any], key: str) -> bytes:
    try:
        return base64.b64decode(_text(fields, key), validate=True)
    except binascii.Error:
        raise _refuse(f"has a {key} that is no base64") from None


def _refuse(reason: str) -> UserError:
    return UserError(reason, where="the node's kubeconfig", hint="it is not used")


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()
