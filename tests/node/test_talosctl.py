"""What talosctl shows of a real node. The commands of docs/first-cluster.md are run by tests/kubernetes."""

import contextlib
import json
import os
import pty
import select
import subprocess
import termios
import threading
import time
from pathlib import Path
from urllib.request import urlopen

from tests.harness.cluster import NODE_TIMEOUT, Cluster

from talos.system.process import start_command


def test_a_node_answers_for_every_subject_of_the_metrics(cluster: Cluster) -> None:
    lines = cluster.talosctl("-n", "@all", "metrics").stdout.splitlines()
    assert not [line for line in lines if line.startswith("talos_scrape_failed")]
    node = f'node="{cluster.addresses[0]}"'
    assert f"talos_up{{{node}}} 1" in lines
    counts = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    for controller in ("network.AddressStatusController", "config.MachineTypeController"):
        assert float(counts[f'talos_controller_runs_total{{{node},controller="{controller}"}}']) >= 1
    assert float(counts[f'talos_state_watches{{{node},type="MachineConfigs.config.talos.dev"}}']) >= 1
    # The scrape before has ended.
    again = cluster.talosctl("-n", "@all", "metrics").stdout
    assert f'talos_calls_total{{{node},method="/machine.MachineService/Memory",code="OK"}} ' in again
    assert f'talos_process_open_fds{{{node},process="machined"}} ' in again


def test_a_node_sends_probes_without_privileges(cluster: Cluster) -> None:
    argv = ("--count", "2", "--interval", "200ms", "-o", "json")
    for host in ("127.0.0.1", "::1", "localhost"):
        lines = cluster.talosctl("ping", host, *argv).stdout.splitlines()
        assert json.loads(lines[-1])["received"] == "2"
    for protocol in ((), ("--icmp",)):
        [line] = cluster.talosctl("traceroute", "127.0.0.1", *protocol, "-o", "json").stdout.splitlines()
        assert json.loads(line)["from"] == "127.0.0.1"
    refused = cluster.talosctl("dns-query", "a.example", "--server", "127.0.0.1", check=False)
    assert (refused.returncode, refused.stdout) == (4, "")
    assert "127.0.0.1:53: Connection refused; try another server with --server" in refused.stderr
    records = cluster.talosctl("logs", "audit").stdout
    for method in ("Ping", "Traceroute", "DNSQuery"):
        assert f"/talos.probe.ProbeService/{method}" in records


def test_the_nodes_version(cluster: Cluster) -> None:
    version = Path(__file__).parents[2].joinpath("VERSION").read_text(encoding="utf-8").strip()
    text = cluster.talosctl("version").stdout
    assert f"NODE:        {cluster.addresses[0]}" in text
    assert text.count(version) == 2
    assert f"VERSION_ID={version}" in cluster.talosctl("read", "/etc/os-release").stdout


def test_memory_is_that_of_the_kernel(cluster: Cluster) -> None:
    (row,) = cluster.rows("memory")
    total = int(Path("/proc/meminfo").read_text(encoding="ascii").split()[1]) // 1024
    assert abs(int(row["TOTAL"]) - total) <= 1


def test_addresses_links_and_names_are_the_platforms(cluster: Cluster) -> None:
    node, address = cluster.nodes[0], cluster.addresses[0]
    addresses = {row["ADDRESS"] for row in cluster.rows("get", "addresses")}
    assert {f"{address}/24", "127.0.0.1/8"} <= addresses
    (hostname,) = cluster.rows("get", "hostname")
    assert hostname["HOSTNAME"] == node.name
    (status,) = cluster.rows("get", "netstatus")
    assert [status[key] for key in ("ADDRESS", "CONNECTIVITY", "HOSTNAME", "ETC")] == ["true"] * 4
    assert f"{address} {node.name}" in cluster.talosctl("read", "/etc/hosts").stdout
    assert "nameserver" in cluster.talosctl("read", "/etc/resolv.conf").stdout
    current = next(row for row in cluster.rows("get", "nodeaddress") if row["ID"] == "current")
    assert f"{address}/24" in current["ADDRESSES"]


def test_every_registered_type_can_be_listed(cluster: Cluster) -> None:
    rows = cluster.rows("get", "rd")
    assert len(rows) > 150
    kinds = {row["ID"] for row in rows}
    assert "linkstatuses.net.talos.dev" in kinds


