"""Which devices a group takes, and what is refused with which words."""

import pytest

from talos.disks.lvm.specs import LvmSpecs, make_group_spec, make_logical_spec, make_physical_spec, make_specs
from talos.system.block.lvm import LogicalVolume

from .memory_lvm import make_config, make_disk, make_group, make_machine, make_volume


def test_a_group_takes_whole_disks_and_raw_partitions() -> None:
    found = make_machine(
        make_disk("vdb"),
        make_disk("vdc", "LVM2_member"),
        make_disk("vdd", readonly=True),
        make_disk("sr0", cdrom=True),
        make_disk("vde", "dos"),
        make_disk("loop0"),
        make_disk("dm-0"),
    )
    specs = make_specs(make_config(make_group(match="true")), *found)
    assert specs.problems == ()
    (group,) = specs.groups
    assert group.devices == ("/dev/vda5", "/dev/vdb", "/dev/vdc")
    assert make_group_spec(group).physical_volumes == list(group.devices)
    assert make_physical_spec(group, "/dev/vdb").vg_name == "pool"


def test_a_selector_of_disks_means_whole_ones() -> None:
    specs = make_specs(
        make_config(make_group(match='disk.serial in ["vda", "vdb"]')), *make_machine(make_disk("vdb"))
    )
    assert specs.groups[0].devices == ("/dev/vdb",)


def test_what_holds_something_is_named_and_left_alone() -> None:
    specs = make_specs(make_config(make_group()), *make_machine(make_disk("vdb", "xfs"), make_disk("vdc")))
    assert specs.groups[0].devices == ("/dev/vdc",)
    (problem,) = specs.problems
    assert (problem.id, problem.group) == ("pool", "pool")
    assert problem.message == (
        "/dev/vdb holds xfs: it is not written over (if it may be lost: talosctl wipe disk vdb)"
    )


def test_a_device_goes_to_the_first_group() -> None:
    config = make_config(make_group("one"), make_group("two"))
    specs = make_specs(config, *make_machine(make_disk("vdb")))
    assert [group.devices for group in specs.groups] == [("/dev/vdb",), ()]
    (problem,) = specs.problems
    assert (problem.id, problem.message) == ("two", 'device "/dev/vdb" already claimed by volume group "one"')


@pytest.mark.parametrize(
    ("document", "place", "words"),
    [
        (make_group("-x"), "-x", '"-x" is no name for LVM'),
        (make_volume("--help"), "pool/--help", '"--help" is no name for LVM'),
        (make_volume(group="../etc"), "../etc/data", '"../etc" is no name for LVM'),
        (make_group(match="volume.size / 0u > 1u"), "pool", "provisioning.volumeSelector.match"),
    ],
)
def test_hostile_values_are_problems(document: str, place: str, words: str) -> None:
    specs = make_specs(make_config(document), *make_machine(make_disk("vdb")))
    (problem,) = specs.problems
    assert problem.id == place
    assert words in problem.message
    assert "\n" not in problem.message
    assert not specs.logical
    assert all(not group.devices for group in specs.groups)


def test_sizes_and_layouts() -> None:
    config = make_config(
        make_volume("a", size="1GiB"),
        make_volume("b", size="33.9%", more="raid1"),
        make_volume("c", more="raid10\nmirrors: 2\nstripes: 3"),
    )
    specs = make_specs(config, [], {})
    assert specs.logical == (
        LogicalVolume(group="pool", name="a", size=1 << 30),
        LogicalVolume(group="pool", name="b", type="raid1", mirrors=1, percent=33),
        LogicalVolume(group="pool", name="c", type="raid10", mirrors=2, stripes=3, size=100 << 20),
    )
    spec = make_logical_spec(specs.logical[1])
    assert (spec.vg_name, spec.name, spec.size_percent_vg, spec.mirrors) == ("pool", "b", 33, 1)


def test_without_a_config_there_is_nothing() -> None:
    specs = make_specs(None, *make_machine(make_disk("vdb")))
    assert specs == LvmSpecs()
