"""Logs and events that leave the node, and the daemon that sends them."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from tests.harness.cluster import Cluster, eventually
from tests.harness.processor import processor_seconds
from tests.node.test_rest import MAX_CPU_SHARE, patch

from talos.api.siderolink import events_pb2

WINDOW = 2.0
"""Seconds over which the daemon is watched."""


class Sink:
    """Takes lines on the host's end of the cluster's network."""

    def __init__(self, address: str) -> None:
        self._server = socket.create_server((address, 0))
        self.port = self._server.getsockname()[1]
        self.address = address
        self.messages: list[dict[str, Any]] = []
        self.connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            try:
                for line in lines:
                    self.messages.append(json.loads(line))
            except OSError:
                return

    def close(self) -> None:
        self._server.close()
        for connection in self.connections:
            connection.close()

    def find(self, **fields: str) -> list[dict[str, Any]]:
        return [one for one in [*self.messages] if fields.items() <= one.items()]


class EventSink:
    """What upstream's sink is: gRPC in the clear, here by another implementation than ours."""

    def __init__(self, address: str) -> None:
        self.events: list[events_pb2.EventRequest] = []
        self._server = grpc.server(ThreadPoolExecutor(1))
        handler = grpc.unary_unary_rpc_method_handler(
            self._publish,
            request_deserializer=events_pb2.EventRequest.FromString,
            response_serializer=events_pb2.EventResponse.SerializeToString,
        )
        methods = grpc.method_handlers_generic_handler("events.EventSinkService", {"Publish": handler})
        self._server.add_generic_rpc_handlers((methods,))
        self.port = self._server.add_insecure_port(f"{address}:0")
        self._server.start()

    def _publish(self, request: events_pb2.EventRequest, context: object) -> events_pb2.EventResponse:
        del context
        self.events.append(request)
        return events_pb2.EventResponse()

    def close(self) -> None:
        self._server.stop(None).wait()


CONFIG = """
machine:
  logging:
    destinations:
    - {{endpoint: "tcp://{address}:{port}", format: json_lines, extraTags: {{rack: r1}}}}
---
apiVersion: v1alpha1
kind: EventSinkConfig
endpoint: {address}:{events}
---
apiVersion: v1alpha1
kind: KmsgLogConfig
name: kernel
url: udp://{address}:{port}
"""
NO_CONFIG = """
machine:
  logging: {$patch: delete}
---
apiVersion: v1alpha1
kind: EventSinkConfig
$patch: delete
---
apiVersion: v1alpha1
kind: KmsgLogConfig
name: kernel
$patch: delete
"""


@contextmanager
def sending(cluster: Cluster, folder: Path) -> Generator[tuple[Sink, EventSink]]:
    """A node that sends its logs and events here."""
    address = str(cluster.info.gateway)
    sink, events = Sink(address), EventSink(address)
    try:
        patch(cluster, folder, CONFIG.format(address=address, port=sink.port, events=events.port))
        yield sink, events
    finally:
        patch(cluster, folder, NO_CONFIG)
        sink.close()
        events.close()


def test_logs_and_events_leave_the_node_and_the_daemon_ends_with_its_config(
    cluster: Cluster, tmp_path: Path
) -> None:
    with sending(cluster, tmp_path) as (sink, events):
        folder = cluster.root() / "var/log/audit/kube"
        if not (folder / "kube-apiserver.log").exists():  # no API server runs here
            (folder / "kube-apiserver-2026-01-02T03-04-05.678.log").write_text('{"verb":"get"}\n')

        def has_come() -> None:
            assert sink.find(**{"talos-service": "kube-apiserver-audit", "rack": "r1"})
            assert sink.find(**{"talos-service": "machined", "rack": "r1"})
            calls = [str(one.get("method")) for one in sink.find(**{"talos-service": "audit"})]
            assert any("ApplyConfiguration" in method for method in calls), calls
            kinds = {event.data.type_url for event in events.events}
            assert "type.googleapis.com/machine.ServiceStateEvent" in kinds
            assert cluster.services()["logd"]["HEALTH"] == "OK"

        eventually("lines and events come", has_come)
        ids = [event.id for event in events.events]
        assert ids == sorted(ids)
        (found,) = cluster.resource("eventsinkconfigs")
        assert found["spec"] == {"endpoint": f"{cluster.info.gateway}:{events.port}"}
        (found,) = cluster.resource("kmsglogconfigs")
        assert found["spec"] == {"destinations": [f"udp://{cluster.info.gateway}:{sink.port}"]}
        (pid,) = cluster.processes()["logd"]

        def is_at_rest() -> None:
            before = processor_seconds(pid)
            time.sleep(WINDOW)
            assert (processor_seconds(pid) - before) / WINDOW < MAX_CPU_SHARE

        eventually("logd is at rest", is_at_rest)
        os.kill(pid, signal.SIGKILL)

        def is_back() -> None:
            assert cluster.processes().get("logd", [pid]) != [pid]
            assert len(sink.connections) > 1

        eventually("logd is back", is_back)
    eventually("logd has ended", lambda: _check_ended(cluster))


def _check_ended(cluster: Cluster) -> None:
    assert "logd" not in cluster.processes()
    assert "logd" not in cluster.services()
    assert not cluster.resource("eventsinkconfigs")


def test_the_console_has_the_logs_where_the_config_has_it_so(cluster: Cluster, tmp_path: Path) -> None:
    console = cluster.nodes[0].console

    def check() -> None:
        cluster.talosctl("read", "/etc/os-release")  # recorded, as a reader may not
        shown = console.read_text(encoding="utf-8", errors="replace")[before:]
        assert "audit: {" in shown

    before = len(console.read_text(encoding="utf-8", errors="replace"))
    patch(cluster, tmp_path, "debug: true")
    try:
        eventually("the console has another log", check)
    finally:
        patch(cluster, tmp_path, "debug: false")
