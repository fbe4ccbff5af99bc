# ruff: noqa: E501 - messages stand whole, so that they can be searched for
from typing import Any

import pytest
from tests.unit.config import yaml_text

from talos.config.change.patch import apply_patches, parse_patch
from talos.config.problem import ConfigError

BASE = """version: v1alpha1
machine:
  type: worker
  certSANs: [a]
  sysctls: {a: "1", b: "2"}
  network:
    interfaces:
    - interface: eth0
      addresses: [10.0.0.1/24]
      vlans: [{vlanId: 5, mtu: 1400}]
cluster:
  network: {podSubnets: [10.244.0.0/16]}
---
apiVersion: v1alpha1
kind: LinkConfig
name: eth1
mtu: 1500
"""


def patched(*patches: str) -> list[Any]:
    return yaml_text.read_all(apply_patches(BASE, [parse_patch(patch) for patch in patches]))


def test_mappings_merge() -> None:
    main, _ = patched("machine: {sysctls: {b: '3', c: '4'}, token: t}")
    assert main["machine"]["sysctls"] == {"a": "1", "b": "3", "c": "4"}
    assert main["machine"]["token"] == "t"


def test_lists_are_appended_or_replaced_as_declared() -> None:
    main, _ = patched("machine: {certSANs: [b]}\ncluster: {network: {podSubnets: [10.9.0.0/16]}}")
    assert main["machine"]["certSANs"] == ["a", "b"]
    assert main["cluster"]["network"]["podSubnets"] == ["10.9.0.0/16"]


def test_lists_with_a_key_merge_by_it() -> None:
    (main, _) = patched(
        "machine: {network: {interfaces: [{interface: eth0, mtu: 9000, vlans: [{vlanId: 5, dhcp: true}]}, {interface: eth9}]}}"
    )
    first, second = main["machine"]["network"]["interfaces"]
    assert first == {
        "interface": "eth0",
        "addresses": ["10.0.0.1/24"],
        "vlans": [{"routes": [], "dhcp": True, "vlanId": 5, "mtu": 1400}],
        "mtu": 9000,
    }
    assert second == {"interface": "eth9"}


def test_documents_are_found_by_kind_and_name_or_added() -> None:
    _, link, new, host = patched(
        "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth1\nup: true\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: eth2\n",
        "apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: x\n",
    )
    assert link == {"apiVersion": "v1alpha1", "kind": "LinkConfig", "name": "eth1", "up": True, "mtu": 1500}
    assert new["name"] == "eth2"
    assert host["hostname"] == "x"


def test_deletion_of_document_section_key_and_item() -> None:
    documents = patched(
        "machine: {sysctls: {a: {$patch: delete}}, network: {interfaces: [{$patch: delete, interface: eth0}]}}\n"
        "cluster: {network: {$patch: delete}}\n---\napiVersion: v1alpha1\nkind: LinkConfig\nname: eth1\n$patch: delete\n"
    )
    (main,) = documents
    assert main["machine"]["sysctls"] == {"b": "2"}
    assert main["machine"]["network"] == {"interfaces": []}
    assert main["cluster"] == {}


def test_deleting_what_is_not_there_is_no_error() -> None:
    assert patched(
        "machine: {kubelet: {$patch: delete}}\n---\napiVersion: v1alpha1\nkind: KubeSpanConfig\n$patch: delete\n"
    ) == patched("machine: {}")


def test_free_form_objects_merge_deeply() -> None:
    base = "apiVersion: v1alpha1\nkind: KubeletConfig\nimage: x\nconfig: {a: {b: 1, c: 2}, l: [1]}\n"
    patch = parse_patch("apiVersion: v1alpha1\nkind: KubeletConfig\nconfig: {a: {c: 3}, l: [2]}\n")
    (document,) = yaml_text.read_all(apply_patches(base, [patch]))
    assert document["config"] == {"a": {"b": 1, "c": 3}, "l": [1, 2]}


def test_json_patch() -> None:
    base = BASE.partition("---")[0]
    patch = parse_patch(
        '[{"op": "test", "path": "/machine/certSANs/0", "value": "a"},'
        ' {"op": "add", "path": "/machine/certSANs/-", "value": "z"},'
        ' {"op": "add", "path": "/machine/certSANs/0", "value": "first"},'
        ' {"op": "replace", "path": "/machine/sysctls/a", "value": "9"},'
        ' {"op": "copy", "from": "/machine/sysctls/a", "path": "/machine/sysctls/x~1y"},'
        ' {"op": "move", "from": "/machine/sysctls/b", "path": "/machine/sysctls/m~0n"},'
        ' {"op": "remove", "path": "/machine/network"}]'
    )
    machine = yaml_text.read(apply_patches(base, [patch]))["machine"]
    assert machine["certSANs"] == ["first", "a", "z"]
    assert machine["sysctls"] == {"a": "9", "x/y": "9", "m~n": "2"}
    assert "network" not in machine


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ("machine: {tokn: x}", 'patch:1:11: machine.tokn: unknown key (did you mean "token"?)'),
        (
            "machine: {certSANs: x}",
            'patch:1:21: machine.certSANs: expected a list, got "x" (begin each item with -)',
        ),
        ("apiVersion: v1alpha1\nkind: Foo\n", 'patch:2:7: kind: unknown kind "Foo"'),
        ("just words", "patch:1:1: a document must be a mapping"),
        (
            '[{"op": "zap", "path": ""}, 5]',
            'patch: [0]: op "zap" is not allowed (one of: add, replace, test, remove, move, copy)\npatch: [1]: expected an operation with op and path',
        ),
        ('[{"op": "add", "path": "/a"}]', "patch: [0]: value is missing"),
        ('[{"op": "remove", "path": "a"}]', 'patch: [0]: "a" is no JSON pointer (it begins with /)'),
        (
            '[{"op": "remove", "path": "/machine"}]',
            "patch: a JSON patch fits a config of one document, this one has 2 (write it as a strategic merge patch)",
        ),
    ],
)
def test_bad_patch_is_refused(patch: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        patched(patch)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ('[{"op": "remove", "path": "/nope"}]', 'patch: [0] remove /nope: there is no "nope"'),
        (
            '[{"op": "test", "path": "/version", "value": 1}]',
            "patch: [0] test /version: the value is another one",
        ),
        (
            '[{"op": "add", "path": "/machine/certSANs/7", "value": 1}]',
            'patch: [0] add /machine/certSANs/7: there is no item "7"',
        ),
        (
            '[{"op": "add", "path": "/machine/kubelt", "value": {}}]',
            'the patched config:8:5: machine.kubelt: unknown key (did you mean "kubelet"?)',
        ),
        (
            '[{"op": "replace", "path": "", "value": 5}]',
            "the patched config:1:1: a document must be a mapping",
        ),
    ],
)
def test_json_patch_that_does_not_fit(patch: str, message: str) -> None:
    base = "version: v1alpha1\nmachine: {type: worker, certSANs: [a, b], token: x}\ncluster: {}\n"
    with pytest.raises(ConfigError) as raised:
        apply_patches(base, [parse_patch(patch)])
    assert str(raised.value) == message


def test_the_base_is_not_changed_without_patches() -> None:
    assert apply_patches("# mine\n" + BASE, []) == "# mine\n" + BASE
