"""Who may read resources finds no secret of the cluster in any, encoded or inside of others as it may be."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta

import pytest
from tests.harness.credentials import authority_of, client_of, secrets_of
from tests.harness.disclosure import find_disclosed, find_secrets
from tests.harness.kubernetes import Kubernetes
from tests.harness.reading import list_everything, read_logs, target_of
from tests.kubernetes.test_service_accounts import access, make_account, read_talosconfig

from talos.pki.certificate import PemPair

__all__ = ["access"]

ROLES = ("os:reader", "os:operator", "os:upgrade")
TOKENS = ("secrets", "-n", "kube-system", "--field-selector", "type=bootstrap.kubernetes.io/token")


def check(kubernetes: Kubernetes, ca: bytes, client: PemPair, *, reads_logs: bool = False) -> None:
    secrets = find_secrets(secrets_of(kubernetes.cluster))
    assert len(secrets) == 9
    for address in kubernetes.cluster.addresses:
        shown = asyncio.run(list_everything(target_of(address, ca, client)))
        assert len(shown) > 60
        logs = asyncio.run(read_logs(target_of(address, ca, client))) if reads_logs else {}
        disclosed = {name: find_disclosed(content, secrets) for name, content in shown.items()}
        disclosed |= {name: find_disclosed(content, secrets, depth=1) for name, content in logs.items()}
        assert {name: which for name, which in disclosed.items() if which} == {}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_that_reads_finds_no_secret(kubernetes: Kubernetes, role: str) -> None:
    authority = authority_of(kubernetes.cluster)
    client = client_of(authority, role)
    check(kubernetes, authority.crt, client, reads_logs=role == "os:operator")


def test_a_pod_with_an_account_finds_no_secret(access: Kubernetes) -> None:
    access.apply(make_account("looks", "os:reader"))
    config = read_talosconfig(access, "looks")
    context = config["contexts"][config["context"]]
    ca, crt, key = (base64.b64decode(context[name]) for name in ("ca", "crt", "key"))
    check(access, ca, PemPair(crt=crt, key=key))


def test_an_administrator_finds_them(kubernetes: Kubernetes) -> None:
    """The search finds what is there."""
    authority = authority_of(kubernetes.cluster)
    client = client_of(authority, "os:admin")
    target = target_of(kubernetes.cluster.addresses[0], authority.crt, client)
    shown = asyncio.run(list_everything(target))
    secrets = find_secrets(secrets_of(kubernetes.cluster))
    assert find_disclosed(b"\n".join(shown.values()), secrets) == secrets.keys()


def test_the_bootstrap_token_has_an_end_and_is_in_no_record(kubernetes: Kubernetes) -> None:
    (token,) = kubernetes.get(*TOKENS)
    end = datetime.fromisoformat(base64.b64decode(token["data"]["expiration"]).decode())
    assert timedelta(hours=12) < end - datetime.now(UTC) <= timedelta(hours=24)
    (inventory,) = kubernetes.get("configmap", "-n", "kube-system", "talos-bootstrap-manifests-inventory")
    assert not [name for name in inventory["data"] if "bootstrap-token" in name]
