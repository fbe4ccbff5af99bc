"""The families of metrics, as docs/reference/metrics.md lists them, and Prometheus' text format.

The format is 20 lines here. Its client library is a registry of counters that a process keeps and locks;
there is nothing to keep: every number is fetched from the nodes on request.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


type Number = tuple[str, float, dict[str, str]]
"""A family, a value, and labels beside the node."""
type Numbers = Sequence[Number]


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of a family; of a histogram's, ``family`` has its word behind."""

    family: str
    value: float
    labels: Mapping[str, str]


FAMILIES = {
    name: (kind, meaning)
    for name, kind, meaning in (
        ("talos_up", "gauge", "Whether the node answered."),
        ("talos_scrape_failed", "gauge", "1 for each subject that the node did not answer for."),
        ("talos_scrape_duration_seconds", "gauge", "How long the node took to answer for everything."),
        ("talos_node_info", "gauge", "1, with the version that the node runs and its stage."),
        ("talos_node_ready", "gauge", "Whether the node is ready, by its own status."),
        ("talos_node_unmet_condition", "gauge", "1 for each condition that keeps the node from being ready."),
        ("talos_node_diagnostic", "gauge", "1 for each warning of the node's."),
        ("talos_boot_time_seconds", "gauge", "When the kernel started, in seconds since 1970."),
        ("talos_load", "gauge", "Mean number of tasks that run or wait, over 1, 5 and 15 minutes."),
        ("talos_cpu_seconds_total", "counter", "Time of all processors by mode."),
        ("talos_context_switches_total", "counter", "Switches between tasks."),
        ("talos_memory_bytes", "gauge", "Memory by kind: total, available, free, cached, buffers, swap."),
        ("talos_disk_read_bytes_total", "counter", "What was read from a disk."),
        ("talos_disk_written_bytes_total", "counter", "What was written to a disk."),
        ("talos_disk_io_seconds_total", "counter", "Time in which a disk had something to do."),
        ("talos_network_receive_bytes_total", "counter", "What a link received."),
        ("talos_network_transmit_bytes_total", "counter", "What a link sent."),
        ("talos_network_errors_total", "counter", "Errors of a link by direction."),
        ("talos_network_dropped_total", "counter", "Packets that a link dropped, by direction."),
        ("talos_volume_size_bytes", "gauge", "Size of a volume's filesystem."),
        ("talos_volume_available_bytes", "gauge", "What of it is left."),
        ("talos_volume_failed", "gauge", "Whether a volume can't be used."),
        ("talos_volume_scrub_success", "gauge", "Whether the last scrub found the filesystem undamaged."),
        (
            "talos_volume_scrub_timestamp_seconds",
            "gauge",
            "When it began, in seconds since 1970.",
        ),
        ("talos_process_cpu_seconds_total", "counter", "Processor time of a process of the system."),
        ("talos_process_resident_memory_bytes", "gauge", "Its resident memory, shared parts included."),
        ("talos_process_threads", "gauge", "Its threads."),
        ("talos_process_open_fds", "gauge", "Its open files; missing before Linux 6.2."),
        ("talos_service_state", "gauge", "1, with the state of a service."),
        ("talos_service_healthy", "gauge", "Whether a service is healthy; missing where nothing checks it."),
        ("talos_time_synced", "gauge", "Whether the clock follows a time server."),
        ("talos_time_offset_seconds", "gauge", "The clock's offset that the kernel is still correcting."),
        ("talos_time_max_error_seconds", "gauge", "The kernel's bound for the clock's error."),
        ("talos_dns_upstream_healthy", "gauge", "Whether a name server answers the node."),
        ("talos_discovery_members", "gauge", "Members of the cluster that the node has found."),
        ("talos_discovery_affiliates", "gauge", "Nodes that were discovered, members or not."),
        ("talos_etcd_db_size_bytes", "gauge", "Size of the member's database."),
        ("talos_etcd_db_in_use_bytes", "gauge", "What of it is in use."),
        ("talos_etcd_is_leader", "gauge", "Whether the member leads."),
        ("talos_etcd_is_learner", "gauge", "Whether the member does not vote yet."),
        ("talos_etcd_raft_applied_index", "gauge", "The last entry that the member has applied."),
        ("talos_etcd_errors", "gauge", "Number of errors that the member reports."),
        ("talos_controller_runs_total", "counter", "Rounds of a controller."),
        ("talos_controller_failures_total", "counter", "Rounds that failed."),
        ("talos_controller_seconds_total", "counter", "Time of its rounds, waiting for others included."),
        ("talos_calls_total", "counter", "Calls that the node answered, by method and gRPC's status code."),
        ("talos_call_duration_seconds", "histogram", "How long they took; without streams."),
        ("talos_state_watches", "gauge", "Open watches of resources by type."),
        ("talos_disk_working", "gauge", "Whether the driver takes requests; missing where it has no state."),
        ("talos_disk_errors_total", "counter", "Requests that failed; of SCSI, SATA and USB disks."),
        ("talos_sensor_temperature_celsius", "gauge", "What a sensor of the hardware measures."),
        ("talos_sensor_critical_celsius", "gauge", "The temperature that is too high, by the driver."),
        ("talos_sensor_fan_rpm", "gauge", "Rounds of a fan per minute."),
        ("talos_sensor_voltage_volts", "gauge", "A voltage."),
        ("talos_sensor_current_amperes", "gauge", "A current."),
        ("talos_sensor_power_watts", "gauge", "What is consumed, now or on average."),
        ("talos_upgrade_phase", "gauge", "1, with the phase of the last upgrade and its version."),
    )
}


def format_samples(samples: Iterable[Sample], families: Mapping[str, tuple[str, str]] = FAMILIES) -> str:
    """The text of a scrape: each family once, in the order of the table."""
    lines: dict[str, list[str]] = {}
    for sample in samples:
        labels = ",".join(f'{name}="{_escape(value)}"' for name, value in sample.labels.items())
        lines.setdefault(find_family(sample.family, families), []).append(
            f"{sample.family}{{{labels}}} {_format_value(sample.value)}\n"
        )
    return "".join(
        f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n{''.join(lines[name])}"
        for name, (kind, meaning) in families.items()
        if name in lines
    )


def find_family(name: str, families: Container[str] = FAMILIES) -> str:
    """A histogram's name is that of its samples without their last word: bucket, sum, count."""
    return name if name in families else name.rpartition("_")[0]


def _format_value(value: float) -> str:
    """The shortest text that is this value."""
    return repr(float(value)).removesuffix(".0")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
