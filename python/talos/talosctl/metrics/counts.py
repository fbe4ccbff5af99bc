"""What a node counts itself (rounds of controllers, calls, watches), its disks' health, and its sensors."""

from collections.abc import Iterable, Iterator

from google.protobuf.empty_pb2 import Empty

from talos.api.metrics import metrics_pb2
from talos.api.rpc import Code
from talos.talosctl.client.health import SessionCalls
from talos.talosctl.metrics.families import Number, Numbers

SERVICE = "/talos.metrics.MetricsService/"
WORKING = ("running", "live")
"""States of a disk that works: of SCSI's and of NVMe's drivers."""
SENSORS = {
    "temp": "talos_sensor_temperature_celsius",
    "fan": "talos_sensor_fan_rpm",
    "in": "talos_sensor_voltage_volts",
    "curr": "talos_sensor_current_amperes",
    "power": "talos_sensor_power_watts",
}
"""Families by the kernel's kind of sensor."""


async def fetch_counts(calls: SessionCalls, node: str) -> Numbers:
    """The counts; RpcError."""
    reply = await calls.unary(node, f"{SERVICE}Read", Empty(), metrics_pb2.ReadResponse)
    return [
        *_make_controllers(reply.controllers),
        *(number for method in reply.methods for number in _make_method(method)),
        *(("talos_state_watches", one.count, {"type": one.type}) for one in reply.watches),
        *_make_disks(reply.disks),
        *_make_sensors(reply.sensors),
    ]


def _make_controllers(controllers: Iterable[metrics_pb2.Controller]) -> Iterator[Number]:
    for one in controllers:
        labels = {"controller": one.name}
        yield "talos_controller_runs_total", one.runs, labels
        yield "talos_controller_failures_total", one.failures, labels
        yield "talos_controller_seconds_total", one.seconds, labels


def _make_method(method: metrics_pb2.Method) -> Iterator[Number]:
    labels = {"method": method.method}
    for result in method.results:
        code = Code(result.code) if result.code in Code else Code.UNKNOWN
        yield "talos_calls_total", result.count, {**labels, "code": code.name}
    for bucket in method.buckets:
        bound = "+Inf" if bucket.seconds == float("inf") else f"{bucket.seconds:g}"
        yield "talos_call_duration_seconds_bucket", bucket.count, {**labels, "le": bound}
    if method.buckets:
        yield "talos_call_duration_seconds_sum", method.seconds, labels
        yield "talos_call_duration_seconds_count", method.buckets[-1].count, labels


def _make_disks(disks: Iterable[metrics_pb2.Disk]) -> Iterator[Number]:
    for disk in disks:
        labels = {"device": disk.name}
        if disk.state:
            yield "talos_disk_working", disk.state in WORKING, labels
        if disk.HasField("errors"):
            yield "talos_disk_errors_total", disk.errors, labels


def _make_sensors(sensors: Iterable[metrics_pb2.Sensor]) -> Iterator[Number]:
    for one in sensors:
        if one.kind not in SENSORS:
            continue  # of a newer node
        labels = {"chip": one.chip, "device": one.device, "sensor": one.name, "label": one.label}
        yield SENSORS[one.kind], one.value, labels
        if one.HasField("critical"):
            yield "talos_sensor_critical_celsius", one.critical, labels
