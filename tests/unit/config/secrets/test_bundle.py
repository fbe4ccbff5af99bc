import base64

import pytest
from tests.unit.config import yaml_text

from talos.config.secrets.bundle import TOKEN, SecretsBundle
from talos.pki.certificate import parse_certificate
from talos.system.errors import UserError

BUNDLE = SecretsBundle.generate()


def test_generated_bundle_comes_back_the_same() -> None:
    assert SecretsBundle.parse(BUNDLE.dump()) == BUNDLE


def test_keys_are_lower_case_and_in_order() -> None:
    document = yaml_text.read(BUNDLE.dump())
    assert list(document) == ["cluster", "secrets", "trustdinfo", "certs"]
    assert list(document["secrets"]) == ["bootstraptoken", "secretboxencryptionsecret"]
    assert list(document["certs"]) == ["etcd", "k8s", "k8saggregator", "k8sserviceaccount", "os"]
    assert TOKEN.fullmatch(document["trustdinfo"]["token"])
    assert len(base64.b64decode(document["cluster"]["id"])) == 32


def test_pem_types_and_subjects() -> None:
    assert BUNDLE.os.key.startswith(b"-----BEGIN ED25519 PRIVATE KEY-----")
    assert BUNDLE.service_account.startswith(b"-----BEGIN RSA PRIVATE KEY-----")
    subjects = {}
    for pair in (BUNDLE.etcd, BUNDLE.kubernetes, BUNDLE.aggregator):
        assert pair.key.startswith(b"-----BEGIN EC PRIVATE KEY-----")
    for name in ("etcd", "kubernetes", "aggregator", "os"):
        pair = getattr(BUNDLE, name)
        subjects[name] = parse_certificate(pair.crt).subject.rfc4514_string()
    assert subjects == {
        "etcd": "O=etcd",
        "kubernetes": "O=kubernetes",
        "aggregator": "",
        "os": "O=talos",
    }


def test_old_contracts_have_their_forms() -> None:
    old = SecretsBundle.generate(contract=(1, 2))
    assert old.aescbc_secret
    assert not old.secretbox_secret
    assert old.service_account.startswith(b"-----BEGIN EC PRIVATE KEY-----")
    assert SecretsBundle.parse(old.dump()) == old


def test_a_bootstrap_token_may_have_any_form() -> None:
    document = yaml_text.read(BUNDLE.dump())
    document["secrets"]["bootstraptoken"] = "test-token"
    document["added"] = "by a newer client"
    assert SecretsBundle.parse(yaml_text.write(document)).bootstrap_token == "test-token"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("cluster", "secret"), "AAAA", "s: cluster.secret: 3 bytes, expected 32"),
        (("cluster", "secret"), "?", "s: cluster.secret: no base64"),
        (("cluster", "id"), None, "s:17:3: cluster.id: is missing (the cluster's id for discovery)"),
        (("cluster", "id"), [], "s:17:7: cluster.id: expected a text, got a list"),
        (
            ("trustdinfo", "token"),
            "abc",
            "s: trustdinfo.token: no token (six characters, a dot, sixteen: [a-z0-9])",
        ),
        (("cluster", "id"), "", "s: cluster.id: is empty"),
        (("secrets", "bootstraptoken"), "", "s: secrets.bootstraptoken: is empty"),
        (
            ("secrets", "secretboxencryptionsecret"),
            "",
            (
                "s: secrets: a secret for the encryption in etcd is missing "
                "(secretboxencryptionsecret or aescbcencryptionsecret: 32 bytes, base64)"
            ),
        ),
    ],
)
def test_bad_bundle_is_refused_with_path(path: tuple[str, str], value: object, message: str) -> None:
    document = yaml_text.read(BUNDLE.dump())
    document[path[0]][path[1]] = value
    with pytest.raises(UserError) as raised:
        SecretsBundle.parse(yaml_text.write(document), where="s")
    assert str(raised.value) == message


@pytest.mark.parametrize("text", ["", "[]", "- 1", "a: [", "\x00"])
def test_no_bundle_at_all(text: str) -> None:
    with pytest.raises(UserError):
        SecretsBundle.parse(text)


def test_secrets_are_not_in_the_repr() -> None:
    text = repr(BUNDLE)
    assert BUNDLE.trustd_token not in text
    assert BUNDLE.cluster_secret not in text
    assert "PRIVATE" not in text
