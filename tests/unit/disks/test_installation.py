"""Which disks count as installed."""

import pytest

from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec
from talos.disks.installation import find_installed


def make_part(label: str, name: str) -> DiscoveredVolumeSpec:
    return DiscoveredVolumeSpec(parent_dev_path="/dev/vda", parent="vda", partition_label=label, name=name)


@pytest.mark.parametrize(
    ("meta", "state", "found"),
    [
        ("talosmeta", "", True),
        ("talosmeta", "xfs", True),
        ("", "xfs", True),  # META is damaged, and STATE is there since it was whole
        ("", "", False),  # an installation, or an erasure, that did not come to its end
        ("ext4", "xfs", False),
    ],
)
def test_meta_marks_an_installation_and_state_one_whose_meta_is_damaged(
    meta: str, state: str, found: bool
) -> None:
    volumes = [make_part("META", meta), make_part("STATE", state)]
    assert find_installed(volumes) == ([("/dev/vda", "vda")] if found else [])


def test_a_state_on_another_disk_says_nothing() -> None:
    other = DiscoveredVolumeSpec(
        parent_dev_path="/dev/vdb", parent="vdb", partition_label="STATE", name="xfs"
    )
    assert find_installed([make_part("META", ""), other]) == []
