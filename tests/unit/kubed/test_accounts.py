"""Which accounts of pods get a certificate, and when there is another one."""

from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from talos.api.definitions.kubeaccess_pb2 import ConfigSpec
from talos.api.definitions.secrets_pb2 import OSRootSpec
from talos.config.talosconfig.text import parse_talosconfig
from talos.kubed.accounts import check_account, is_current, is_owned, make_secret
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import parse_certificate
from talos.pki.keys import KeyType
from talos.pki.names import organizations_of

ACCESS = ConfigSpec(
    enabled=True,
    allowed_api_roles=["os:reader", "os:etcd:backup"],
    allowed_kubernetes_namespaces=["default"],
)


def make_account(roles: object, namespace: str = "default") -> dict[str, Any]:
    metadata = {"name": "a", "namespace": namespace, "uid": "1"}
    spec = {"roles": roles}
    return {"apiVersion": "talos.dev/v1alpha1", "kind": "ServiceAccount", "metadata": metadata, "spec": spec}


def make_root() -> OSRootSpec:
    pair = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"]).pem
    root = OSRootSpec()
    root.issuing_ca.crt, root.issuing_ca.key = pair.crt, pair.key
    root.accepted_c_as.add(crt=pair.crt)
    return root


@pytest.mark.parametrize(
    ("account", "message"),
    [
        (make_account(["os:reader"]), ""),
        (make_account(["os:reader", "os:etcd:backup"]), ""),
        (make_account(["os:reader"], "other"), "Namespace is not allowed: other"),
        (make_account(["os:reader", "os:admin"]), "Roles not allowed: [os:admin]"),
        (make_account([]), "Roles not found"),
        (make_account("os:reader"), "Roles not found"),
        ({**make_account([]), "spec": {}}, "Roles not found"),
    ],
)
def test_the_config_decides(account: dict[str, Any], message: str) -> None:
    refusal = check_account(account, ACCESS)
    assert (refusal.message if refusal else "") == message


def test_a_role_that_does_not_exist_is_refused_though_it_is_allowed() -> None:
    access = ConfigSpec(allowed_api_roles=["os:king"], allowed_kubernetes_namespaces=["default"])
    assert check_account(make_account(["os:king"]), access) is not None


def test_a_secret_has_a_young_certificate_with_the_roles() -> None:
    root, account = make_root(), make_account(["os:reader"])
    secret = make_secret(account, root)
    assert is_owned(secret, account)
    assert not is_owned(secret, {**account, "metadata": {**account["metadata"], "uid": "2"}})
    context = parse_talosconfig(b64decode(secret["data"]["config"])).current
    certificate = parse_certificate(context.crt)
    assert organizations_of(certificate.subject) == ["os:reader"]
    assert (context.endpoints, context.nodes) == (("talos.default",), ())
    now = datetime.now(UTC)
    assert timedelta(hours=5) < certificate.not_valid_after_utc - now <= timedelta(hours=6)


def test_a_certificate_is_renewed_in_its_last_hour_and_when_roles_or_authorities_change() -> None:
    root = make_root()
    secret, now = make_secret(make_account(["os:reader"]), root), datetime.now(UTC)
    assert is_current(secret, ["os:reader"], root)
    assert is_current(secret, ["os:reader"], root, now + timedelta(hours=4, minutes=50))
    assert not is_current(secret, ["os:reader"], root, now + timedelta(hours=5))
    assert not is_current(secret, ["os:reader", "os:etcd:backup"], root)
    root.accepted_c_as.add(crt=make_root().issuing_ca.crt)
    assert not is_current(secret, ["os:reader"], root)
    for broken in ({}, {"config": ""}, {"config": "!"}, {"config": "YTogYg=="}):
        assert not is_current({"data": broken}, ["os:reader"], root)
