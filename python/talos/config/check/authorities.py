"""Authorities and keys that upstream accepts and with which a node can't serve."""

from collections.abc import Iterator

from talos.config.check.note import Note
from talos.config.documents.kubernetes.aggregator_ca import KubeAggregatorCAConfig
from talos.config.documents.kubernetes.api_server_ca import KubeAPIServerCAConfig
from talos.config.documents.kubernetes.service_account import KubeServiceAccountConfig
from talos.config.effective import secrets as effective
from talos.config.model import Config
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import PemPair, parse_certificate
from talos.pki.keys import parse_key
from talos.system.errors import UserError


def find_unusable(config: Config) -> Iterator[Note]:
    """Each authority that is not a certificate, or whose key belongs to another one; a key that is none."""
    for pair, at in _find_authorities(config):
        try:
            if pair.key:
                CertificateAuthority.from_pem(pair.crt, pair.key)
            else:
                parse_certificate(pair.crt)
        except UserError as error:
            yield at.find(error.message, hint=error.hint)
    yield from _check_service_account(config)


def _find_authorities(config: Config) -> Iterator[tuple[PemPair, Note]]:
    """Each authority, with its key where the config has that, and its place."""
    servers, aggregator = config.find(KubeAPIServerCAConfig), config.find(KubeAggregatorCAConfig)
    for pair, at in (
        (effective.os_ca(config), Note.at(config.main, "machine.ca")),
        (effective.etcd_ca(config), Note.at(config.main, "cluster.etcd.ca")),
        (None if servers else effective.kubernetes_ca(config), Note.at(config.main, "cluster.ca")),
        (
            None if aggregator else effective.aggregator_ca(config),
            Note.at(config.main, "cluster.aggregatorCA"),
        ),
    ):
        if pair is not None:
            yield pair, at
    for index, crt in enumerate(effective.os_accepted_cas(config)):
        yield PemPair(crt), Note.at(config.main, f"machine.acceptedCAs[{index}]")
    for document in (servers, aggregator):
        if document is not None:
            yield from _find_kubernetes(document)


def _find_kubernetes(
    document: KubeAPIServerCAConfig | KubeAggregatorCAConfig,
) -> Iterator[tuple[PemPair, Note]]:
    issuing = document.issuing_ca
    if issuing is not None and issuing.cert:
        pair = PemPair(issuing.cert.encode(), (issuing.key or "").encode())
        yield pair, Note.at(document, "issuingCA")
    for index, crt in enumerate(document.accepted_cas or ()):
        yield PemPair(crt.encode()), Note.at(document, f"acceptedCAs[{index}]")


def _check_service_account(config: Config) -> Iterator[Note]:
    key, document = effective.service_account_key(config), config.find(KubeServiceAccountConfig)
    legacy = Note.at(config.main, "cluster.serviceAccount.key")
    at = Note.at(document, "issuer.privateKey") if document else legacy
    if not key:
        return
    try:
        parse_key(key)
    except UserError as error:
        yield at.find(error.message, hint=error.hint)
