"""Whether a kubelet may have the serving certificate that it requests.

https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, cast

from cryptography import x509
from cryptography.x509.oid import NameOID

from talos.kubed.serving_names import NodeNames
from talos.pki.csr import parse_csr
from talos.system.errors import UserError

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER = "kubernetes.io/kubelet-serving"
USER_PREFIX, GROUP = "system:node:", "system:nodes"
USAGES = frozenset({"digital signature", "key encipherment", "server auth"})
SERVER = "server auth"

type Request = Mapping[str, Any]


def is_decided(request: Request) -> bool:
    """Whether it was approved or denied."""
    conditions = request.get("status", {}).get("conditions", ())
    return any(one["type"] in ("Approved", "Denied") for one in conditions)


def find_node(request: Request) -> str:
    """The name of the node whose kubelet requests; empty when it is none."""
    spec = request["spec"]
    user = str(spec.get("username", ""))
    is_kubelet = user.startswith(USER_PREFIX) and GROUP in spec.get("groups", ())
    return user.removeprefix(USER_PREFIX) if is_kubelet and spec.get("signerName") == SIGNER else ""


def find_problem(request: Request, node: str, known: NodeNames) -> str:
    """Why the request is not approved; empty when everything in it belongs to the node."""
    spec = request["spec"]
    usages = set(spec.get("usages", ()))
    if SERVER not in usages or usages - USAGES:
        return f"its usages are {', '.join(sorted(usages))}"
    try:
        found = parse_csr(base64.b64decode(spec["request"], validate=True))
    except (UserError, binascii.Error, KeyError) as error:
        return str(error)
    return _check_subject(found.subject, node) or _check_names(found, known)


def _check_subject(subject: x509.Name, node: str) -> str:
    common_names = [one.value for one in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [one.value for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    if common_names != [USER_PREFIX + node] or groups != [GROUP]:
        return f"its subject is {subject.rfc4514_string()}"
    return ""


def _check_names(found: x509.CertificateSigningRequest, known: NodeNames) -> str:
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return "it names neither a host nor an address"
    dns_names = set(names.get_values_for_type(x509.DNSName))
    ips = {str(ip) for ip in cast("list[object]", names.get_values_for_type(x509.IPAddress))}
    if len(list(names)) != len(dns_names) + len(ips):
        return "it has other names than of hosts and addresses"
    strangers = sorted((dns_names - known.dns_names) | (ips - known.ips))
    texts = [f"{one} ({known.reasons[one]})" if one in known.reasons else one for one in strangers]
    return f"the node is not known as {', '.join(texts)}" if texts else ""
