"""The secrets bundle, ``secrets.yaml``: everything secret that a cluster's configs are made from.

    bundle = SecretsBundle.generate()
    bundle = SecretsBundle.parse(text, where="secrets.yaml")
    text = bundle.dump()

The YAML keys are all lower case; certificates and keys are base64 of PEM.
"""

import base64
import binascii
import re
import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import yaml

from talos.config.contract import CURRENT, Contract
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType, key_to_pem, make_key, parse_key
from talos.system.errors import UserError

TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
_TOKEN_ALPHABET = string.ascii_lowercase + string.digits
_SECRET_BYTES = 32  # an AES-256 key

_URL_SAFE_ID_BEFORE: Contract = (1, 14)
_ECDSA_SERVICE_ACCOUNT_BEFORE: Contract = (1, 7)
_AESCBC_BEFORE: Contract = (1, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsBundle:
    """All secrets of one cluster. One of the two encryption secrets is empty."""

    cluster_id: str
    cluster_secret: str = field(repr=False)
    bootstrap_token: str = field(repr=False)
    secretbox_secret: str = field(default="", repr=False)
    aescbc_secret: str = field(default="", repr=False)
    trustd_token: str = field(repr=False)
    etcd: PemPair
    kubernetes: PemPair
    aggregator: PemPair
    service_account: bytes = field(repr=False)
    os: PemPair

    @classmethod
    def generate(cls, *, contract: Contract = CURRENT, not_before: datetime | None = None) -> "SecretsBundle":
        """Fresh secrets, in the form that this version of Talos expects."""
        old_encryption = contract < _AESCBC_BEFORE
        account_type = KeyType.P256 if contract < _ECDSA_SERVICE_ACCOUNT_BEFORE else KeyType.RSA4096
        encode = base64.urlsafe_b64encode if contract < _URL_SAFE_ID_BEFORE else base64.b64encode
        return cls(
            cluster_id=encode(secrets.token_bytes(_SECRET_BYTES)).decode(),
            cluster_secret=make_secret(),
            bootstrap_token=make_token(),
            secretbox_secret="" if old_encryption else make_secret(),
            aescbc_secret=make_secret() if old_encryption else "",
            trustd_token=make_token(),
            etcd=_make_authority(KeyType.P256, not_before, organization="etcd"),
            kubernetes=_make_authority(KeyType.P256, not_before, organization="kubernetes"),
            aggregator=_make_authority(KeyType.P256, not_before, common_name="front-proxy"),
            service_account=key_to_pem(make_key(account_type)),
            os=_make_authority(KeyType.ED25519, not_before, organization="talos"),
        )

    @classmethod
    def parse(cls, text: str, *, where: str = "secrets.yaml") -> "SecretsBundle":
        """Read and check a bundle.

        Raises:
            UserError: with the first thing that is wrong.
        """
        try:
            document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
        except yaml.YAMLError as error:
            raise UserError(_describe(error), where=where) from error
        reader = _Reader(where, document)
        bundle = cls(
            cluster_id=reader.text("cluster.id"),
            cluster_secret=reader.text("cluster.secret"),
            bootstrap_token=reader.text("secrets.bootstraptoken"),
            secretbox_secret=reader.text("secrets.secretboxencryptionsecret", optional=True),
            aescbc_secret=reader.text("secrets.aescbcencryptionsecret", optional=True),
            trustd_token=reader.text("trustdinfo.token"),
            etcd=reader.pair("certs.etcd"),
            kubernetes=reader.pair("certs.k8s"),
            aggregator=reader.pair("certs.k8saggregator"),
            service_account=reader.pem("certs.k8sserviceaccount.key"),
            os=reader.pair("certs.os"),
        )
        reader.check_unknown()
        bundle.check(where=where)
        return bundle

    def check(self, *, where: str = "secrets") -> None:
        """Refuse a bundle whose parts have the wrong form.

        Raises:
            UserError: with the first thing that is wrong.
        """
        try:
            length = len(base64.b64decode(self.cluster_secret, validate=True))
        except binascii.Error as error:
            raise UserError("no base64", where=f"{where}: cluster.secret") from error
        if length != _SECRET_BYTES:
            raise UserError(f"{length} bytes, expected {_SECRET_BYTES}", where=f"{where}: cluster.secret")
        for path, token in (
            ("secrets.bootstraptoken", self.bootstrap_token),
            ("trustdinfo.token", self.trustd_token),
        ):
            if not TOKEN.fullmatch(token):
                raise UserError(
                    "no token", where=f"{where}: {path}", hint="six characters, a dot, sixteen: [a-z0-9]"
                )
        for path, pair in (
            ("certs.etcd", self.etcd),
            ("certs.k8s", self.kubernetes),
            ("certs.k8saggregator", self.aggregator),
            ("certs.os", self.os),
        ):
            CertificateAuthority.from_pem(pair.crt, pair.key, where=f"{where}: {path}")
        parse_key(self.service_account, where=f"{where}: certs.k8sserviceaccount.key")

    def dump(self) -> str:
        """The bundle as YAML."""
        encryption = {
            "secretboxencryptionsecret": self.secretbox_secret,
            "aescbcencryptionsecret": self.aescbc_secret,
        }
        document = {
            "cluster": {"id": self.cluster_id, "secret": self.cluster_secret},
            "secrets": {
                "bootstraptoken": self.bootstrap_token,
                **{key: value for key, value in encryption.items() if value},
            },
            "trustdinfo": {"token": self.trustd_token},
            "certs": {
                "etcd": _pair_to_yaml(self.etcd),
                "k8s": _pair_to_yaml(self.kubernetes),
                "k8saggregator": _pair_to_yaml(self.aggregator),
                "k8sserviceaccount": {"key": base64.b64encode(self.service_account).decode()},
                "os": _pair_to_yaml(self.os),
            },
        }
        return yaml.safe_dump(document, sort_keys=False, indent=4, width=2**31, default_flow_style=False)


def make_token() -> str:
    """A token: six characters, a dot, sixteen characters."""
    text = "".join(secrets.choice(_TOKEN_ALPHABET) for _ in range(22))
    return f"{text[:6]}.{text[6:]}"


def make_secret() -> str:
    """32 random bytes as base64."""
    return base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def _make_authority(
    key_type: KeyType, not_before: datetime | None, *, organization: str = "", common_name: str = ""
) -> PemPair:
    organizations = [organization] if organization else []
    return CertificateAuthority.generate(
        key_type, common_name=common_name, organizations=organizations, not_before=not_before
    ).pem


def _pair_to_yaml(pair: PemPair) -> Mapping[str, str]:
    return {"crt": base64.b64encode(pair.crt).decode(), "key": base64.b64encode(pair.key).decode()}


def _describe(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return " ".join(str(error).split())


class _Reader:
    """Takes values out of the document by path and remembers which it took."""

    def __init__(self, where: str, document: Any) -> None:
        if not isinstance(document, dict):
            raise UserError("no secrets bundle", where=where, hint="make one with: talosctl gen secrets")
        self._where = where
        self._document: dict[str, Any] = document
        self._taken: set[str] = set()

    def text(self, path: str, *, optional: bool = False) -> str:
        self._taken.add(path)
        value: Any = self._document
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is None and optional:
            return ""
        if not isinstance(value, str) or not (value or optional):
            problem = (
                "missing" if value is None or value == "" else f"expected text, got {type(value).__name__}"
            )
            raise UserError(problem, where=f"{self._where}: {path}")
        return value

    def pem(self, path: str) -> bytes:
        try:
            return base64.b64decode(self.text(path), validate=True)
        except binascii.Error as error:
            raise UserError("no base64", where=f"{self._where}: {path}") from error

    def pair(self, path: str) -> PemPair:
        return PemPair(self.pem(f"{path}.crt"), self.pem(f"{path}.key"))

    def check_unknown(self) -> None:
        unknown = sorted(set(_leaves(self._document)) - self._taken)
        if unknown:
            raise UserError(f"unknown key {unknown[0]}", where=self._where)


def _leaves(value: Any, path: str = "") -> list[str]:
    if not isinstance(value, dict) or (path and not value):
        return [path]
    return [
        leaf for key, below in value.items() for leaf in _leaves(below, f"{path}.{key}" if path else str(key))
    ]
