# ruff: noqa: E501 - messages stand whole, so that they can be searched for
import pytest

from talos.config.check.validate import Mode, Report, check, validate
from talos.config.documents.registry import MODULES
from talos.config.problem import ConfigError
from talos.config.read.loader import load


def messages(text: str, mode: Mode = Mode.CONTAINER) -> list[str]:
    return [str(problem) for problem in validate(load(text, source="c"), mode).errors]


def with_document(config: str, kind: str, body: str) -> str:
    return f"{config}---\napiVersion: v1alpha1\nkind: {kind}\n{body}"


def test_an_empty_main_document_lacks_everything() -> None:
    assert messages("version: v1alpha1\n", Mode.METAL) == [
        "c:1:1: machine: is missing (the machine's type, token and ca)",
        "c:1:1: cluster: is missing (at least the cluster's token, or {})",
    ]
    assert messages("machine: {certSANs: []}\ncluster: {}\n", Mode.METAL) == [
        "c:1:10: machine.ca: is missing (the authority of the nodes' API, or acceptedCAs)",
    ]


def test_a_config_without_a_main_document_is_valid() -> None:
    config = load("apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n")
    assert validate(config) == Report()
    assert check(config, Mode.METAL) == ()


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        (
            "FilesystemScrubConfig",
            "interval: 1s\n",
            'FilesystemScrubConfig interval: "1s" is too short (at least 10s)',
        ),
        (
            "WatchdogTimerConfig",
            "timeout: 9s\ndevice: /dev/watchdog0\n",
            'WatchdogTimerConfig timeout: "9s" is too short (at least 10s)',
        ),
        (
            "WatchdogTimerConfig",
            "timeout: 10s\n",
            "WatchdogTimerConfig device: is missing (such as /dev/watchdog0)",
        ),
        (
            "VLANConfig",
            "name: a\nvlanID: 4095\nparent: eth0\n",
            "VLANConfig/a vlanID: 4095 is out of range (from 1 to 4094)",
        ),
        (
            "WireguardConfig",
            "name: wg0\nprivateKey: c2hvcnQ=\n",
            "WireguardConfig/wg0 privateKey: is no WireGuard key (base64 of 32 bytes)",
        ),
        ("BondConfig", "name: b\nlinks: []\nbondMode: 802.3ad\n", "BondConfig/b links: is empty"),
        (
            "BlackholeRouteConfig",
            "name: x\n",
            'BlackholeRouteConfig/x name: "x" is no prefix (such as 10.0.0.0/8)',
        ),
        ("StaticHostConfig", "name: x\nhostnames: [a]\n", 'StaticHostConfig/x name: "x" is no IP address'),
        (
            "Layer2VIPConfig",
            "name: 10.0.0.9\nlink: eth0\n",
            "Layer2VIPConfig/10.0.0.9: is for control plane nodes (leave it out for workers)",
        ),
        (
            "UserVolumeConfig",
            "name: d\nprovisioning: {diskSelector: {match: system_disk}, minSize: 2GiB, maxSize: 1GiB}\n",
            "UserVolumeConfig/d provisioning.maxSize: is smaller than minSize",
        ),
        (
            "ExistingVolumeConfig",
            (
                "name: d\ndiscovery: {volumeSelector: {match: 'volume.name == \"xfs\"'}}\n---\n"
                "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: d\nvolumeType: directory\n"
            ),
            "d name: UserVolumeConfig d has the same mount point (give one of them another name)",
        ),
        ("KernelModuleConfig", "name: ''\n", "KernelModuleConfig name: is empty"),
    ],
)
def test_documents_are_checked(worker: str, kind: str, body: str, expected: str) -> None:
    (found,) = messages(with_document(worker, kind, body))
    assert found.partition(": ")[2].endswith(expected)
    assert found.startswith("c:")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "auto: stable",
            "auto: stable\nhostname: a",
            'HostnameConfig hostname: stands beside auto: stable (set auto: "off" or leave hostname out)',
        ),
        (
            "auto: stable",
            "hostname: a_b",
            'HostnameConfig hostname: "a_b" is no host name (letters, digits, - and .)',
        ),
        ("auto: stable", "hostname: ''", "HostnameConfig: neither auto nor hostname is set"),
        (
            "EPHEMERAL",
            "DATA",
            'VolumeConfig/DATA name: "DATA" is no system volume (one of: STATE, EPHEMERAL, IMAGECACHE, ETCD, CRI, KUBELET, LOG; for others use UserVolumeConfig)',
        ),
        (
            "    features:",
            "    network: {hostname: x}\n    features:",
            "machine.network.hostname: is also set by HostnameConfig (keep only HostnameConfig)",
        ),
        (
            "    features:",
            "    kubelet: {image: x}\n    features:",
            "machine.kubelet.image: is also set by KubeletConfig (keep only KubeletConfig)",
        ),
        (
            "    features:",
            "    kubelet: {extraMounts: [{destination: /a, source: /a}]}\n    features:",
            "machine.kubelet.extraMounts: does not go with KubeletConfig (leave KubeletConfig out and keep machine.kubelet)",
        ),
        (
            "type: worker",
            "type: controlplane",
            "machine.ca.key: is missing (control plane nodes issue certificates)",
        ),
    ],
)
def test_what_does_not_fit_together(worker: str, old: str, new: str, expected: str) -> None:
    assert old in worker
    found = messages(worker.replace(old, new, 1))
    assert expected in [message.split(": ", 1)[1] for message in found]


