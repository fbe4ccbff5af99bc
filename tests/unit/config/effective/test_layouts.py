"""The same meaning, from the old layout and from the new one."""

from collections.abc import Callable
from typing import Any

import pytest

from talos.config.check.validate import validate
from talos.config.documents.network.resolver import NameserverConfig
from talos.config.effective import cluster as effective_cluster
from talos.config.effective import machine as effective_machine
from talos.config.effective import network as effective_network
from talos.config.effective import secrets as effective_secrets
from talos.config.read.loader import load
from talos.config.values import Address

OLD = """version: v1alpha1
machine:
  token: t
  certSANs: [a]
  network: {hostname: h, nameservers: [10.0.0.53], searchDomains: [d]}
  time: {disabled: true, servers: [ntp]}
  sysctls: {a: b}
  env: {c: d}
  nodeLabels: {l: "1"}
  nodeTaints: {t: "NoSchedule"}
  nodeAnnotations: {n: "2"}
cluster:
  id: i
  secret: s
  clusterName: demo
  controlPlane: {endpoint: "https://k:6443", localAPIServerPort: 7443}
  network: {dnsDomain: x.local, podSubnets: [10.1.0.0/16], serviceSubnets: [10.2.0.0/16]}
  discovery: {enabled: true, registries: {service: {endpoint: "https://disco/"}}}
"""

NEW = """version: v1alpha1
machine: {token: t, certSANs: [a]}
---
{apiVersion: v1alpha1, kind: HostnameConfig, hostname: h}
---
apiVersion: v1alpha1
kind: ResolverConfig
nameservers: [{address: 10.0.0.53}]
searchDomains: {domains: [d]}
---
{apiVersion: v1alpha1, kind: TimeSyncConfig, enabled: false, ntp: {servers: [ntp], useNTS: false}}
---
{apiVersion: v1alpha1, kind: SysctlConfig, params: {a: b}}
---
{apiVersion: v1alpha1, kind: EnvironmentConfig, variables: {c: d}}
---
{apiVersion: v1alpha1, kind: KubeNodeConfig, labels: {l: "1"}, taints: {t: NoSchedule}, annotations: {n: "2"}}
---
{apiVersion: v1alpha1, kind: DiscoveryIdentityConfig, clusterID: i, clusterSecret: s}
---
{apiVersion: v1alpha1, kind: DiscoveryServiceConfig, name: default, endpoint: "https://disco/"}
---
{apiVersion: v1alpha1, kind: KubeClusterConfig, clusterName: demo, endpoint: "https://k:6443"}
---
{apiVersion: v1alpha1, kind: KubeAPIServerConfig, image: x, apiPort: 7443}
---
apiVersion: v1alpha1
kind: KubeNetworkConfig
dnsDomain: x.local
podSubnets: [10.1.0.0/16]
serviceSubnets: [10.2.0.0/16]
"""

EXPECTED: dict[Callable[..., Any], Any] = {
    effective_secrets.machine_token: "t",
    effective_machine.cert_sans: ("a",),
    effective_network.hostname: "h",
    effective_network.nameservers: (NameserverConfig(address=Address("10.0.0.53")),),
    effective_network.search_domains: ("d",),
    effective_network.time_sync: effective_network.TimeSync(enabled=False, servers=("ntp",)),
    effective_machine.sysctls: {"a": "b"},
    effective_machine.environment: {"c": "d"},
    effective_cluster.cluster_id: "i",
    effective_cluster.cluster_secret: "s",
    effective_cluster.cluster_name: "demo",
    effective_cluster.cluster_endpoint: "https://k:6443",
    effective_cluster.pod_subnets: ("10.1.0.0/16",),
    effective_cluster.service_subnets: ("10.2.0.0/16",),
}


@pytest.mark.parametrize("text", [OLD, NEW], ids=["old", "new"])
@pytest.mark.parametrize("read", EXPECTED, ids=lambda read: read.__name__)
def test_both_layouts_mean_the_same(read: Callable[..., Any], text: str) -> None:
    assert read(load(text)) == EXPECTED[read]


def test_defaults_of_an_empty_config() -> None:
    config = load("")
    assert effective_network.time_sync(config) == effective_network.TimeSync()
    assert effective_secrets.os_ca(config) is None
    assert effective_cluster.pod_subnets(config) == effective_cluster.service_subnets(config) == ()


@pytest.mark.parametrize(
    "text",
    [
        "machine: {}\ncluster: {}\n",
        "machine: {}\ncluster: {network: {dnsDomain: x.local}}\n",
        "apiVersion: v1alpha1\nkind: KubeClusterConfig\nclusterName: demo\nendpoint: https://k:6443\n",
    ],
)
def test_networks_of_a_cluster_that_names_none(text: str) -> None:
    config = load(text)
    assert effective_cluster.pod_subnets(config) == ("10.244.0.0/16",)
    assert effective_cluster.service_subnets(config) == ("10.96.0.0/12",)


def test_encryption_secret_is_found_in_free_form() -> None:
    text = "apiVersion: v1alpha1\nkind: KubeEtcdEncryptionConfig\nconfig: {resources: %s}\n"
    good = "[{providers: [{secretbox: {keys: [{name: key2, secret: hush}]}}, {identity: {}}]}]"
    assert effective_secrets.secretbox_secret(load(text % good)) == "hush"
    for odd in ("[a]", "5", "[{providers: [{secretbox: {keys: []}}]}]", "{secretbox: [1]}"):
        assert effective_secrets.secretbox_secret(load(text % odd)) == ""


def test_parameters_of_both_layouts_are_merged_and_the_documents_goes_first() -> None:
    config = load(
        "machine: {type: worker, sysctls: {a: old, b: old},"
        " sysfs: {c: old, d: old}, env: {e: old, f: old}}\n---\n"
        "{apiVersion: v1alpha1, kind: SysctlConfig, params: {a: new}}\n---\n"
        "{apiVersion: v1alpha1, kind: SysfsConfig, params: {c: new}}\n---\n"
        "{apiVersion: v1alpha1, kind: EnvironmentConfig, variables: {e: new}}\n"
    )
    assert effective_machine.sysctls(config) == {"a": "new", "b": "old"}
    assert effective_machine.sysfs(config) == {"c": "new", "d": "old"}
    assert effective_machine.environment(config) == {"e": "new", "f": "old"}


def test_the_rules_of_a_document_are_read_alone() -> None:
    main = "machine: {type: worker, udev: {rules: [old]}}\n"
    document = "---\n{apiVersion: v1alpha1, kind: UdevRulesConfig, rules: [new]}\n"
    assert effective_machine.udev_rules(load(main)) == ("old",)
    assert effective_machine.udev_rules(load(main + document)) == ("new",)
    notes = [str(note) for note in validate(load(main + document)).notes]
    assert (
        "1:39: machine.udev.rules: no effect: UdevRulesConfig is read alone (move it to UdevRulesConfig)"
        in notes
    )
