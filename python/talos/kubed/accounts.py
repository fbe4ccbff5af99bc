"""What an account of a pod gets: a Secret with a talosconfig, or the reason why not."""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from talos.api.definitions.kubeaccess_pb2 import ConfigSpec
from talos.api.definitions.secrets_pb2 import OSRootSpec
from talos.api.metadata import ROLES
from talos.config.talosconfig.model import Context, TalosConfig
from talos.config.talosconfig.text import format_talosconfig, parse_talosconfig
from talos.kubed.manifests.api_access import NAMESPACE, SERVICE
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import parse_certificate
from talos.pki.keys import KeyType
from talos.pki.names import organizations_of
from talos.system.errors import UserError

LIFETIME, RENEW_BEFORE = timedelta(hours=6), timedelta(hours=1)
"""Of a certificate, and how long before its end there is another one; as upstream."""
SKEW = timedelta(minutes=1)
CONTEXT, FILE = "default", "config"
ENDPOINT = f"{SERVICE}.{NAMESPACE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why an account gets nothing; ``reason`` is the event's."""

    reason: str
    message: str


def check_account(account: Mapping[str, Any], access: ConfigSpec) -> Refusal | None:
    """Whether the config allows what an account requests, in upstream's words."""
    namespace = account["metadata"]["namespace"]
    roles = account.get("spec", {}).get("roles")
    if not isinstance(roles, list) or not roles:
        return Refusal(reason="ErrRolesNotFound", message="Roles not found")
    if namespace not in access.allowed_kubernetes_namespaces:
        return Refusal(reason="ErrNamespaceNotAllowed", message=f"Namespace is not allowed: {namespace}")
    wanted = find_roles(account)
    refused = [role for role in wanted if role not in access.allowed_api_roles or role not in ROLES]
    if refused:
        return Refusal(reason="ErrRolesNotAllowed", message=f"Roles not allowed: [{' '.join(refused)}]")
    return None


def find_roles(account: Mapping[str, Any]) -> list[str]:
    """The roles that an account requests, each once."""
    return list(dict.fromkeys(str(role) for role in account["spec"]["roles"]))


def is_owned(secret: Mapping[str, Any], account: Mapping[str, Any]) -> bool:
    """Whether a secret was made for an account, and not by another user."""
    owners: Sequence[Mapping[str, Any]] = secret["metadata"].get("ownerReferences") or ()
    return any(one.get("controller") and one["uid"] == account["metadata"]["uid"] for one in owners)


def is_current(
    secret: Mapping[str, Any], roles: Sequence[str], root: OSRootSpec, now: datetime | None = None
) -> bool:
    """Whether a secret's talosconfig may stay: for these roles, of this authority, young enough."""
    now = now or datetime.now(UTC)
    data: Mapping[str, str] = secret.get("data") or {}
    try:
        context = parse_talosconfig(b64decode(data[FILE])).current
        certificate = parse_certificate(context.crt)
    except (KeyError, ValueError, UserError):
        return False
    end = certificate.not_valid_after_utc
    return (
        context.ca == make_authorities(root)
        and context.endpoints == (ENDPOINT,)
        and sorted(organizations_of(certificate.subject)) == sorted(roles)
        and now + RENEW_BEFORE < end <= now + LIFETIME
    )


def make_authorities(root: OSRootSpec) -> bytes:
    """The authorities that a pod trusts: while they rotate, more than one."""
    found = [root.issuing_ca.crt, *(one.crt for one in root.accepted_c_as)]
    return b"\n".join(dict.fromkeys(crt.strip() for crt in found if crt.strip())) + b"\n"


def make_secret(account: Mapping[str, Any], root: OSRootSpec) -> dict[str, Any]:
    """The secret of an account with a new certificate; it goes when the account goes."""
    metadata = account["metadata"]
    owner = {
        "apiVersion": account["apiVersion"],
        "kind": account["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    text = make_talosconfig(find_roles(account), root)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "ownerReferences": [owner],
        },
        "data": {FILE: b64encode(text.encode()).decode()},
    }


def make_talosconfig(roles: Sequence[str], root: OSRootSpec) -> str:
    """A client's file with a certificate for these roles."""
    issuing = root.issuing_ca
    authority = CertificateAuthority.from_pem(issuing.crt, issuing.key, where="machine.ca")
    pair = authority.issue(
        organizations=roles,
        ttl=LIFETIME,
        usages=Usage.CLIENT,
        key_type=KeyType.ED25519,
        not_before=datetime.now(UTC) - SKEW,
    )
    context = Context(endpoints=(ENDPOINT,), ca=make_authorities(root), crt=pair.crt, key=pair.key)
    return format_talosconfig(TalosConfig(context=CONTEXT, contexts={CONTEXT: context}))
