"""Settings of the main document that documents replace, and which work until then."""

from talos.config.effective import kubernetes
from talos.config.effective import machine as effective
from talos.config.read.loader import load
from talos.machined.controllers.k8s.kubelet import make_arguments, make_kubelet_config
from talos.resource.objects import to_plain

OLD = """version: v1alpha1
machine:
  files:
    - {path: /etc/cri/conf.d/20-customization.part, op: create, content: "a = 1"}
    - {path: /var/b, op: create, content: c}
  baseRuntimeSpecOverrides: {process: {rlimits: [{type: RLIMIT_NOFILE, hard: 1024, soft: 1024}]}}
  kubelet: {credentialProviderConfig: {apiVersion: kubelet.config.k8s.io/v1, kind: CredentialProviderConfig}}
cluster: {externalCloudProvider: {enabled: true}}
"""
NEW = """---
{apiVersion: v1alpha1, kind: CRICustomizationConfig, name: customization, content: "a = 2"}
---
{apiVersion: v1alpha1, kind: CRICustomizationConfig, name: other, content: "b = 2"}
---
{apiVersion: v1alpha1, kind: CRIBaseRuntimeSpecConfig, overrides: {process: {umask: 7}}}
---
{apiVersion: v1alpha1, kind: KubeCredentialProviderConfig, configuration: {kind: Other}}
"""


def test_settings_of_the_main_document_take_effect() -> None:
    config = load(OLD)
    assert [file.path for file in effective.files(config)] == ["/var/b"]
    assert effective.cri_customizations(config) == {"customization": "a = 1"}
    assert effective.runtime_spec_overrides(config)["process"]["rlimits"][0]["type"] == "RLIMIT_NOFILE"
    spec = make_kubelet_config(config, "")
    assert to_plain(spec.credential_provider_config)["kind"] == "CredentialProviderConfig"
    assert "--cloud-provider=external" in make_arguments(spec, "node", ["10.0.0.1"])


def test_documents_go_before_them() -> None:
    config = load(OLD + NEW)
    assert effective.cri_customizations(config) == {"customization": "a = 2", "other": "b = 2"}
    assert effective.runtime_spec_overrides(config) == {"process": {"umask": 7}}
    assert kubernetes.credential_providers(config) == {"kind": "Other"}


def test_without_a_cloud_the_kubelet_initializes_its_node() -> None:
    spec = make_kubelet_config(load("version: v1alpha1\nmachine: {}\ncluster: {}\n"), "")
    assert not [word for word in make_arguments(spec, "node", ["10.0.0.1"]) if "cloud-provider" in word]
