"""The kernel's sensors (hwmon): temperatures, fans, voltages, currents, power.

Files, their names and units: Documentation/hwmon/sysfs-interface.rst of the kernel.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from talos.system.files import Files, read_attribute

FOLDER = "/sys/class/hwmon"
MAX_SENSORS = 512
"""Of one machine; a server has up to about a hundred."""
MAX_NAME = 64
"""Characters of a name or label."""
SCALES = {"temp": 1e-3, "fan": 1.0, "in": 1e-3, "curr": 1e-3, "power": 1e-6}
"""What a file's number is multiplied by, for degrees Celsius, rounds per minute, volts, amperes and watts."""
_VALUE = re.compile(rf"({'|'.join(SCALES)})[0-9]{{1,3}}_(?:input|average)")
_NUMBER = re.compile(r"-?[0-9]{1,15}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensor:
    """What one sensor measures now, in the unit of its kind: see SCALES."""

    chip: str
    """The driver's name for what it belongs to, such as ``coretemp``."""
    device: str
    """Which one: an address on a bus, or ``nvme0``."""
    name: str
    """Such as ``temp1``."""
    label: str
    """The driver's name for it, such as ``Package id 0``; often empty."""
    kind: str
    """``temp``, ``fan``, ``in`` (voltage), ``curr`` or ``power``."""
    value: float
    critical: float | None
    """The temperature that is too high, where the driver has one."""


def read_sensors(files: Files) -> Iterator[Sensor]:
    """All sensors that answer, at most MAX_SENSORS. Blocks, as some drivers send a command to the device."""
    chips = (_read_chip(files, f"{FOLDER}/{folder}") for folder in _list(files, FOLDER))
    return islice(chain.from_iterable(chips), MAX_SENSORS)


def _read_chip(files: Files, folder: str) -> Iterator[Sensor]:
    chip = read_attribute(files, f"{folder}/name")[:MAX_NAME]
    device = _find_device(files, folder)
    seen: set[str] = set()
    # Reversed, as the value of now comes before an average.
    for file in sorted(_list(files, folder), reverse=True):
        match = _VALUE.fullmatch(file)
        name = file.partition("_")[0]
        if match is None or name in seen:
            continue
        kind = match[1]
        value = _read_number(files, f"{folder}/{file}", kind)
        if value is None:
            continue
        seen.add(name)
        critical = _read_number(files, f"{folder}/{name}_crit", kind) if kind == "temp" else None
        label = read_attribute(files, f"{folder}/{name}_label")[:MAX_NAME]
        yield Sensor(
            chip=chip, device=device, name=name, label=label, kind=kind, value=value, critical=critical
        )


def _find_device(files: Files, folder: str) -> str:
    try:
        return files.read_link(f"{folder}/device").rpartition("/")[2]
    except OSError:
        return ""  # a thermal zone has none


def _list(files: Files, folder: str) -> list[str]:
    try:
        return list(files.list(folder))
    except OSError:
        return []  # no sysfs, or the device is gone


def _read_number(files: Files, path: str, kind: str) -> float | None:
    """A measure; None when the sensor does not answer."""
    text = read_attribute(files, path)
    return round(int(text) * SCALES[kind], 6) if _NUMBER.fullmatch(text) else None
