"""The layout of ``secrets.yaml``: all keys in lower case, certificates and keys base64 of PEM."""

from dataclasses import dataclass

from talos.config.schema import REQUIRED, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPart(Section):
    """Id and secret of the cluster for discovery."""

    id: str = setting("the cluster's id for discovery", default=REQUIRED)
    secret: str = setting("what discovery data is encrypted with", default=REQUIRED, secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsPart(Section):
    """Secrets of Kubernetes."""

    bootstrap_token: str = setting(
        "token with which kubelets join", key="bootstraptoken", default=REQUIRED, secret=True
    )
    secretbox_secret: str | None = setting(
        "key for secretbox encryption in etcd", key="secretboxencryptionsecret", secret=True
    )
    aescbc_secret: str | None = setting(
        "key for AES-CBC encryption in etcd", key="aescbcencryptionsecret", secret=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustdPart(Section):
    """The tokens with which nodes request certificates."""

    token: str = setting("token with which nodes get their certificates", default=REQUIRED, secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPart(Section):
    """An authority."""

    crt: bytes = setting("certificate", default=REQUIRED)
    key: bytes = setting("private key", default=REQUIRED, secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPart(Section):
    """A key alone."""

    key: bytes = setting("private key", default=REQUIRED, secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertsPart(Section):
    """The authorities."""

    etcd: PairPart = setting("authority of etcd", default=REQUIRED)
    kubernetes: PairPart = setting("authority of the Kubernetes API", key="k8s", default=REQUIRED)
    aggregator: PairPart = setting("authority of API aggregation", key="k8saggregator", default=REQUIRED)
    service_account: KeyPart = setting(
        "key that signs service account tokens", key="k8sserviceaccount", default=REQUIRED
    )
    os: PairPart = setting("authority of the nodes' API", default=REQUIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFile(Section):
    """The whole file."""

    cluster: ClusterPart = setting("what members know each other by", default=REQUIRED)
    secrets: SecretsPart = setting("secrets of Kubernetes", default=REQUIRED)
    trustd: TrustdPart = setting("what nodes show", key="trustdinfo", default=REQUIRED)
    certs: CertsPart = setting("the authorities", default=REQUIRED)
