"""What PID 1 adds to a node's metrics."""

import threading
from typing import Any, cast, override

from google.protobuf.empty_pb2 import Empty

from talos.api.metrics import metrics_pb2
from talos.machined.api.metrics import SENSORS_TIMEOUT, Counts, make_metrics_service
from talos.system.files import Files
from talos.testing.files import MemoryFiles

SENSOR = "/sys/class/hwmon/hwmon0/temp1_input"


async def read(files: Files) -> metrics_pb2.ReadResponse:
    async def list_parts() -> list[metrics_pb2.ReadResponse]:
        return []

    service = make_metrics_service(Counts(activities={}, watches={"A": 2, "B": 0}), files, list_parts)
    handler = cast("Any", service.handlers["Read"])
    return await handler(Empty(), None)


async def test_watches_disks_and_sensors() -> None:
    reply = await read(MemoryFiles({SENSOR: "40000\n", "/sys/block/sda/device/state": "running\n"}))
    assert [(one.type, one.count) for one in reply.watches] == [("A", 2)]
    assert [disk.name for disk in reply.disks] == ["sda"]
    [sensor] = reply.sensors
    assert (sensor.name, sensor.kind, sensor.value) == ("temp1", "temp", 40.0)
    assert not sensor.HasField("critical")


async def test_a_sensor_that_hangs_keeps_no_other_number(autojump_clock: object) -> None:
    del autojump_clock
    released = threading.Event()

    class HungFiles(MemoryFiles):
        @override
        def read(self, path: str) -> str:
            if path == SENSOR:
                released.wait(20 * SENSORS_TIMEOUT)
            return super().read(path)

    try:
        reply = await read(HungFiles({SENSOR: "40000\n", "/sys/block/sda/device/state": "running\n"}))
    finally:
        released.set()
    assert [disk.name for disk in reply.disks] == ["sda"]
    assert not reply.sensors
