"""The kernel's sensors from sysfs."""

import errno
from typing import override

from talos.system.sensors import MAX_SENSORS, Sensor, read_sensors
from talos.testing.files import MemoryFiles

HWMON = "/sys/class/hwmon"


class BrokenFiles(MemoryFiles):
    """A sensor that doesn't answer its driver."""

    @override
    def read(self, path: str) -> str:
        if path.endswith("hwmon1/temp2_input"):
            raise OSError(errno.ENODATA, "no data")
        return super().read(path)


def test_sensors_in_units() -> None:
    files = BrokenFiles(
        {
            f"{HWMON}/hwmon0/name": "coretemp\n",
            f"{HWMON}/hwmon0/temp1_input": "45500\n",
            f"{HWMON}/hwmon0/temp1_crit": "100000\n",
            f"{HWMON}/hwmon0/temp1_label": "Package id 0\n",
            f"{HWMON}/hwmon0/temp1_max": "90000\n",
            f"{HWMON}/hwmon1/name": "board\n",
            f"{HWMON}/hwmon1/temp2_input": "1\n",
            f"{HWMON}/hwmon1/fan2_input": "1200\n",
            f"{HWMON}/hwmon1/in0_input": "1032\n",
            f"{HWMON}/hwmon1/curr1_input": "odd\n",
            f"{HWMON}/hwmon1/power1_average": "65000000\n",
            f"{HWMON}/hwmon1/power1_input": "70500000\n",
        }
    )
    files.links[f"{HWMON}/hwmon0/device"] = "../../../coretemp.0"
    found = {(one.device, one.name): one for one in read_sensors(files)}
    assert found.pop(("coretemp.0", "temp1")) == Sensor(
        chip="coretemp",
        device="coretemp.0",
        name="temp1",
        label="Package id 0",
        kind="temp",
        value=45.5,
        critical=100.0,
    )
    assert {name: one.value for (_, name), one in found.items()} == {
        "fan2": 1200.0,
        "in0": 1.032,
        "power1": 70.5,
    }


def test_their_number_is_bounded() -> None:
    files = {f"{HWMON}/hwmon{chip}/temp{number}_input": "1\n" for chip in range(10) for number in range(99)}
    assert len(list(read_sensors(MemoryFiles(files)))) == MAX_SENSORS
    assert list(read_sensors(MemoryFiles({}))) == []
