"""What the kernel has of a disk's health without a command to the disk: its state, and failed requests.

Temperatures are in :mod:`talos.system.sensors`; SMART's tables are no part of sysfs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from talos.system.files import Files, read_attribute

FOLDER = "/sys/block"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskHealth:
    """A disk that has a state or counts errors.

    ``state`` is ``running`` (SCSI) or ``live`` (NVMe) when it works.
    """

    name: str
    state: str
    errors: int | None


def read_health(files: Files) -> Iterator[DiskHealth]:
    """All disks of which the kernel has something; none where there is no sysfs."""
    try:
        names = files.list(FOLDER)
    except OSError:
        return
    for name in sorted(names):
        state = read_attribute(files, f"{FOLDER}/{name}/device/state")
        errors = _parse_count(read_attribute(files, f"{FOLDER}/{name}/device/ioerr_cnt"))
        if state or errors is not None:
            yield DiskHealth(name=name, state=state, errors=errors)


def _parse_count(text: str) -> int | None:
    """Of an attribute of SCSI's, which is hexadecimal with its prefix."""
    try:
        return int(text, 0)
    except ValueError:
        return None
