"""Where the API of Kubernetes is, and as whom it is called."""

import os
import ssl
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path

import yaml

from talos.system.errors import UserError
from talos.system.secret_file import open_secret_file

POD_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts what a pod's account needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """Where the API is, and its user: by a certificate, or by a token's file. All but the token is PEM.

    ``server_name`` is what the server's certificate has to be for, where that is not the URL's host.
    """

    server: str
    authority: bytes
    certificate: bytes = b""
    key: bytes = b""
    token: Path | None = None
    server_name: str = ""


def parse_kubeconfig(text: str) -> ClusterAccess:
    """The access of an administrator's kubeconfig, as nodes issue it; ValueError when it is another one."""
    try:
        document = yaml.safe_load(text)
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        return ClusterAccess(
            server=cluster["server"],
            authority=b64decode(cluster["certificate-authority-data"]),
            certificate=b64decode(user["client-certificate-data"]),
            key=b64decode(user["client-key-data"]),
        )
    except (yaml.YAMLError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"not an administrator's kubeconfig: {error}") from error


def find_pod_access(folder: Path = POD_FOLDER) -> ClusterAccess:
    """The access of the pod that this runs in, as its account; UserError outside of one."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    try:
        authority = (folder / "ca.crt").read_bytes()
    except OSError:
        authority = b""
    if not host or not authority:
        raise UserError("this is no pod with an account", where=str(folder))
    host = f"[{host}]" if ":" in host else host
    return ClusterAccess(server=f"https://{host}:{port or 443}", authority=authority, token=folder / "token")


def find_pod_namespace(folder: Path = POD_FOLDER) -> str:
    """The namespace of the pod that this runs in; UserError outside of one."""
    try:
        return (folder / "namespace").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        raise UserError("this is no pod with an account", where=str(folder)) from None


def make_context(access: ClusterAccess) -> ssl.SSLContext:
    """TLS 1.3, with a client's certificate if there is one; the server's has to be by the authority."""
    context = ssl.create_default_context(cadata=access.authority.decode("ascii"))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not access.certificate:
        return context
    with open_secret_file(access.certificate + b"\n" + access.key) as path:
        context.load_cert_chain(path)
    return context
