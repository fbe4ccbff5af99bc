"""What lvm reports becomes resources, every column its field."""

from talos.disks.lvm.status import make_group_status, make_logical_status, make_physical_status
from talos.system.block.lvm import GROUPS, LOGICAL, PHYSICAL

from .memory_lvm import Logical, MemoryLvm


async def test_every_column_has_its_field() -> None:
    memory = MemoryLvm(physical={"/dev/vdb": "pool"}, logical=[Logical(group="pool", name="a", size=1 << 22)])
    report = await memory.lvm.report()
    physical = make_physical_status({**report.physical[0], "pv_tags": "one,two"})
    assert (physical.device, physical.vg_name, physical.allocatable) == ("/dev/vdb", "pool", "allocatable")
    assert (physical.pe_count, physical.minor, list(physical.tags)) == ("127", "3", ["one", "two"])
    assert (physical.pretty_size, physical.pretty_device_size, physical.pretty_free) == (
        "533 MB",
        "537 MB",
        "533 MB",
    )
    group = make_group_status(report.groups[0])
    assert (group.name, group.permissions, group.pv_count, group.lv_count) == ("pool", "writeable", "1", "1")
    assert (group.free_extent_count, group.seq_no, group.pretty_size) == ("126", "2", "533 MB")
    logical = make_logical_status(report.logical[0])
    assert (logical.path, logical.layout, logical.active) == ("/dev/pool/a", "linear", "active")
    assert (logical.kernel_major, logical.read_ahead, logical.pretty_size) == ("252", "auto", "4.2 MB")


def test_columns_are_as_many_as_fields() -> None:
    names = [dict(zip(columns, columns, strict=True)) for columns in (PHYSICAL, GROUPS, LOGICAL)]
    for make, row in zip((make_physical_status, make_group_status, make_logical_status), names, strict=True):
        spec = make(row)
        plain = [field.name for field in spec.DESCRIPTOR.fields if not field.name.startswith("pretty_")]
        assert len(plain) == len(row)
        assert plain[-1] == "tags"
