"""Tokens of an issuer on the loopback interface, traded on trustd's port: good ones, and hostile ones."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.harness.issuer import CLIENT, METADATA, Issuer, encode_part, serve_issuer
from tests.harness.limits import REAL_TIMEOUT
from tests.unit.trustd.login.door import Door, make_config, open_door

from talos.api.login.login_pb2 import DescribeReply, DescribeRequest
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.pki.csr import make_csr
from talos.pki.names import organizations_of


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[Issuer]:
    with serve_issuer(tmp_path_factory.mktemp("issuer")) as issuer:
        yield issuer


@pytest.fixture
def issuer(running: Issuer) -> Issuer:
    running.publish()
    running.requests.clear()
    return running


def run(test: Callable[[Door], Awaitable[None]], config: MachineConfigSpec | None) -> None:
    async def limited() -> None:
        async with asyncio.timeout(REAL_TIMEOUT), open_door(config) as door:
            await test(door)

    asyncio.run(limited())


@pytest.mark.parametrize("key", ["rsa", "ec", "ed"])
def test_a_token_is_traded_for_a_certificate(issuer: Issuer, key: str) -> None:
    async def test(door: Door) -> None:
        csr = make_csr(
            door.key, common_name="root", organizations=["os:admin", "os:impersonator"], dns_names=["node"]
        )
        certificate = await door.exchange(issuer.token(key), csr)
        certificate.verify_directly_issued_by(door.ca.certificate)
        assert organizations_of(certificate.subject) == ["os:etcd:backup", "os:operator"]
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        assert [name.value for name in names] == ["ann@example.org"]
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        for absent in (x509.BasicConstraints, x509.SubjectAlternativeName):
            with pytest.raises(x509.ExtensionNotFound):
                certificate.extensions.get_extension_for_class(absent)
        life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        assert life.total_seconds() == 600
        (record,) = door.records()
        assert record["name"] == "ann@example.org"
        assert record["roles"] == ["os:etcd:backup", "os:operator"]
        assert record["result"] == "OK"
        assert not any(issuer.token(key)[:40] in line for line in door.lines)
        # The keys are kept.
        await door.exchange(issuer.token("ec"))
        assert issuer.requests == [METADATA, "/keys"]

    run(test, make_config(issuer, more="certificateTTL: 10m"))


def test_roles_of_all_rules_that_match_add_up(issuer: Issuer) -> None:
    async def test(door: Door) -> None:
        matching: list[tuple[dict[str, Any], list[str]]] = [
            ({"email_verified": True}, ["os:etcd:backup", "os:operator", "os:reader"]),
            ({"email_verified": "true", "groups": ["all"]}, ["os:reader"]),
            ({"groups": "ops"}, ["os:etcd:backup", "os:operator"]),
        ]
        for claims, roles in matching:
            certificate = await door.exchange(issuer.token(**claims))
            assert organizations_of(certificate.subject) == roles
        others: list[Any] = [["opsx", "OPS"], {"ops": 1}, None, "all"]
        for groups in others:
            code, text = await door.refuse(issuer.token(groups=groups))
            assert (code, text) == ("PERMISSION_DENIED", "no rule of the config matches the token's claims")

    run(test, make_config(issuer))


def test_without_the_document_the_port_has_no_logins(issuer: Issuer) -> None:
    async def test(door: Door) -> None:
        refusal = ("UNIMPLEMENTED", "unknown service talos.login.LoginService")
        assert await door.refuse(issuer.token()) == refusal
        door.server.set_config(make_config(issuer))
        await door.exchange(issuer.token())
        described = await door.call("Describe", DescribeRequest(), DescribeReply)
        assert (described.issuer, described.client_id) == (issuer.url, CLIENT)
        assert described.ca.strip() == issuer.ca.strip()
        door.server.set_config(None)
        assert await door.refuse(issuer.token()) == refusal

    run(test, None)


def hostile(issuer: Issuer) -> list[tuple[str, str]]:
    """Tokens, and a part of the reason why each does not count."""
    good = issuer.token()
    head, body, signature = good.split(".")
    now = issuer.claims()["iat"]
    none = f"{encode_part({'alg': 'none', 'typ': 'JWT'})}.{body}."
    by_public = issuer.jwk("rsa")["n"].encode()
    symmetric = jwt.encode(issuer.claims(), by_public, "HS256", headers={"kid": "rsa"})
    other = issuer.claims(groups=["ops", "root"])
    return [
        ("", "there is no token"),
        ("x" * 20_000, "more than 16384 characters"),
        ("a.b", "no signed token"),
        (none, 'signed by "none"'),
        (symmetric, 'signed by "HS256"'),
        (f"{head}.{encode_part(other)}.{signature}", "does not count"),
        (f"{head}.{body}.", "does not count"),
        (issuer.token(headers={"kid": "unknown"}), "a key that the issuer does not have"),
        (issuer.token("ec", headers={"kid": "rsa"}), "does not count"),
        (issuer.token(headers={"crit": ["x"], "x": 1}), "no signed token"),
        (issuer.token(headers={"typ": "logout+jwt"}), "another type"),
        (issuer.token(iss=f"{issuer.url}/"), "does not count"),
        (issuer.token(iss=None), "does not count"),
        (issuer.token(aud="kubernetes"), "does not count"),
        (issuer.token(aud=None), "does not count"),
        (issuer.token(aud=[CLIENT, "kubernetes"]), "for several clients and has no azp"),
        (issuer.token(azp="kubernetes"), "issued to another client"),
        (issuer.token(exp=now - 120), "does not count"),
        (issuer.token(exp=None), "does not count"),
        (issuer.token(exp="soon"), "does not count"),
        (issuer.token(exp=1e400), "does not count"),
        (issuer.token(nbf=now + 300), "does not count"),
        (issuer.token(iat=now + 300), "does not count"),
        (issuer.token(sub=None), "does not count"),
        (issuer.token(email=None), 'claim "email" is no name'),
        (issuer.token(email="ann\n"), 'claim "email" is no name'),
        (issuer.token(email="a" * 65), 'claim "email" is no name'),
        (f"{head}.{'W' * 12_000}.{signature}", "does not count"),
    ]


def test_hostile_tokens_do_not_count(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("talos.trustd.login.service.BURST", 10_000.0)

    async def test(door: Door) -> None:
        for token, reason in hostile(issuer):
            code, text = await door.refuse(token)
            assert reason in text, text
            assert code in {"UNAUTHENTICATED", "PERMISSION_DENIED"}
        assert {record["result"] for record in door.records()} <= {"UNAUTHENTICATED", "PERMISSION_DENIED"}
        # Names of keys that were invented made it fetch once.
        assert issuer.requests.count("/keys") == 1
        for token in (
            issuer.token(aud=[CLIENT, "b"], azp=CLIENT),
            issuer.token(exp=issuer.claims()["iat"] - 30),
        ):
            await door.exchange(token)

    run(test, make_config(issuer))


def test_requests_for_certificates_are_checked(issuer: Issuer) -> None:
    async def test(door: Door) -> None:
        weak = make_csr(rsa.generate_private_key(65537, 2048))
        for csr, reason in (
            (b"", "no certificate request"),
            (weak, "neither of an elliptic curve nor Ed25519"),
        ):
            code, text = await door.refuse(issuer.token(), csr)
            assert (code, reason in text) == ("INVALID_ARGUMENT", True)

    run(test, make_config(issuer))


def test_a_client_that_guesses_is_slowed_down(issuer: Issuer) -> None:
    async def test(door: Door) -> None:
        codes = [(await door.refuse("a.b.c"))[0] for _ in range(8)]
        assert codes[0] == "UNAUTHENTICATED"
        assert codes[-1] == "RESOURCE_EXHAUSTED"

    run(test, make_config(issuer))


@pytest.mark.parametrize(
    ("path", "page", "reason"),
    [
        (METADATA, None, "404"),
        (METADATA, b"[]", "name another issuer"),
        (METADATA, b"[" * 100_000, "something else than an object in JSON"),
        (METADATA, b'{"issuer": "https://other"}', "name another issuer"),
        ("/keys", b"{", "something else than an object in JSON"),
        ("/keys", b'{"keys": []}', "no key for RS256"),
        ("/keys", b'{"keys": [{"kty": "oct", "k": "YQ", "kid": "ec"}, 1]}', "no key for RS256"),
        ("/keys", b'{"keys": [' + b"{}," * 64 + b"{}]}", "more than 64"),
        ("/keys", b'{"keys": "' + b"x" * 300_000 + b'"}', "more than 262144 bytes came"),
    ],
)
def test_an_issuer_that_replies_something_else(
    issuer: Issuer, path: str, page: bytes | None, reason: str
) -> None:
    if page is None:
        del issuer.pages[path]
    else:
        issuer.pages[path] = page

    async def test(door: Door) -> None:
        code, text = await door.refuse(issuer.token())
        assert (code, reason in text) == ("UNAVAILABLE", True), text

    run(test, make_config(issuer))


def test_keys_come_from_nowhere_else(issuer: Issuer) -> None:
    metadata = {"issuer": issuer.url, "jwks_uri": issuer.url.replace("https", "http") + "/keys"}
    issuer.pages[METADATA] = json.dumps(metadata).encode()

    async def test(door: Door) -> None:
        assert "no jwks_uri by https" in (await door.refuse(issuer.token()))[1]

    run(test, make_config(issuer))


def test_an_issuer_with_a_certificate_of_others_does_not_count(issuer: Issuer, tmp_path: Path) -> None:
    with serve_issuer(tmp_path) as other:
        config = make_config(issuer)
        config.yaml_marshalled = config.yaml_marshalled.replace(issuer.url.encode(), other.url.encode())

        async def test(door: Door) -> None:
            code, text = await door.refuse(other.token())
            assert code == "UNAVAILABLE"
            assert "certificate is not accepted" in text
            assert other.requests == []

        run(test, config)
