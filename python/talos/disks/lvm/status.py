"""What lvm reports, as resources: columns become fields, of which all are texts."""

from collections.abc import Sequence
from typing import Any

from google.protobuf.message import Message

from talos.api.definitions import storage_pb2
from talos.system.block.lvm import GROUPS, LOGICAL, PHYSICAL, LvmReport, Row
from talos.system.sizes import format_pretty_size


def make_physical_status(row: Row) -> storage_pb2.LVMPhysicalVolumeStatusSpec:
    """A physical volume."""
    spec = storage_pb2.LVMPhysicalVolumeStatusSpec(
        pretty_size=_format(row["pv_size"]),
        pretty_device_size=_format(row["dev_size"]),
        pretty_free=_format(row["pv_free"]),
    )
    _fill(spec, PHYSICAL, row)
    return spec


def make_group_status(row: Row) -> storage_pb2.LVMVolumeGroupStatusSpec:
    """A volume group."""
    spec = storage_pb2.LVMVolumeGroupStatusSpec(
        pretty_size=_format(row["vg_size"]), pretty_free=_format(row["vg_free"])
    )
    _fill(spec, GROUPS, row)
    return spec


def make_logical_status(row: Row) -> storage_pb2.LVMLogicalVolumeStatusSpec:
    """A logical volume."""
    spec = storage_pb2.LVMLogicalVolumeStatusSpec(pretty_size=_format(row["lv_size"]))
    _fill(spec, LOGICAL, row)
    return spec


def parse_report(
    physical: Sequence[storage_pb2.LVMPhysicalVolumeStatusSpec],
    groups: Sequence[storage_pb2.LVMVolumeGroupStatusSpec],
    logical: Sequence[storage_pb2.LVMLogicalVolumeStatusSpec],
) -> LvmReport:
    """What lvm had reported."""
    return LvmReport(
        physical=[_parse(spec, PHYSICAL) for spec in physical],
        groups=[_parse(spec, GROUPS) for spec in groups],
        logical=[_parse(spec, LOGICAL) for spec in logical],
    )


def _parse(spec: Message, columns: Sequence[str]) -> Row:
    fields = [field.name for field in spec.DESCRIPTOR.fields[: len(columns)]]
    values: list[Any] = [getattr(spec, field) for field in fields]
    texts = [value if isinstance(value, str) else ",".join(value) for value in values]
    return dict(zip(columns, texts, strict=True))


def _fill(spec: Message, columns: Sequence[str], row: Row) -> None:
    """The columns are in the order of the message's first fields; the last one has tags."""
    fields = [field.name for field in spec.DESCRIPTOR.fields[: len(columns)]]
    for field, column in zip(fields, columns, strict=True):
        if field == "tags":
            tags: Any = getattr(spec, field)
            tags.extend(tag for tag in row[column].split(",") if tag)
        else:
            setattr(spec, field, row[column])


def _format(size: str) -> str:
    return format_pretty_size(int(size)) if size.isdecimal() else ""
