"""What a config leaves in the clear."""

from collections.abc import Iterator

from talos.config.check.note import Note
from talos.config.effective import cluster as effective_cluster
from talos.config.effective import secrets as effective_secrets
from talos.config.model import Config


def find_unencrypted(config: Config) -> Iterator[Note]:
    """A control plane node whose API server would store Secrets in etcd as they are."""
    authority = effective_secrets.kubernetes_ca(config)
    if config.main is None or not config.machine_type.is_control_plane or authority is None:
        return
    if (
        authority.key
        and effective_cluster.cluster_endpoint(config)
        and not effective_secrets.encrypts_secrets(config)
    ):
        yield Note(
            "is missing: Secrets lie in etcd in the clear",
            config.main,
            "cluster.secretboxEncryptionSecret",
            hint="openssl rand -base64 32, the same on every control plane node",
        )
