# ruff: noqa: E501 - messages stand whole, so that they can be searched for
import json
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


def test_texts_stay_as_they_are_written() -> None:
    main, *_ = patched(
        "machine:\n  nodeLabels: {version: 1.10, zone: 0123, hex: 0x1f, word: on, exponent: 1e3, none: null}\n"
        "  kubelet: {extraArgs: {v: 010, levels: [1.0, true]}, extraConfig: {maxPods: 0x10}}\n"
        "  network: {hostname: 007, nameservers: [1.1.1.1]}\n"
    )
    assert main["machine"]["nodeLabels"] == {
        "version": "1.10", "zone": "0123", "hex": "0x1f", "word": "on", "exponent": "1e3", "none": "",
    }  # fmt: skip
    assert main["machine"]["kubelet"]["extraArgs"] == {"v": "010", "levels": ["1.0", "true"]}
    assert main["machine"]["kubelet"]["extraConfig"] == {"maxPods": 16}
    assert main["machine"]["network"]["hostname"] == "007"


def test_an_empty_entry_is_one_without_values() -> None:
    main, *_ = patched(
        "machine:\n  registries: {mirrors: {docker.io: null}}\n  network: {interfaces: [null, {interface: eth1}]}\n"
    )
    assert main["machine"]["registries"] == {"mirrors": {"docker.io": {"endpoints": []}}}
    assert [one.get("interface") for one in main["machine"]["network"]["interfaces"]] == [
        "eth0",
        None,
        "eth1",
    ]


def test_words_for_a_boolean_are_one() -> None:
    main, *_ = patched("debug: off\nmachine: {features: {rbac: on}}")
    assert (main["debug"], main["machine"]["features"]["rbac"]) == (False, True)


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
    assert main["machine"]["network"] == {}
    assert main["cluster"] == {}


