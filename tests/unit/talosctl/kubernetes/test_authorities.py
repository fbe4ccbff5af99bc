"""One authority of Kubernetes takes another's place, in configs of both forms, of both kinds of node."""

import base64

import pytest

from talos.config.effective import secrets as effective
from talos.config.model import Config
from talos.config.read.loader import dump, load
from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType
from talos.talosctl.kubernetes.authorities import (
    accept_authority,
    find_left,
    refuse_authorities,
    swap_authority,
)

OLD, NEW = (CertificateAuthority.generate(KeyType.P256, organizations=["kubernetes"]).pem for _ in range(2))


def indent(text: bytes) -> str:
    return "".join(f"    {line}\n" for line in text.decode().splitlines())


def make_config(form: str, kind: str) -> Config:
    text = f"version: v1alpha1\nmachine: {{type: {kind}}}\n"
    is_control = kind == "controlplane"
    if form == "old":
        crt, key = (base64.b64encode(part).decode() for part in (OLD.crt, OLD.key))
        return load(f"{text}cluster: {{ca: {{crt: {crt}, key: {key if is_control else ''}}}}}\n")
    text += "---\napiVersion: v1alpha1\nkind: KubeAPIServerCAConfig\n"
    if is_control:
        return load(f"{text}issuingCA:\n  cert: |\n{indent(OLD.crt)}  key: |\n{indent(OLD.key)}")
    return load(f"{text}acceptedCAs:\n  - |\n{indent(OLD.crt)}")


def accepted(config: Config) -> list[bytes]:
    """All that a node trusts, the issuing one first; by the nodes' own reading."""
    return [crt.strip() for crt in effective.kubernetes_cas(config)]


@pytest.mark.parametrize("form", ["old", "new"])
@pytest.mark.parametrize("kind", ["controlplane", "worker"])
def test_each_step_is_what_nodes_read(form: str, kind: str) -> None:
    config = make_config(form, kind)
    old, new = OLD.crt.strip(), NEW.crt.strip()
    assert accepted(config) == [old]
    config = load(dump(accept_authority(config, NEW.crt)))
    assert accepted(config) == [old, new]
    assert accept_authority(config, NEW.crt).documents == config.documents
    config = load(dump(swap_authority(config, NEW)))
    assert accepted(config) == [new, old]
    issuing = effective.kubernetes_ca(config)
    assert issuing is not None
    assert issuing.key.strip() == (NEW.key.strip() if kind == "controlplane" else b"")
    config = load(dump(refuse_authorities(config, [OLD.crt])))
    assert accepted(config) == [new]


def test_what_an_interrupted_rotation_left_is_found_and_what_is_the_users_is_not() -> None:
    users = CertificateAuthority.generate(KeyType.P256, organizations=["example"]).pem.crt.strip()
    lost = CertificateAuthority.generate(KeyType.P256, organizations=["kubernetes"]).pem.crt.strip()
    old, new = OLD.crt.strip(), NEW.crt.strip()
    assert find_left([[old, users], [old, users]]) == [old]
    # One node accepts a new one already, another even to issue with it.
    assert find_left([[old, lost, users], [old, users]]) == [old, lost]
    assert find_left([[new, old], [old, new], [old, new]]) == [new, old]
    assert find_left([]) == []
