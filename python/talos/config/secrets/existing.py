"""Secrets bundles from an existing cluster: ``talosctl gen secrets --from-…``.

    bundle_from_config(config) -> SecretsBundle
    bundle_from_kubernetes_pki(Path("/etc/kubernetes/pki"), token) -> SecretsBundle

A fresh one: ``SecretsBundle.generate()`` in ``talos.config.secrets.bundle``.
"""

from dataclasses import replace
from pathlib import Path

from talos.config.contract import CURRENT, Contract
from talos.config.effective import cluster as effective_cluster
from talos.config.effective import secrets as effective_secrets
from talos.config.model import Config
from talos.config.secrets.bundle import SecretsBundle
from talos.pki.certificate import PemPair
from talos.system.errors import UserError
from talos.system.files import read_file

_PKI_FILES = ("ca", "etcd/ca", "front-proxy-ca")


def bundle_from_config(config: Config) -> SecretsBundle:
    """The secrets that a control plane config was made from.

    UserError: when the config lacks one, as a worker's does.
    """
    where = config.source or "config"
    if not config.machine_type.is_control_plane:
        raise UserError(
            f"this is a {config.machine_type.value} config",
            where=where,
            hint="only a control plane's has all secrets",
        )
    bundle = SecretsBundle(
        cluster_id=_text(effective_cluster.cluster_id(config), "the cluster's id", where),
        cluster_secret=_text(effective_cluster.cluster_secret(config), "the cluster's secret", where),
        bootstrap_token=_text(effective_secrets.bootstrap_token(config), "cluster.token", where),
        secretbox_secret=effective_secrets.secretbox_secret(config),
        aescbc_secret=effective_secrets.aescbc_secret(config),
        trustd_token=_text(effective_secrets.machine_token(config), "machine.token", where),
        etcd=_pair(effective_secrets.etcd_ca(config), "cluster.etcd.ca", where),
        kubernetes=_pair(
            effective_secrets.kubernetes_ca(config), "the authority of the Kubernetes API", where
        ),
        aggregator=_pair(effective_secrets.aggregator_ca(config), "the authority of API aggregation", where),
        service_account=effective_secrets.service_account_key(config),
        os=_pair(effective_secrets.os_ca(config), "machine.ca", where),
    )
    bundle.check(where=where)
    return bundle


def bundle_from_kubernetes_pki(
    folder: Path, bootstrap_token: str = "", *, contract: Contract = CURRENT
) -> SecretsBundle:
    """A new bundle with the authorities of an existing Kubernetes cluster.

    UserError: when a file is missing or wrong.
    """
    kubernetes, etcd, aggregator = (
        PemPair(read_file(folder / f"{name}.crt"), read_file(folder / f"{name}.key")) for name in _PKI_FILES
    )
    fresh = SecretsBundle.generate(contract=contract)
    bundle = replace(
        fresh,
        kubernetes=kubernetes,
        etcd=etcd,
        aggregator=aggregator,
        service_account=read_file(folder / "sa.key"),
        bootstrap_token=bootstrap_token or fresh.bootstrap_token,
    )
    bundle.check(where=str(folder))
    return bundle


def _text(value: str, what: str, where: str) -> str:
    if not value:
        raise UserError(f"{what} is missing", where=where)
    return value


def _pair(pair: PemPair | None, what: str, where: str) -> PemPair:
    if pair is None or not pair.key:
        raise UserError(f"{what} is missing or has no key", where=where)
    return pair
