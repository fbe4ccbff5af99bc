"""The authorities of the Kubernetes API in machine configs, while one takes the other's place."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from talos.config.documents.certificate import (
    CertificateAndKey,
    PEMEncodedCertificate,
    PEMEncodedCertificateAndKey,
)
from talos.config.documents.kubernetes.api_server_ca import KubeAPIServerCAConfig
from talos.config.documents.v1alpha1.cluster import ClusterConfig
from talos.config.documents.v1alpha1.main import V1Alpha1Config
from talos.config.effective import secrets as effective
from talos.config.model import Config
from talos.pki.certificate import PemPair, parse_certificate
from talos.talosctl.client.change import replace_document

ORGANIZATION = "kubernetes"
"""The whole subject of the authorities of new clusters."""


def accept_authority(config: Config, crt: bytes) -> Config:
    """With a further authority accepted."""
    return _set_accepted(config, [*_find_accepted(config), crt])


def refuse_authorities(config: Config, refused: Iterable[bytes]) -> Config:
    """With some authorities accepted no more."""
    gone = {crt.strip() for crt in refused}
    return _set_accepted(config, [one for one in _find_accepted(config) if one.strip() not in gone])


def swap_authority(config: Config, new: PemPair) -> Config:
    """With the new authority issuing, and the one before accepted; workers have no keys."""
    is_control = config.machine_type.is_control_plane
    document, before = config.find(KubeAPIServerCAConfig), effective.kubernetes_ca(config)
    if document is not None and document.issuing_ca is None:
        # A worker's: the first of the accepted ones is the one that issues.
        others = _find_accepted(refuse_authorities(config, [new.crt]))
        return _set_accepted(config, [new.crt, *others])
    if document is not None:
        issuing = CertificateAndKey(
            cert=new.crt.decode("ascii"), key=new.key.decode("ascii") if is_control else None
        )
        config = replace_document(config, document, replace(document, issuing_ca=issuing))
    else:
        main = config.main or V1Alpha1Config()
        pair = PEMEncodedCertificateAndKey(crt=new.crt, key=new.key if is_control else b"")
        cluster = replace(main.cluster or ClusterConfig(), ca=pair)
        config = replace_document(config, main, replace(main, cluster=cluster))
    if before is not None:
        config = accept_authority(config, before.crt)
    return refuse_authorities(config, [new.crt])


def find_left(known: Iterable[Sequence[bytes]]) -> list[bytes]:
    """Of the authorities that each node accepts, its issuing one first, those that a rotation replaces.

    They are what some node issues with, and what an interrupted rotation has left: with the subject that the
    authorities of new clusters have. What else is accepted is the user's.
    """
    issuing, accepted = dict[bytes, None](), dict[bytes, None]()
    for first, *others in filter(None, known):
        issuing[first.strip()] = None
        accepted.update((crt.strip(), None) for crt in others)
    return list(dict.fromkeys([*issuing, *filter(_is_of_cluster, accepted)]))


def _is_of_cluster(crt: bytes) -> bool:
    return parse_certificate(crt).subject.rfc4514_string() == f"O={ORGANIZATION}"


def _find_accepted(config: Config) -> list[bytes]:
    document = config.find(KubeAPIServerCAConfig)
    if document is not None:
        return [crt.encode() for crt in document.accepted_cas or ()]
    return [one.crt for one in (config.cluster and config.cluster.accepted_cas) or () if one.crt]


def _set_accepted(config: Config, wanted: Iterable[bytes]) -> Config:
    accepted = list({crt.strip(): crt for crt in wanted}.values())
    document = config.find(KubeAPIServerCAConfig)
    if document is not None:
        texts = tuple(crt.decode("ascii") for crt in accepted) or None
        return replace_document(config, document, replace(document, accepted_cas=texts))
    main = config.main or V1Alpha1Config()
    authorities = tuple(PEMEncodedCertificate(crt=crt) for crt in accepted) or None
    cluster = replace(main.cluster or ClusterConfig(), accepted_cas=authorities)
    return replace_document(config, main, replace(main, cluster=cluster))
