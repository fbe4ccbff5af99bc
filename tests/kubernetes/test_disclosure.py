"""Who may read resources finds no secret of the cluster in any, encoded or inside of others as it may be."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta

import pytest
from tests.harness.credentials import API_PORT, authority_of, client_of, secrets_of
from tests.harness.disclosure import find_disclosed, find_secrets
from tests.harness.kubernetes import Kubernetes
from tests.kubernetes.test_service_accounts import access, make_account, read_talosconfig

from talos.api.cosi import state_pb2
from talos.api.rpc import Code, RpcError
from talos.api.tables import read_table
from talos.client.endpoint import Endpoint
from talos.client.session import open_session
from talos.client.target import Target
from talos.pki.certificate import PemPair

__all__ = ["access"]

ROLES = ("os:reader", "os:operator", "os:upgrade")
REFUSALS = {Code.PERMISSION_DENIED, Code.INVALID_ARGUMENT}
LIST = "/cosi.resource.State/List"
TOKENS = ("secrets", "-n", "kube-system", "--field-selector", "type=bootstrap.kubernetes.io/token")


async def list_everything(target: Target) -> dict[str, bytes]:
    """What a client is shown of each type; types that it is refused are left out.

    Accounts of pods have Ed25519 certificates, which the Python library of gRPC does not take.
    """
    found: dict[str, bytes] = {}
    async with open_session(target) as session:
        for row in read_table("resources.tsv"):
            if row["registered"] != "yes":
                continue
            for namespace in {row["default_namespace"], ""}:
                request = state_pb2.ListRequest(namespace=namespace, type=row["type"])
                try:
                    async with (
                        asyncio.timeout(30),
                        session.stream("", LIST, request, state_pb2.ListResponse) as replies,
                    ):
                        shown = [reply.SerializeToString() async for reply in replies]
                except RpcError as error:
                    if error.code not in REFUSALS:
                        raise
                    continue
                found[f"{row['type']}({namespace})"] = b"\n".join(shown)
    return found


def target_of(address: str, ca: bytes, client: PemPair) -> Target:
    """One node, by a client's certificate."""
    endpoint = Endpoint(host=address, port=API_PORT)
    return Target(endpoints=(endpoint,), nodes=(), ca=ca, crt=client.crt, key=client.key)


def check(kubernetes: Kubernetes, ca: bytes, client: PemPair) -> None:
    secrets = find_secrets(secrets_of(kubernetes.cluster))
    assert len(secrets) == 9
    for address in kubernetes.cluster.addresses:
        shown = asyncio.run(list_everything(target_of(address, ca, client)))
        assert len(shown) > 60
        disclosed = {name: find_disclosed(content, secrets) for name, content in shown.items()}
        assert {name: which for name, which in disclosed.items() if which} == {}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_that_reads_finds_no_secret(kubernetes: Kubernetes, role: str) -> None:
    authority = authority_of(kubernetes.cluster)
    client = client_of(authority, role)
    check(kubernetes, authority.crt, client)


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
