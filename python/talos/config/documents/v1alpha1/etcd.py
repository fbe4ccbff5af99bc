"""``cluster.etcd``."""

from dataclasses import dataclass

from talos.config.documents.certificate import PEMEncodedCertificateAndKey
from talos.config.schema import Section, setting
from talos.config.values import Args


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdConfig(Section):
    """Etcd."""

    image: str | None = setting("container image", example="registry.k8s.io/etcd:v3.7.1")
    ca: PEMEncodedCertificateAndKey | None = setting("certificate authority of etcd")
    extra_args: Args | None = setting("further command line arguments")
    subnet: str | None = setting("network that etcd uses")
    advertised_subnets: tuple[str, ...] | None = setting(
        "networks that etcd announces itself in; ! excludes", example=["10.0.0.0/8"]
    )
    listen_subnets: tuple[str, ...] | None = setting(
        "networks that etcd listens in; ! excludes (default: advertisedSubnets)"
    )
