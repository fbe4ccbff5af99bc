"""Authorities and keys that upstream accepts and with which a node can't serve."""

from collections.abc import Iterator

from talos.config.check.note import Note
from talos.config.documents.kubernetes.api_server_ca import KubeAPIServerCAConfig
from talos.config.effective import secrets as effective
from talos.config.model import Config
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import PemPair, parse_certificate
from talos.system.errors import UserError


def find_unusable(config: Config) -> Iterator[Note]:
    """Each authority that is not a certificate, or whose key belongs to another one."""
    document = config.find(KubeAPIServerCAConfig)
    kubernetes = Note.at(document, "issuingCA") if document else Note.at(config.main, "cluster.ca")
    for pair, at in (
        (effective.os_ca(config), Note.at(config.main, "machine.ca")),
        (effective.kubernetes_ca(config), kubernetes),
        (effective.etcd_ca(config), Note.at(config.main, "cluster.etcd.ca")),
    ):
        if pair is not None:
            yield from _check_pair(pair, at)
    for index, crt in enumerate(effective.os_accepted_cas(config)):
        yield from _check_pair(PemPair(crt), Note.at(config.main, f"machine.acceptedCAs[{index}]"))


def _check_pair(pair: PemPair, at: Note) -> Iterator[Note]:
    try:
        if pair.key:
            CertificateAuthority.from_pem(pair.crt, pair.key)
        else:
            parse_certificate(pair.crt)
    except UserError as error:
        yield at.find(error.message, hint=error.hint)