def test_an_authority_that_will_not_work_is_named(control_plane: str) -> None:
    first, rest = control_plane.split("        key: ", 1)
    _, after = rest.split("\n", 1)
    etcd_key = after.split("            key: ", 1)[1].split("\n", 1)[0]
    report = validate(load(f"{first}        key: {etcd_key}\n{after}", source="c"), Mode.CONTAINER)
    assert report.errors == report.warnings == ()
    assert str(report.notes[0]) == "c:8:9: machine.ca: the key does not belong to the certificate"


def test_a_worker_with_the_authoritys_key(control_plane: str) -> None:
    assert (
        "c:9:14: machine.ca.key: has the authority's private key (leave the key empty: a worker must not issue certificates)"
        in messages(control_plane.replace("type: controlplane", "type: worker"))
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("type: worker", "type: join", "machine.type: is taken for worker (write worker)"),
        ("type: worker", "type: ''", "machine.type: is taken for worker (write worker)"),
        (
            "    features:",
            "    files: [{path: /a}]\n    features:",
            "machine.files: is deprecated (use EtcFileConfig or CRICustomizationConfig)",
        ),
    ],
)
def test_what_still_works_is_warned_of(worker: str, old: str, new: str, expected: str) -> None:
    report = validate(load(worker.replace(old, new, 1), source="c"), Mode.CONTAINER)
    assert report.errors == ()
    assert [str(problem).split(": ", 1)[1] for problem in report.warnings] == [expected]


def test_settings_of_the_former_layout_are_as_good(worker: str) -> None:
    text = worker.replace("    features:", "    sysctls: {a: b}\n    features:")
    report = validate(load(text), Mode.CONTAINER)
    assert (report.errors, report.warnings) == ((), ())


def test_check_raises_all_errors(worker: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check(load(worker.replace("EPHEMERAL", "X").replace("auto: stable", "hostname: _")), Mode.METAL)
    assert len(raised.value.problems) == 2


def test_what_needs_disks_is_named_for_a_container() -> None:
    """They are all kinds of the folder of RAID arrays and volume groups, and volumes that are no folders."""
    kinds = [kind for kind, module in MODULES.items() if module.startswith("storage.")]
    kinds += ["ExistingVolumeConfig", "RawVolumeConfig", "SwapVolumeConfig"]
    config = load("---\n".join(f"{{apiVersion: v1alpha1, kind: {kind}, name: a}}\n" for kind in kinds))
    text = "no effect: a container has no disks"
    for mode, expected in ((Mode.CONTAINER, [text] * 6), (Mode.METAL, [])):
        notes = validate(config, mode, partial=True).notes
        assert [note.message for note in notes] == expected


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("version: v1alpha1\nmachine: {disks: [{device: /dev/sdb}]}\n", "leave it out"),
        ("version: v1alpha1\nmachine: {disks: []}\n", ""),
        ("{apiVersion: v1alpha1, kind: UserVolumeConfig, name: a}\n", "volumeType: directory"),
        (
            "{apiVersion: v1alpha1, kind: UserVolumeConfig, name: a, volumeType: disk}\n",
            "volumeType: directory",
        ),
        ("{apiVersion: v1alpha1, kind: UserVolumeConfig, name: a, volumeType: directory}\n", ""),
    ],
)
def test_a_volume_on_a_disk_is_named_for_a_container(text: str, hint: str) -> None:
    for mode, expected in ((Mode.CONTAINER, [hint] * bool(hint)), (Mode.METAL, [])):
        notes = validate(load(text), mode, partial=True).notes
        found = [note.hint for note in notes if note.message == "no effect: a container has no disks"]
        assert found == expected