def test_processes_are_the_nodes_own(cluster: Cluster) -> None:
    rows = cluster.rows("processes")
    assert any(row["PID"] == "1" and "init" in row["COMMAND"] for row in rows)
    assert not any("launcher" in row["COMMAND"] for row in rows)


def test_a_log_is_followed(cluster: Cluster) -> None:
    process = start_command(
        cluster.command("logs", "machined", "-f"), stdout=subprocess.PIPE, env=cluster.environment
    )
    lines: list[bytes] = []
    assert process.stdout is not None
    stream = process.stdout
    reader = threading.Thread(target=lambda: lines.extend(stream))
    reader.start()
    try:
        end = time.monotonic() + NODE_TIMEOUT
        while not lines and time.monotonic() < end:
            time.sleep(0.05)
        assert lines, "nothing came"
        assert process.poll() is None, "it ended"
    finally:
        process.terminate()
        process.wait()
        reader.join()
        stream.close()


def test_events_of_services(cluster: Cluster) -> None:
    process = start_command(
        cluster.command("events", "--tail", "-1"), stdout=subprocess.PIPE, env=cluster.environment
    )
    assert process.stdout is not None
    try:
        found = False
        for line in process.stdout:
            if b"ServiceStateEvent" in line or b"apid" in line:
                found = True
                break
        assert found
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def test_the_dashboard_shows_the_node_in_a_terminal(cluster: Cluster) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(ours, (40, 120))
    environment = {**cluster.environment, "TERM": "xterm-256color"}
    process = start_command(
        cluster.command("dashboard", "-d", "1s"), stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    screen = b""
    try:
        wanted = (cluster.nodes[0].name.encode(), b"machined", b"healthy")
        end = time.monotonic() + NODE_TIMEOUT
        while not all(text in screen for text in wanted):
            assert select.select([ours], [], [], max(end - time.monotonic(), 0))[0], screen
            screen += os.read(ours, 65536)
        os.write(ours, b"q")
        # It restores the terminal before it ends: the test must read, until no process has it open.
        with contextlib.suppress(OSError):
            while os.read(ours, 65536):
                pass
        assert process.wait(NODE_TIMEOUT) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_the_page_has_the_nodes_figures_and_logs(cluster: Cluster) -> None:
    process = start_command(
        cluster.command("dashboard", "--web"), stderr=subprocess.PIPE, env=cluster.environment
    )
    assert process.stderr is not None
    try:
        address = process.stderr.readline().decode().strip()
        with urlopen(f"{address}events", timeout=NODE_TIMEOUT) as events:
            node = next(
                node
                for line in events
                if line.startswith(b"data: ")
                for node in json.loads(line.removeprefix(b"data: "))["nodes"]
                if node["plots"]["busy"]
            )
        assert [len(points) for points in node["plots"].values()] == [1, 1, 1, 1]
        assert node["network"] > 0
        for name, text in (("machined", b"machined"), ("kernel", b"")):
            with urlopen(f"{address}nodes/{node['node']}/logs/{name}", timeout=NODE_TIMEOUT) as log:
                line = next(line for line in log if line.startswith(b"data: "))
            assert json.loads(line.removeprefix(b"data: "))["lines"]
            assert text in line
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


def test_time_is_reported(cluster: Cluster) -> None:
    (status,) = cluster.resource("timestatus")
    spec = status["spec"]
    assert isinstance(spec, dict)
    assert spec["synced"] is True
    assert spec["syncDisabled"] is True
    result = cluster.talosctl("time", "--check", "192.0.2.254", check=False)
    assert result.returncode != 0
    assert "192.0.2.254" in result.stderr


def test_what_is_no_file_is_not_read(cluster: Cluster) -> None:
    for path in ("/etc", "/dev/kmsg", "/nonsense", "../etc/hosts"):
        result = cluster.talosctl("read", path, check=False)
        assert result.returncode != 0, path
        assert result.stderr.startswith("error: "), path


def test_an_unknown_service_is_named(cluster: Cluster) -> None:
    result = cluster.talosctl("logs", "nonsense", check=False)
    assert result.returncode != 0
    assert "nonsense" in result.stderr
