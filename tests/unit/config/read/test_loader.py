# ruff: noqa: E501 - messages stand whole, so that they can be searched for

import pytest
from tests.harness.processor import at_most

from talos.config.documents.network.hostname import HostnameConfig
from talos.config.model import MachineType
from talos.config.problem import ConfigError
from talos.config.read.loader import load
from talos.config.write.plain import to_plain

MAIN = "version: v1alpha1\n"
LINK = "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\n"


def document(kind: str, body: str = "") -> str:
    return f"apiVersion: v1alpha1\nkind: {kind}\n{body}"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        # unknown
        (MAIN + "machin: {}\n", ['c:2:1: machin: unknown key (did you mean "machine"?)']),
        (
            MAIN + "machine: {kubelet: {imag: x}}\n",
            ['c:2:21: machine.kubelet.imag: unknown key (did you mean "image"?)'],
        ),
        (MAIN + "machine: {xyzzy: 1}\n", ["c:2:11: machine.xyzzy: unknown key"]),
        (
            MAIN + "machine: {$patch: delete}\n",
            ['c:2:11: machine.$patch: unknown key (only in patches, and only "$patch: delete")'],
        ),
        (
            document("HostnamConfig"),
            ['c:2:7: HostnamConfig kind: unknown kind "HostnamConfig" (did you mean "HostnameConfig"?)'],
        ),
        (
            "apiVersion: v2\nkind: HostnameConfig\nhostname: a\n",
            ['c:1:13: HostnameConfig apiVersion: "v2" is not allowed (only v1alpha1)'],
        ),
        (
            "kind: HostnameConfig\nhostname: a\n",
            ["c:1:1: HostnameConfig apiVersion: is missing (only v1alpha1)"],
        ),
        ("apiVersion: v1alpha1\n", ["c:1:1: kind: is missing"]),
        (
            "foo: 1\n",
            ["c:1:1: foo: unknown key"],
        ),
        # merge keys
        (
            MAIN + "cluster: {<<: {}}\n",
            [
                "c:2:11: cluster.<<: unknown key (repeat the keys; <<: *name works in mappings whose keys are free)"
            ],
        ),
        (
            MAIN + "machine: {sysctls: {<<: {a: b}}}\n",
            [
                "c:2:21: machine.sysctls[<<]: a merge key takes an alias here (repeat the keys; <<: *name works in mappings whose keys are free)"
            ],
        ),
        # duplicate
        (
            MAIN + "machine:\n  type: worker\n  type: worker\n",
            ["c:4:3: machine.type: duplicate key (first in line 3)"],
        ),
        (
            MAIN + "machine: {sysctls: {a: b, a: c}}\n",
            ["c:2:27: machine.sysctls.a: duplicate key (first in line 2)"],
        ),
        (
            document("KubeletConfig", "image: x\nconfig: {a: {b: 1, b: 2}}\n"),
            ["c:4:20: KubeletConfig config.a.b: duplicate key (first in line 4)"],
        ),
        (LINK + "---\n" + LINK, ["c:5:1: LinkConfig/eth0: duplicate document (the first begins in line 1)"]),
        (MAIN + "---\n" + MAIN, ["c:3:1: a second main document (the first begins in line 1)"]),
        # of the wrong type
        (MAIN + "machine: []\n", ["c:2:10: machine: expected a mapping, got a list"]),
        (
            MAIN + "machine: {certSANs: a}\n",
            ['c:2:21: machine.certSANs: expected a list, got "a" (begin each item with -)'],
        ),
        (
            MAIN + "machine: {certSANs: [{}]}\n",
            ["c:2:22: machine.certSANs[0]: expected a text, got a mapping"],
        ),
        (MAIN + "debug: maybe\n", ['c:2:8: debug: expected true or false, got "maybe"']),
        (MAIN + 'debug: "true"\n', ['c:2:8: debug: expected true or false, got "true"']),
        (MAIN + "machine: {token: [a]}\n", ["c:2:18: machine.token: expected a text, got a secret"]),
        (
            MAIN + "machine: {ca: {crt: '?'}}\n",
            ["c:2:21: machine.ca.crt: expected base64 (the whole PEM block, encoded on one line)"],
        ),
        (LINK + "mtu: big\n", ['c:4:6: LinkConfig/eth0 mtu: expected a number, got "big"']),
        (LINK + "mtu: 1.5\n", ['c:4:6: LinkConfig/eth0 mtu: expected a number, got "1.5"']),
        (
            document("SysctlConfig", "params: {a: [1]}\n"),
            ["c:3:13: SysctlConfig params[a]: expected a text, got a list"],
        ),
        (
            document("KubeletConfig", "image: x\nextraArgs: {v: {a: b}}\n"),
            ["c:4:16: KubeletConfig extraArgs[v]: expected a text, got a mapping"],
        ),
        (
            document("KubeletConfig", "image: x\nconfig: 5\n"),
            ['c:4:9: KubeletConfig config: expected a mapping, got "5"'],
        ),
        ("- 1\n", ["c:1:1: a document must be a mapping"]),
        ("just words\n", ["c:1:1: a document must be a mapping"]),
        # out of what is allowed
        (
            MAIN + "machine: {type: wrker}\n",
            [
                'c:2:17: machine.type: "wrker" is not allowed (did you mean "worker"?; one of: controlplane, worker, init, join)'
            ],
        ),
        (
            document("HostnameConfig", "auto: always\n"),
            ['c:3:7: HostnameConfig auto: "always" is not allowed (one of: stable, off)'],
        ),
        (LINK + "mtu: -1\n", ["c:4:6: LinkConfig/eth0 mtu: -1 is out of range (from 0 to 4294967295)"]),
        (
            document("FilesystemTrimConfig", "interval: 1 week\n"),
            [
                'c:3:11: FilesystemTrimConfig interval: expected a duration such as 30s, 5m or 1h30m, got "1 week"'
            ],
        ),
        (
            document("KubeClusterConfig", "clusterName: a\nendpoint: http://a\n"),
            ['c:4:11: KubeClusterConfig endpoint: "http://a" has the wrong scheme (begins with https://)'],
        ),
        (
            document("KubeClusterConfig", "clusterName: a\nendpoint: 10.0.0.1\n"),
            [
                'c:4:11: KubeClusterConfig endpoint: expected a URL such as "https://10.0.0.1:6443", got "10.0.0.1"'
            ],
        ),
        (
            LINK + "addresses: [{address: 10.0.0.1}]\n",
            [
                'c:4:23: LinkConfig/eth0 addresses[0].address: expected a prefix such as "10.0.0.0/8" or "fd00::/64", got "10.0.0.1"'
            ],
        ),
        (
            document("NetworkRuleConfig", "name: a\nportSelector: {ports: [70000]}\n"),
            [
                'c:4:24: NetworkRuleConfig/a portSelector.ports[0]: expected a port such as 80 or a range such as 1024-2048, got "70000"'
            ],
        ),
    ],
)
def test_bad_config_is_refused_with_place_path_value_and_hint(text: str, messages: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        load(text, source="c")
    assert str(raised.value).splitlines() == messages


def test_a_merge_key_with_an_alias_adds_to_a_mapping_of_free_keys() -> None:
    text = "machine:\n  sysctls: &s {a: b, c: d}\n  nodeLabels: {<<: *s, c: e}\n"
    plain = to_plain(load(MAIN + text).documents[0])
    assert plain["machine"]["nodeLabels"] == {"a": "b", "c": "e"}


def test_all_errors_come_at_once_in_the_order_of_the_text() -> None:
    text = MAIN + "machine:\n  type: x\n  tokn: y\n---\n" + LINK + "mtu: big\n---\n" + LINK
    with pytest.raises(ConfigError) as raised:
        load(text, source="c")
    assert [str(problem).split(" ")[0] for problem in raised.value.problems] == [
        "c:3:9:",
        "c:4:3:",
        "c:9:6:",
        "c:11:1:",
    ]


def test_a_secret_is_never_repeated() -> None:
    text = document("DiscoveryIdentityConfig", "clusterID: [hush]\nclusterSecret: {hush: hush}\n")
    with pytest.raises(ConfigError) as raised:
        load(text)
    assert "hush" not in str(raised.value)


def test_legacy_spellings_are_accepted() -> None:
    config = load(
        MAIN
        + "debug: 'on'\nmachine:\n  type: init\n  kubelet:\n  files: [{permissions: 0644, path: /a, op: create, content: 5}]\n"
    )
    assert config.main is not None
    assert config.machine is not None
    assert config.main.debug is True
    assert config.machine.kubelet is None
    assert config.machine.files is not None
    assert config.machine.files[0].permissions == 0o644
    assert config.machine.files[0].content == "5"
    assert config.machine_type is MachineType.INIT


def test_partial_configs_load() -> None:
    assert load("").documents == ()
    config = load(LINK)
    assert config.main is None
    assert not config.is_complete
    assert config.machine_type is MachineType.UNKNOWN


def test_text_is_kept_with_its_comments() -> None:
    text = "# mine\n" + LINK
    assert load(text).text == text.encode()


def test_generated_sized_config_loads_quickly() -> None:
    text = "---\n".join(
        document("LinkConfig", f"name: eth{number}\nmtu: 1500\naddresses: [{{address: 10.0.0.1/8}}]\n")
        for number in range(100)
    )
    load(text)
    with at_most(0.5):
        load(text)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_a_file_in_utf_16_is_kept_as_utf_8(encoding: str) -> None:
    text = "apiVersion: v1alpha1\r\nkind: HostnameConfig\r\nhostname: geräumig\r\n"
    mark = "" if encoding == "utf-16" else "\ufeff"
    config = load(f"{mark}{text}".encode(encoding))
    assert config.text.decode() == text
    found = config.find(HostnameConfig)
    assert found is not None
    assert found.hostname == "geräumig"


def test_half_a_character_of_utf_16_is_refused() -> None:
    with pytest.raises(ConfigError, match="the text is not UTF-8"):
        load("a: b".encode("utf-16")[:-1])
