"""The secrets bundle, ``secrets.yaml``: everything secret that a cluster's configs are made from.

    bundle = SecretsBundle.generate()
    bundle = SecretsBundle.parse(text, where="secrets.yaml")
    text = bundle.dump()

The YAML keys are all lower case; certificates and keys are base64 of PEM.
"""

import base64
import re
import secrets
import string
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from talos.config.contract import CURRENT, DOCUMENTS, RSA_SERVICE_ACCOUNT, SECRETBOX, Contract
from talos.config.problem import ConfigError
from talos.config.read.reader import SectionReader
from talos.config.read.tree import parse_documents
from talos.config.secrets.layout import (
    BundleFile,
    CertsPart,
    ClusterPart,
    KeyPart,
    PairPart,
    SecretsPart,
    TrustdPart,
)
from talos.config.write.plain import to_plain
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType, key_to_pem, make_key, parse_key
from talos.resource.yaml.text import to_yaml
from talos.system.errors import UserError

TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
_TOKEN_ALPHABET = string.ascii_lowercase + string.digits
_SECRET_BYTES = 32  # an AES-256 key


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
        old_encryption = contract < SECRETBOX
        account_type = KeyType.P256 if contract < RSA_SERVICE_ACCOUNT else KeyType.RSA4096
        encode = base64.urlsafe_b64encode if contract < DOCUMENTS else base64.b64encode
        return cls(
            cluster_id=encode(secrets.token_bytes(_SECRET_BYTES)).decode(),
            cluster_secret=make_secret(),
            bootstrap_token=make_token(),
            secretbox_secret="" if old_encryption else make_secret(),
            aescbc_secret=make_secret() if old_encryption else "",
            trustd_token=make_token(),
            etcd=_make_authority(KeyType.P256, not_before, organization="etcd"),
            kubernetes=_make_authority(KeyType.P256, not_before, organization="kubernetes"),
            aggregator=_make_authority(KeyType.P256, not_before),
            service_account=key_to_pem(make_key(account_type)),
            os=_make_authority(KeyType.ED25519, not_before, organization="talos"),
        )

    @classmethod
    def parse(cls, text: str | bytes, *, where: str = "secrets.yaml") -> "SecretsBundle":
        """Read and check a bundle.

        ConfigError: with every malformed value.
        UserError: for the first part that does not fit.
        """
        nodes = parse_documents(text, source=where)
        if len(nodes) != 1:
            raise UserError("no secrets bundle", where=where, hint="make one with: talosctl gen secrets")
        reader = SectionReader(document="", source=where, lenient=True)
        file = cast("BundleFile | None", reader.read(BundleFile, nodes[0]))
        if file is None:
            raise ConfigError(reader.problems)
        bundle = cls(
            cluster_id=file.cluster.id,
            cluster_secret=file.cluster.secret,
            bootstrap_token=file.secrets.bootstrap_token,
            secretbox_secret=file.secrets.secretbox_secret or "",
            aescbc_secret=file.secrets.aescbc_secret or "",
            trustd_token=file.trustd.token,
            etcd=PemPair(file.certs.etcd.crt, file.certs.etcd.key),
            kubernetes=PemPair(file.certs.kubernetes.crt, file.certs.kubernetes.key),
            aggregator=PemPair(file.certs.aggregator.crt, file.certs.aggregator.key),
            service_account=file.certs.service_account.key,
            os=PemPair(file.certs.os.crt, file.certs.os.key),
        )
        bundle.check(where=where)
        return bundle

    def check(self, *, where: str = "secrets") -> None:
        """Refuse a bundle whose parts have the wrong form.

        UserError: for the first mistake.
        """
        if not self.cluster_id:
            raise UserError("is empty", where=f"{where}: cluster.id")
        try:
            length = len(base64.b64decode(self.cluster_secret, validate=True))
        except ValueError as error:
            raise UserError("no base64", where=f"{where}: cluster.secret") from error
        if length != _SECRET_BYTES:
            raise UserError(f"{length} bytes, expected {_SECRET_BYTES}", where=f"{where}: cluster.secret")
        # An existing cluster may have a bootstrap token of any form; Kubernetes checks it.
        if not self.bootstrap_token:
            raise UserError("is empty", where=f"{where}: secrets.bootstraptoken")
        if not TOKEN.fullmatch(self.trustd_token):
            hint = "six characters, a dot, sixteen: [a-z0-9]"
            raise UserError("no token", where=f"{where}: trustdinfo.token", hint=hint)
        if not self.secretbox_secret and not self.aescbc_secret:
            hint = "secretboxencryptionsecret or aescbcencryptionsecret: 32 bytes, base64"
            raise UserError(
                "a secret for the encryption in etcd is missing", where=f"{where}: secrets", hint=hint
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
        file = BundleFile(
            cluster=ClusterPart(id=self.cluster_id, secret=self.cluster_secret),
            secrets=SecretsPart(
                bootstrap_token=self.bootstrap_token,
                secretbox_secret=self.secretbox_secret or None,
                aescbc_secret=self.aescbc_secret or None,
            ),
            trustd=TrustdPart(token=self.trustd_token),
            certs=CertsPart(
                etcd=_file_pair(self.etcd),
                kubernetes=_file_pair(self.kubernetes),
                aggregator=_file_pair(self.aggregator),
                service_account=KeyPart(key=self.service_account),
                os=_file_pair(self.os),
            ),
        )
        return to_yaml(to_plain(file))


def make_token() -> str:
    """A token: six characters, a dot, sixteen characters."""
    text = "".join(secrets.choice(_TOKEN_ALPHABET) for _ in range(22))
    return f"{text[:6]}.{text[6:]}"


def make_secret() -> str:
    """32 random bytes as base64."""
    return base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def _make_authority(key_type: KeyType, not_before: datetime | None, *, organization: str = "") -> PemPair:
    organizations = [organization] if organization else []
    return CertificateAuthority.generate(key_type, organizations=organizations, not_before=not_before).pem


def _file_pair(pair: PemPair) -> PairPart:
    return PairPart(crt=pair.crt, key=pair.key)
