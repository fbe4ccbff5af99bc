"""The effective authorities, keys and tokens of a config."""

from typing import Any, cast

from talos.config.documents.certificate import CertificateAndKey, PEMEncodedCertificateAndKey
from talos.config.documents.kubernetes.aggregator_ca import KubeAggregatorCAConfig
from talos.config.documents.kubernetes.api_server_ca import KubeAPIServerCAConfig
from talos.config.documents.kubernetes.etcd_encryption import KubeEtcdEncryptionConfig
from talos.config.documents.kubernetes.service_account import KubeServiceAccountConfig
from talos.config.effective.sections import find_cluster, find_machine
from talos.config.model import Config
from talos.pki.certificate import PemPair


def machine_token(config: Config) -> str:
    """The token that trustd requires."""
    return find_machine(config).token


def os_ca(config: Config) -> PemPair | None:
    """The authority of the node's API; on workers without its key."""
    return _pair(find_machine(config).ca)


def os_accepted_cas(config: Config) -> tuple[bytes, ...]:
    """Certificates of further authorities whose clients are accepted."""
    return tuple(ca.crt for ca in find_machine(config).accepted_cas or () if ca.crt)


def bootstrap_token(config: Config) -> str:
    """The token with which kubelets join."""
    return find_cluster(config).token or ""


def etcd_ca(config: Config) -> PemPair | None:
    """The authority of etcd."""
    etcd = find_cluster(config).etcd
    return _pair(etcd.ca) if etcd else None


def kubernetes_ca(config: Config) -> PemPair | None:
    """The authority of the Kubernetes API; on workers without its key."""
    document = config.find(KubeAPIServerCAConfig)
    if document is None:
        return _pair(find_cluster(config).ca)
    if document.issuing_ca is not None:
        return _text_pair(document.issuing_ca)
    return PemPair(document.accepted_cas[0].encode()) if document.accepted_cas else None


def kubernetes_cas(config: Config) -> list[bytes]:
    """The authorities of the Kubernetes API that a node accepts, PEM, the issuing one first."""
    document = config.find(KubeAPIServerCAConfig)
    accepted = [crt.encode() for crt in (document.accepted_cas if document else None) or ()]
    if document is None:
        accepted = [found.crt for found in find_cluster(config).accepted_cas or () if found.crt]
    issuing = kubernetes_ca(config)
    return list(dict.fromkeys([*([issuing.crt] if issuing else []), *accepted]))


def aggregator_ca(config: Config) -> PemPair | None:
    """The authority of API aggregation."""
    document = config.find(KubeAggregatorCAConfig)
    if document is None:
        return _pair(find_cluster(config).aggregator_ca)
    return _text_pair(document.issuing_ca) if document.issuing_ca else None


def service_account_key(config: Config) -> bytes:
    """The key that signs service account tokens, PEM."""
    document = config.find(KubeServiceAccountConfig)
    if document is not None:
        return document.issuer.private_key.encode()
    key = find_cluster(config).service_account
    return (key and key.key) or b""


def secretbox_secret(config: Config) -> str:
    """The key for secretbox encryption in etcd."""
    return _encryption_secret(config, "secretbox") or find_cluster(config).secretbox_encryption_secret or ""


def aescbc_secret(config: Config) -> str:
    """The key for AES-CBC encryption in etcd."""
    return _encryption_secret(config, "aescbc") or find_cluster(config).aescbc_encryption_secret or ""


def encrypts_secrets(config: Config) -> bool:
    """Whether the API server encrypts anything that it stores in etcd."""
    document = config.find(KubeEtcdEncryptionConfig)
    given = document.config if document else None
    others = any(_find_key(given, provider) for provider in ("aesgcm", "kms"))
    return bool(others or secretbox_secret(config) or aescbc_secret(config))


def _pair(pair: PEMEncodedCertificateAndKey | None) -> PemPair | None:
    return PemPair(pair.crt, pair.key or b"") if pair and pair.crt else None


def _text_pair(pair: CertificateAndKey) -> PemPair | None:
    return PemPair(pair.cert.encode(), (pair.key or "").encode()) if pair.cert else None


def _encryption_secret(config: Config, provider: str) -> str:
    document = config.find(KubeEtcdEncryptionConfig)
    provider_config = _find_key(document.config, provider) if document else None
    keys = _find_key(provider_config, "keys")
    first = cast("list[Any]", keys)[0] if isinstance(keys, list) and keys else None
    return str(_find_key(first, "secret") or "")


def _find_key(value: Any, key: str) -> Any:
    """The first value under a key anywhere in free-form data, which may have any shape."""
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        found = (_find_key(item, key) for item in mapping.values())
        return mapping[key] if key in mapping else next((item for item in found if item is not None), None)
    if isinstance(value, list):
        items = (_find_key(item, key) for item in cast("list[Any]", value))
        return next((item for item in items if item is not None), None)
    return None
