import pytest

from talos.config.change.diff import diff, effects
from talos.config.read.loader import load
from talos.config.schema import Applies

MAIN = "version: v1alpha1\nmachine: {type: controlplane}\n"
OLD = """version: v1alpha1
machine: {type: worker, token: first, certSANs: [a]}
---
apiVersion: v1alpha1
kind: LinkConfig
name: eth0
"""


def test_nothing_changed() -> None:
    assert diff(load(OLD), load("# other\n" + OLD)) == ""
    assert effects(load(OLD), load(OLD)) == []


def test_change_is_shown_with_secrets_hidden() -> None:
    new = OLD.replace("token: first", "token: second").replace("[a]", "[b]").replace("eth0", "eth1")
    text = diff(load(OLD), load(new))
    assert "first" not in text
    assert "second" not in text
    assert "-    token: '****** (old)'\n" in text
    assert "+    token: '****** (new)'\n" in text
    assert "-        - a\n" in text
    assert "+        - b\n" in text
    assert "-name: eth0\n" in text
    assert "+name: eth1\n" in text


def test_a_secret_that_stays_is_no_change() -> None:
    text = diff(load(OLD), load(OLD.replace("[a]", "[b]")))
    assert "+    token" not in text


def test_first_config_is_all_new() -> None:
    lines = diff(None, load(OLD)).splitlines()
    assert all(line.startswith(("+", "---", "@@")) for line in lines)
    assert "+    token: '******'" in lines


def test_effects_name_what_has_to_wait() -> None:
    new = OLD.replace("worker", "controlplane").replace("[a]", "[b]")
    new += "---\napiVersion: v1alpha1\nkind: SecurityProfileConfig\nworkloadIsolation: true\n"
    assert [(effect.path, effect.applies) for effect in effects(load(OLD), load(new))] == [
        ("machine.type", Applies.REBOOT),
        ("SecurityProfileConfig.workloadIsolation", Applies.REBOOT),
    ]


VOLUME = """---
apiVersion: v1alpha1
kind: UserVolumeConfig
name: db
provisioning: {diskSelector: {match: system_disk}, minSize: 1GiB, maxSize: 2GiB}
"""


def test_a_volume_is_made_at_once_and_grown_after_a_reboot() -> None:
    larger = VOLUME.replace("maxSize: 2GiB", "maxSize: 4GiB, grow: true") + "mount: {secure: false}\n"
    assert effects(load(OLD), load(OLD + larger)) == []
    assert effects(load(OLD + larger), load(OLD)) == []
    found = effects(load(OLD + VOLUME), load(OLD + larger))
    assert [(effect.path, effect.applies) for effect in found] == [
        ("UserVolumeConfig.provisioning.grow", Applies.REBOOT),
        ("UserVolumeConfig.provisioning.maxSize", Applies.REBOOT),
    ]


@pytest.mark.parametrize("kind", ["UserVolumeConfig", "RawVolumeConfig", "VolumeConfig"])
def test_what_a_volume_is_made_by_changes_none_that_is_there(kind: str) -> None:
    volume = f"""---
{{apiVersion: v1alpha1, kind: {kind}, name: LOG,
  provisioning: {{diskSelector: {{match: system_disk}}, minSize: 1GiB, maxSize: 2GiB}},
  encryption: {{provider: luks2, cipher: aes-xts-plain64, keys: [{{slot: 0, nodeID: {{}}}}]}}}}
"""
    new = volume.replace("system_disk", "disk.rotational").replace("1GiB", "2GiB").replace("2GiB}", "3GiB}")
    new = new.replace("aes-xts-plain64", '"xchacha20,aes-adiantum-plain64"')
    found = effects(load(OLD + volume), load(OLD + new))
    assert [(effect.path, effect.applies) for effect in found] == [
        (f"{kind}.provisioning.diskSelector.match", Applies.CREATION),
        (f"{kind}.provisioning.minSize", Applies.CREATION),
        (f"{kind}.provisioning.maxSize", Applies.CREATION),
        (f"{kind}.encryption.cipher", Applies.CREATION),
    ]


def test_ephemeral_grows_unless_it_is_configured_otherwise() -> None:
    volume = (
        "---\n{apiVersion: v1alpha1, kind: VolumeConfig, name: EPHEMERAL, provisioning: {maxSize: 9GiB}}\n"
    )
    other = volume.replace("9GiB", "10GiB")
    (effect,) = effects(load(OLD + volume), load(OLD + other))
    assert effect.applies is Applies.REBOOT
    *_, effect = effects(load(OLD + volume), load(OLD + other.replace("10GiB", "10GiB, grow: false")))
    assert (effect.path, effect.applies) == ("VolumeConfig.provisioning.maxSize", Applies.CREATION)


def test_services_that_the_node_restarts_by_itself() -> None:
    before = "---\n{apiVersion: v1alpha1, kind: CRICustomizationConfig, name: a, content: a = 1}\n"
    (effect,) = effects(load(OLD + before), load(OLD + before.replace("= 1", "= 2")))
    assert effect.applies.value == "at once: the node restarts the service"


def test_etcd_keeps_its_arguments_until_a_reboot() -> None:
    arguments = "cluster: {etcd: {extraArgs: {quota-backend-bytes: '1'}}}\n"
    (effect,) = effects(load(MAIN), load(MAIN + arguments))
    assert (effect.path, effect.applies) == ("cluster.etcd.extraArgs", Applies.REBOOT)
