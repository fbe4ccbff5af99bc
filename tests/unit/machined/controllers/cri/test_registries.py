"""Registries, from documents and from the main document."""

from talos.api.definitions.cri_pb2 import RegistriesConfigSpec
from talos.config.read.loader import load
from talos.machined.controllers.cri.registries import make_registries

CONFIG = """\
version: v1alpha1
machine:
  registries:
    mirrors:
      old.example: {endpoints: ["https://mirror.example"], overridePath: true}
    config:
      old.example: {auth: {username: u, password: p}, tls: {insecureSkipVerify: true}}
---
apiVersion: v1alpha1
kind: RegistryMirrorConfig
name: new.example
endpoints: [{url: "https://other.example"}]
skipFallback: true
---
apiVersion: v1alpha1
kind: CRIBaseRuntimeSpecConfig
overrides: {process: {rlimits: [{type: RLIMIT_NOFILE, soft: 1024, hard: 1024}]}}
"""


def test_registries() -> None:
    spec = make_registries(load(CONFIG.encode()))
    old, new = spec.registry_mirrors["old.example"], spec.registry_mirrors["new.example"]
    assert old.mirror_endpoints[0].endpoint_override_path
    assert (new.mirror_endpoints[0].endpoint_endpoint, new.mirror_skip_fallback) == (
        "https://other.example",
        True,
    )
    assert spec.registry_auths["old.example"].registry_username == "u"
    assert spec.registry_tl_ss["old.example"].tls_insecure_skip_verify
    assert make_registries(load(b"version: v1alpha1\nmachine: {}\n")) == RegistriesConfigSpec()