def test_an_unset_key_and_a_missing_document_may_be_deleted() -> None:
    assert patched(
        "machine: {kubelet: {$patch: delete}}\n---\napiVersion: v1alpha1\nkind: KubeSpanConfig\n$patch: delete\n"
    ) == patched("machine: {}")


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (
            "machine: {kubelet: {image: {$patch: delete}}}",
            "patch:1:28: machine.kubelet.image: there is nothing to delete",
        ),
        (
            "machine: {sysctls: {zz: {$patch: delete}}}",
            "patch:1:25: machine.sysctls.zz: there is nothing to delete",
        ),
        (
            "machine: {network: {interfaces: [{interface: eth7, $patch: delete}]}}",
            "patch:1:34: machine.network.interfaces[]: there is nothing to delete",
        ),
        (
            "machine: {certSANs: [{$patch: delete}]}",
            "patch:1:22: machine.certSANs: no item is named (put a key of the item beside $patch)",
        ),
        (
            "machine: {network: {interfaces: [{interface: eth0, mtu: {$patch: delete}}]}}",
            "patch:1:57: machine.network.interfaces.mtu: a key inside of a list's item can't be deleted (delete the whole item and add it anew)",
        ),
        (
            "$patch: delete",
            "patch:1:1: the main document can't be deleted (name a document by its apiVersion and kind)",
        ),
        (
            "machine: {$patch: replace}",
            'patch:1:11: machine.$patch: unknown key (only in patches, and only "$patch: delete")',
        ),
    ],
)
def test_what_cannot_be_deleted(patch: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        patched(patch)
    assert str(raised.value) == message


FIREWALL = """apiVersion: v1alpha1
kind: NetworkRuleConfig
name: test
portSelector: {ports: [80], protocol: tcp}
ingress:
- subnet: 10.0.0.0/8
- subnet: 2001::/16
"""
HEADER = "apiVersion: v1alpha1\nkind: "


def patched_one(base: str, *patches: str) -> Any:
    (document,) = yaml_text.read_all(apply_patches(base, [parse_patch(patch) for patch in patches]))
    return document


def test_one_item_of_a_replaced_list_is_deleted_alone() -> None:
    head = HEADER + "NetworkRuleConfig\nname: test\n"
    left = patched_one(FIREWALL, head + "ingress: [{subnet: '2001::/16', $patch: delete}]")
    assert left["ingress"] == [{"subnet": "10.0.0.0/8"}]
    left = patched_one(
        FIREWALL, head + "ingress: [{subnet: 10.0.0.0/8, $patch: delete}, {subnet: 192.168.0.0/16}]"
    )
    assert left["ingress"] == [{"subnet": "192.168.0.0/16"}]
    assert "ingress" not in patched_one(FIREWALL, head + "ingress: {$patch: delete}")


def test_one_key_of_a_replaced_object_is_deleted_alone() -> None:
    base = (
        HEADER
        + "KubeAuditPolicyConfig\nconfiguration: {apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: None}]}"
    )
    left = patched_one(base, HEADER + "KubeAuditPolicyConfig\nconfiguration: {rules: {$patch: delete}}")
    assert left["configuration"] == {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}


def test_deletions_come_before_the_merge() -> None:
    main, _ = patched(
        "machine: {network: {interfaces: [{interface: eth0, $patch: delete}, {interface: eth0, dummy: true}]}}"
    )
    assert main["machine"]["network"]["interfaces"] == [{"interface": "eth0", "dummy": True}]
    mirror = HEADER + "RegistryMirrorConfig\nname: r\n"
    left = patched_one(
        mirror + "endpoints: [{url: 'http://a'}]",
        f"{mirror}endpoints: {{$patch: delete}}\n---\n{mirror}endpoints: [{{url: 'http://b'}}]",
    )
    assert left["endpoints"] == [{"url": "http://b"}]


def test_an_argument_is_deleted() -> None:
    main, _ = patched(
        "cluster: {proxy: {extraArgs: {a: '1', b: '2'}}}",
        "cluster: {proxy: {extraArgs: {a: {$patch: delete}}}}",
    )
    assert main["cluster"]["proxy"]["extraArgs"] == {"b": "2"}


REPLACED: dict[str, tuple[str, str, Any, Any]] = {
    "KubeStaticPodConfig": ("name: a\n", "pod", {"a": [1]}, {"b": [2]}),
    "KubeCredentialProviderConfig": ("", "configuration", {"a": [1]}, {"b": [2]}),
    "KubeAuthenticationConfig": ("", "configuration", {"anonymous": {}}, {"jwt": []}),
    "KubeAuditPolicyConfig": ("", "configuration", {"a": 1}, {"b": 2}),
    "CRIBaseRuntimeSpecConfig": ("", "overrides", {"a": 1}, {"b": 2}),
    "BGPInstanceConfig": ("name: a\nlocalASN: 1\n", "advertise", ["eth0"], ["eth1"]),
    "KubeNetworkConfig": (
        "dnsDomain: a\nserviceSubnets: [10.1.0.0/16]\n",
        "podSubnets",
        ["10.0.0.0/16"],
        ["10.9.0.0/16"],
    ),
    "NetworkRuleConfig": ("name: a\n", "ingress", [{"subnet": "10.0.0.0/8"}], [{"subnet": "11.0.0.0/8"}]),
}


@pytest.mark.parametrize("kind", REPLACED)
def test_what_a_patch_replaces(kind: str) -> None:
    rest, key, old, new = REPLACED[kind]
    head = f"{HEADER}{kind}\n{rest}"
    assert patched_one(f"{head}{key}: {json.dumps(old)}", f"{head}{key}: {json.dumps(new)}")[key] == new


def test_encryption_keys_of_etcd_are_kept() -> None:
    head = HEADER + "KubeEtcdEncryptionConfig\n"
    left = patched_one(
        head + "config: {resources: [{resources: [a]}]}", head + "config: {resources: [{resources: [b]}]}"
    )
    assert left["config"] == {"resources": [{"resources": ["a"]}, {"resources": ["b"]}]}


def test_rules_for_images_are_replaced_by_their_pattern() -> None:
    head = HEADER + "ImageVerificationConfig\n"
    base = head + "rules: [{image: a, skip: true}, {image: b, skip: true}]"
    left = patched_one(base, head + "rules: [{image: b, deny: true}, {image: c, skip: true}]")
    assert left["rules"] == [
        {"image": "a", "skip": True},
        {"image": "b", "deny": True},
        {"image": "c", "skip": True},
    ]


def test_unset_values_leave_what_is_there() -> None:
    main, link = patched(
        "machine: {sysctls: {a: '', b: 0}, nodeTaints: {}, token: ''}",
        "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth1\nmtu: 0\nup: false\naddresses: []",
    )
    assert main["machine"]["sysctls"] == {"a": "1", "b": "0"}
    assert "nodeTaints" not in main["machine"]
    assert link == {"apiVersion": "v1alpha1", "kind": "LinkConfig", "name": "eth1", "up": False, "mtu": 1500}


def test_entries_of_a_keyed_list_within_one_patch_merge() -> None:
    base = "version: v1alpha1\nmachine: {type: worker, token: x}\ncluster: {}\n"
    interfaces = "[{interface: eth0, mtu: 9000, vlans: [{vlanId: 5}, {vlanId: 5, mtu: 3}]}, {interface: eth0, dhcp: true}]"
    (entry,) = patched_one(base, f"machine: {{network: {{interfaces: {interfaces}}}}}")["machine"]["network"][
        "interfaces"
    ]
    assert (entry["mtu"], entry["dhcp"], len(entry["vlans"])) == (9000, True, 1)


def test_free_form_values_of_two_kinds_do_not_merge() -> None:
    head = HEADER + "KubeletConfig\nimage: x\n"
    with pytest.raises(ConfigError) as raised:
        patched_one(head + "config: {a: {b: [1]}}", head + "config: {a: {b: text}}")
    assert str(raised.value) == "patch: KubeletConfig config.a.b: it is a list, the patch has a text"


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
            "patch: [0]: unknown operation 'zap'\npatch: [1]: expected an operation with op and path",
        ),
        ('[{"op": "remove", "path": "a"}]', "patch: [0]: location must start with /"),
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
        (
            '[{"op": "remove", "path": "/nope"}]',
            "patch: [0] remove /nope: can't remove a non-existent object 'nope'",
        ),
        (
            '[{"op": "add", "path": "/a"}]',
            "patch: [0] add /a: the operation does not contain a 'value' member",
        ),
        (
            '[{"op": "add", "path": "/a/b", "value": 1}]',
            "patch: [0] add /a/b: the path leads to nothing",
        ),
        (
            '[{"op": "test", "path": "/version", "value": 1}]',
            "patch: [0] test /version: the value is another one",
        ),
        (
            '[{"op": "add", "path": "/machine/certSANs/7", "value": 1}]',
            "patch: [0] add /machine/certSANs/7: can't insert outside of list",
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


@pytest.mark.parametrize("patch", ["", "{}", "# nothing\n", "---\n---\n"])
def test_a_patch_of_nothing_leaves_the_text_as_it_is(patch: str) -> None:
    text = "# kept\nmachine:   {type: worker}\n"
    assert apply_patches(text, [parse_patch(patch)]) == text
