"""Regular care of filesystems: for which volumes, and when."""

from talos.api.definitions import block_pb2
from talos.api.timestamps import make_duration
from talos.config.documents.block.filesystem_trim import FilesystemTrimConfig
from talos.config.documents.block.upkeep import TrimConfig
from talos.config.model import Config

_OFFSET, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, 2**64 - 1
"""Of the hash FNV-1a with 64 bits: draft-eastlake-fnv, section 5."""


def set_trim(spec: block_pb2.VolumeConfigSpec, own: TrimConfig | None, config: Config) -> None:
    """Whether and how often a volume is trimmed: by its own settings, else by those of all."""
    everywhere = config.find(FilesystemTrimConfig)
    interval = (own and own.interval) or (everywhere and everywhere.interval)
    is_off = own is not None and own.enabled is False
    if is_off or not interval or interval.seconds <= 0:
        return
    spec.trim_enabled = True
    spec.trim_interval.CopyFrom(make_duration(interval.seconds))


def find_slot(node: str, volume: str, interval: int, now: int) -> int:
    """When a volume is due next, after ``now``; all in nanoseconds, times since 1970.

    Nodes and volumes are spread over the interval, in upstream's way: at the hash of both.
    """
    offset = _hash(f"{node}/{volume}".encode()) % interval
    return (now - offset) // interval * interval + interval + offset


def _hash(data: bytes) -> int:
    value = _OFFSET
    for byte in data:
        value = (value ^ byte) * _PRIME & _MASK
    return value
