from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.config import yaml_text

from talos.config.read.loader import load
from talos.config.secrets.bundle import SecretsBundle
from talos.config.secrets.existing import bundle_from_config, bundle_from_kubernetes_pki
from talos.system.errors import UserError

LEGACY = """version: v1alpha1
machine:
  type: controlplane
  token: {trustd}
  ca: {{crt: {os.crt}, key: {os.key}}}
cluster:
  id: {id}
  secret: {secret}
  token: {bootstrap}
  secretboxEncryptionSecret: {secretbox}
  ca: {{crt: {kubernetes.crt}, key: {kubernetes.key}}}
  aggregatorCA: {{crt: {aggregator.crt}, key: {aggregator.key}}}
  serviceAccount: {{key: {account}}}
  etcd: {{ca: {{crt: {etcd.crt}, key: {etcd.key}}}}}
"""


def test_bundle_comes_back_from_a_control_plane_config(control_plane: str, bundle: SecretsBundle) -> None:
    assert bundle_from_config(load(control_plane)) == bundle


def test_bundle_comes_back_from_a_config_of_the_old_layout(bundle: SecretsBundle) -> None:
    certs = yaml_text.read(bundle.dump())["certs"]

    class Pair:
        def __init__(self, name: str) -> None:
            self.crt, self.key = certs[name]["crt"], certs[name]["key"]

    text = LEGACY.format(
        trustd=bundle.trustd_token,
        id=bundle.cluster_id,
        secret=bundle.cluster_secret,
        bootstrap=bundle.bootstrap_token,
        secretbox=bundle.secretbox_secret,
        account=certs["k8sserviceaccount"]["key"],
        os=Pair("os"),
        etcd=Pair("etcd"),
        kubernetes=Pair("k8s"),
        aggregator=Pair("k8saggregator"),
    )
    assert bundle_from_config(load(text)) == bundle


def test_a_worker_does_not_know_enough(worker: str) -> None:
    with pytest.raises(UserError, match="this is a worker config"):
        bundle_from_config(load(worker))


def test_existing_kubernetes_keeps_its_authorities(tmp_path: Path, bundle: SecretsBundle) -> None:
    (tmp_path / "etcd").mkdir()
    pairs = {"ca": bundle.kubernetes, "etcd/ca": bundle.etcd, "front-proxy-ca": bundle.aggregator}
    for name, pair in pairs.items():
        (tmp_path / f"{name}.crt").write_bytes(pair.crt)
        (tmp_path / f"{name}.key").write_bytes(pair.key)
    with pytest.raises(UserError, match=r"sa\.key: can't be read: No such file"):
        bundle_from_kubernetes_pki(tmp_path)
    (tmp_path / "sa.key").write_bytes(bundle.service_account)
    taken = bundle_from_kubernetes_pki(tmp_path, "abcdef.0123456789abcdef")
    assert (taken.kubernetes, taken.etcd, taken.aggregator) == (
        bundle.kubernetes,
        bundle.etcd,
        bundle.aggregator,
    )
    assert taken.service_account == bundle.service_account
    assert taken.bootstrap_token == "abcdef.0123456789abcdef"
    assert taken.os != bundle.os


def test_a_damaged_bundle_is_refused(bundle: SecretsBundle) -> None:
    with pytest.raises(UserError, match="the key does not belong to the certificate"):
        replace(bundle, os=bundle.etcd, etcd=replace(bundle.etcd, key=bundle.kubernetes.key)).check()
