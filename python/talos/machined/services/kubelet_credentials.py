"""What a kubelet got when it joined its cluster, brought to the authorities of now."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from talos.api.definitions.secrets_pb2 import KubeletSpec
from talos.pki.certificate import is_signed_by, parse_certificate
from talos.system.errors import UserError
from talos.system.files import replace_durably
from talos.system.regular import read_regular

MAX_CERTIFICATE = 64 * 1024
"""Bytes of a certificate with its key and its authorities."""
SERVER_NAME = "tls-server-name"
"""The field of a kubeconfig's cluster with the name that its certificate has to have."""
CLIENT, CURRENT = "kubelet-client-*.pem", "kubelet-client-current.pem"


def refresh_credentials(kubeconfig: Path, pki: Path, secret: KubeletSpec) -> None:
    """Before a start of the kubelet: after it, it trusts what the secret has and is trusted.

    It joins anew when its certificate is not of the authority that issues now, the first of the accepted
    ones; until it has another one it runs its static pods all the same. Else its file gets the authorities.
    """
    accepted = [found.crt for found in secret.accepted_c_as]
    if has_foreign_certificate(pki / CURRENT, accepted[:1]):
        kubeconfig.unlink(missing_ok=True)
        for path in pki.glob(CLIENT):
            path.unlink()
        return
    try:
        document: Any = yaml.safe_load(kubeconfig.read_bytes())
        cluster: dict[str, Any] = document["clusters"][0]["cluster"]
        known, server = b64decode(cluster["certificate-authority-data"]), cluster["server"]
        name = cluster.get(SERVER_NAME, "")
    except FileNotFoundError:
        return  # it has not joined yet
    except (yaml.YAMLError, LookupError, TypeError, ValueError):
        kubeconfig.unlink()  # it writes a new one
        return
    authorities = b"\n".join(accepted)
    wanted = secret.endpoint_tls_server_name
    if (known, server, name) == (authorities, secret.endpoint.full_path, wanted):
        return
    cluster["certificate-authority-data"] = b64encode(authorities).decode()
    cluster["server"] = secret.endpoint.full_path
    cluster.pop(SERVER_NAME, None)
    if wanted:
        cluster[SERVER_NAME] = wanted
    replace_durably(kubeconfig, [yaml.safe_dump(document).encode()], mode=0o600)


def has_foreign_certificate(path: Path, authorities: Sequence[bytes]) -> bool:
    """Whether there is a certificate that none of these authorities has signed."""
    # The kubelet's file is a link to one beside it. Pods that mount its folder may have it lead anywhere.
    with suppress(OSError):
        path = path.with_name(path.readlink().name)
    content = read_regular(path, 0, MAX_CERTIFICATE)
    if content is None:
        return False
    try:
        certificate = parse_certificate(content)
    except UserError:
        return True
    return not is_signed_by(certificate, [parse_certificate(crt) for crt in authorities])
