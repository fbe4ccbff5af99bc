"""Which settings have a volume checked, and how often."""

import pytest

from talos.config.read.loader import load
from talos.disks.volumes.existing import make_existing_volumes
from talos.disks.volumes.system import make_volumes
from talos.disks.volumes.user import make_user_volumes

MAIN = "version: v1alpha1\nmachine: {type: worker, token: abc}\n"
EVERYWHERE = "---\napiVersion: v1alpha1\nkind: FilesystemScrubConfig\n"
DAY, WEEK = 86400, 7 * 86400


@pytest.mark.parametrize(
    ("everywhere", "own", "seconds"),
    [
        (None, None, 0),
        ("", None, 0),
        ("interval: 24h\n", None, DAY),
        (None, "{}", WEEK),
        (None, "{enabled: true}", WEEK),
        ("interval: 24h\n", "{enabled: true}", DAY),
        ("interval: 24h\n", "{interval: 168h}", WEEK),
        ("interval: 24h\n", "{enabled: false}", 0),
    ],
)
def test_a_volumes_own_settings_come_first(everywhere: str | None, own: str | None, seconds: int) -> None:
    scrub = "" if own is None else f"scrub: {own}\n"
    text = MAIN + ("" if everywhere is None else EVERYWHERE + everywhere)
    for kind, name, more in (
        ("VolumeConfig", "EPHEMERAL", ""),
        ("VolumeConfig", "STATE", ""),
        ("UserVolumeConfig", "a", "provisioning: {diskSelector: {match: system_disk}, minSize: 1GiB}\n"),
        ("ExistingVolumeConfig", "b", "discovery: {volumeSelector: {match: volume.size > 1u}}\n"),
    ):
        text += f"---\napiVersion: v1alpha1\nkind: {kind}\nname: {name}\n{more}{scrub}"
    config = load(text)
    found = {
        **make_volumes(config),
        **make_user_volumes(config, has_partitions=True),
        **make_existing_volumes(config, has_partitions=True),
    }
    specs = [found[volume][0] for volume in ("EPHEMERAL", "STATE", "u-a", "e-b")]
    assert [(spec.scrub_enabled, spec.scrub_interval.seconds) for spec in specs] == [
        (seconds > 0, seconds)
    ] * 4
