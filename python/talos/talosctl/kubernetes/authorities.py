"""The authorities of the Kubernetes API in machine configs, while one takes the other's place."""

from collections.abc import Iterable
from dataclasses import replace

from talos.config.documents.certificate import (
    CertificateAndKey,
    PEMEncodedCertificate,
    PEMEncodedCertificateAndKey,
)
from talos.config.documents.kubernetes.api_server_ca import KubeAPIServerCAConfig
from talos.config.documents.v1alpha1.cluster import ClusterConfig
from talos.config.documents.v1alpha1.main import V1Alpha1Config
from talos.config.model import Config
from talos.pki.certificate import PemPair
from talos.talosctl.client.change import replace_document


def accept_authority(config: Config, crt: bytes) -> Config:
    """With a further authority accepted."""
    return _set_accepted(config, [*_find_accepted(config), crt])


def refuse_authority(config: Config, crt: bytes) -> Config:
    """With an authority accepted no more."""
    return _set_accepted(config, [one for one in _find_accepted(config) if one.strip() != crt.strip()])


def swap_authority(config: Config, old: bytes, new: PemPair) -> Config:
    """With the new authority issuing, and the old one accepted; workers have no keys."""
    is_control = config.machine_type.is_control_plane
    document = config.find(KubeAPIServerCAConfig)
    if document is not None and document.issuing_ca is None:
        # A worker's: the first of the accepted ones is the one that issues.
        others = _find_accepted(refuse_authority(refuse_authority(config, new.crt), old))
        return _set_accepted(config, [new.crt, old, *others])
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
    return refuse_authority(accept_authority(config, old), new.crt)


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
