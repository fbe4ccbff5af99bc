"""From the logs and events of PID 1 to a destination, over the socket between the two."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.lowlevel
from tests.harness.limits import REAL_TIMEOUT
from tests.unit.logd.sink import Lines, running_sink

from talos.api.common.common_pb2 import URL
from talos.api.definitions.runtime_pb2 import EventSinkConfigSpec, KmsgLogConfigSpec
from talos.api.machine import machine_pb2
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.api.rpc import Call, Code, RpcError, Service, Transport
from talos.api.siderolink import events_pb2
from talos.logd.controllers import events as events_module
from talos.logd.controllers.logs import Deliveries
from talos.logd.feed import Feed
from talos.logd.main import make_controllers
from talos.machined.logs.feed import make_feed_service
from talos.machined.logs.kubernetes_audit import MAX_CHUNK
from talos.machined.logs.store import LogStore
from talos.machined.node.events import EventLog
from talos.process.run import Daemon, host
from talos.resource import ids
from talos.resource.changes import destroy_if_present, put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.rpc.channel import open_channel, open_remote
from talos.rpc.port.remote import RemoteServer
from talos.rpc.server import serve
from talos.system.backoff import Backoff
from talos.system.logging import Log

type Test = Callable[["Node"], Awaitable[None]]

CONFIG = """
version: v1alpha1
machine:
  type: controlplane
  logging:
    destinations:
      - {{endpoint: "tcp://127.0.0.1:{port}", format: json_lines, extraTags: {{node: one}}}}
"""


class Node:
    """PID 1's logs and events, and logd's controllers."""

    def __init__(self, daemon: Daemon, folder: Path, log: Lines) -> None:
        self.daemon, self.folder, self.log = daemon, folder, log
        self.logs, self.events, self.state = LogStore(), EventLog(), MemoryState()
        self.connect: events_module.Connect | None = None
        """To a sink of events; without it to the one of :meth:`serve_sink`."""

    async def configure(self, port: int) -> None:
        text = CONFIG.format(port=port).encode()
        await put(self.state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text))

    async def serve_sink(self, service: Service) -> None:
        async with serve(self.daemon, [service], self.folder / "sink", grace=0):
            await trio.sleep_forever()


def run_node(folder: Path, test: Test) -> None:
    log = Lines()

    async def main(daemon: Daemon) -> None:
        node = Node(daemon, folder, log)
        feed_service = make_feed_service(node.logs, node.events, has_kernel=False, audit=folder / "audit")
        with trio.fail_after(REAL_TIMEOUT):
            async with (
                serve(daemon, [feed_service], folder / "feed", grace=0),
                open_channel(daemon, folder / "feed", wait_for_ready=True) as transport,
                trio.open_nursery() as nursery,
            ):
                feed = Feed(transport, daemon.log)

                def connect(server: RemoteServer) -> AbstractAsyncContextManager[Transport]:
                    if node.connect is not None:
                        return node.connect(server)
                    return open_channel(daemon, folder / "sink")

                controllers = make_controllers(Deliveries(feed, daemon.log), feed, connect, daemon.log)
                nursery.start_soon(run_controllers, node.state, controllers)
                await test(node)
                nursery.cancel_scope.cancel()

    asyncio.run(host(main, "test", Log(write=log.append)))


def test_lines_from_before_and_after_the_config_come_in_order(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        node.logs.append("apid", b'{"msg":"early","level":"error"}\n')
        node.logs.append("audit", b'{"msg":"audit","name":"alice"}\n')
        async with running_sink() as sink:
            await node.configure(sink.port)
            while len(sink.lines) < 2:
                await sink.more.wait()
            for index in range(100):
                node.logs.append("apid", b"line %d\n" % index)
            while len(sink.lines) < 102:
                await sink.more.wait()
            messages = sink.messages()
        assert {message["node"] for message in messages} == {"one"}
        of_apid = [message["msg"] for message in messages if message["talos-service"] == "apid"]
        assert of_apid == ["early", *(f"line {index}" for index in range(100))]
        (record,) = [message for message in messages if message["talos-service"] == "audit"]
        assert (record["msg"], record["name"]) == ("audit", "alice")

    run_node(tmp_path, test)


def test_records_of_the_api_server_come_with_their_own_time(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        (node.folder / "audit").mkdir()
        file = node.folder / "audit/kube-apiserver.log"
        record = {"verb": "get", "level": "Metadata", "stageTimestamp": "2026-01-02T03:04:05.678901Z"}
        more = 2 * MAX_CHUNK // 1000
        file.write_text(f"{json.dumps(record)}\nno JSON\n" + f"{'x' * 999}\n" * more)
        async with running_sink() as sink:
            await node.configure(sink.port)
            while len(sink.lines) < 2 + more:
                await sink.more.wait()
        first, second, *_ = sink.messages()
        own = {"msg": "audit", "node": "one", "talos-level": "info", "talos-service": "kube-apiserver-audit"}
        assert first == record | own | {"talos-time": "2026-01-02T03:04:05.678901Z"}
        assert (second["msg"], second["talos-service"]) == ("no JSON", "kube-apiserver-audit")

    run_node(tmp_path, test)


def test_what_a_slow_destination_misses_is_counted_in_its_place(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        node.logs.append("apid", b"first\n")
        async with running_sink() as sink:
            await node.configure(sink.port)
            await sink.more.wait()
            sink.reads = trio.Event()  # it stops to read, and the node goes on
            sent = 6000
            for index in range(sent):
                node.logs.append("apid", b"%06d %s\n" % (index, b"x" * 500))
                if index % 100 == 0:
                    await trio.lowlevel.checkpoint()
            sink.reads.set()
            node.logs.append("apid", b"last\n")
            while not sink.lines[-1].startswith(b'{"msg":"last"'):
                await sink.more.wait()
            texts = [message["msg"] for message in sink.messages()]
        numbers = [int(text[:6]) for text in texts if text[:6].isdigit()]
        assert numbers == sorted(set(numbers))
        missing = [text for text in texts if "missing here" in text]
        assert missing, "some are lost"
        assert sum(int(text.split()[0]) for text in missing) == sent - len(numbers)
        assert any("lines are lost" in line for line in node.log)

    run_node(tmp_path, test)


def test_a_destination_that_is_no_longer_configured_gets_nothing(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        async with running_sink() as one, running_sink() as other:
            await node.configure(one.port)
            node.logs.append("apid", b"first\n")
            await one.more.wait()
            await node.configure(other.port)
            await other.more.wait()
            node.logs.append("apid", b"second\n")
            while len(other.lines) < 2:
                await other.more.wait()
            assert [message["msg"] for message in one.messages()] == ["first"]
            assert [message["msg"] for message in other.messages()] == ["first", "second"]

    run_node(tmp_path, test)


def test_a_container_has_no_log_of_the_kernel(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        spec = KmsgLogConfigSpec(destinations=[URL(full_path="tcp://127.0.0.1:9")])
        await put(node.state, *ids.KMSG_LOG_CONFIG, spec)
        await node.log.wait(text="a container does not see")

    run_node(tmp_path, test)


def test_events_are_published_in_order_until_they_are_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published, sent = Lines(), list[int]()
    failures = 2

    async def publish(request: events_pb2.EventRequest, call: Call) -> events_pb2.EventResponse:
        nonlocal failures
        del call
        if failures and len(published) == 1:
            failures -= 1
            raise RpcError(Code.UNAVAILABLE, "busy")
        event = machine_pb2.RestartEvent()
        assert request.data.type_url == "type.googleapis.com/machine.RestartEvent"
        assert request.data.Unpack(event)
        sent.append(event.cmd)
        published.append(request)
        return events_pb2.EventResponse()

    async def test(node: Node) -> None:
        service = Service(events_pb2.DESCRIPTOR.services_by_name["EventSinkService"], {"Publish": publish})
        for index in range(3):
            node.events.publish(machine_pb2.RestartEvent(cmd=index), actor_id="me")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.serve_sink, service)
            await put(node.state, *ids.EVENT_SINK_CONFIG, EventSinkConfigSpec(endpoint="10.0.0.1:4000"))
            await published.wait(3)
            await destroy_if_present(node.state, *ids.EVENT_SINK_CONFIG)
            node.events.publish(machine_pb2.RestartEvent(cmd=3))
            # It goes on behind what was acknowledged.
            await put(node.state, *ids.EVENT_SINK_CONFIG, EventSinkConfigSpec(endpoint="10.0.0.1:4001"))
            await published.wait(4)
            while sent[-1] != 3:
                await published.wait(len(published) + 1)
            nursery.cancel_scope.cancel()
        # One that was not acknowledged when the config changed comes twice.
        assert sent == sorted(sent)
        assert set(sent) == {0, 1, 2, 3}
        assert published[0].actor_id == "me"
        assert len(published[0].id) == 20

    monkeypatch.setattr(events_module, "RETRY_BACKOFF", Backoff(0.01, 30.0))
    run_node(tmp_path, test)


async def close(stream: trio.SocketStream) -> None:
    await stream.aclose()


async def be_silent(stream: trio.SocketStream) -> None:
    await trio.sleep_forever()
    await stream.aclose()


async def speak_http1(stream: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError):
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def flood(stream: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError):
        await stream.send_all(bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
        while True:
            await stream.send_all(bytes((0, 0, 8, 6, 0, 0, 0, 0, 0)) + bytes(8))


@pytest.mark.parametrize("behave", [None, close, be_silent, speak_http1, flood])
def test_an_event_stays_until_a_sink_that_is_hostile_is_replaced(
    behave: Callable[[trio.SocketStream], Awaitable[None]] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    published = Lines()

    async def publish(request: events_pb2.EventRequest, call: Call) -> events_pb2.EventResponse:
        del call
        published.append(request)
        return events_pb2.EventResponse()

    async def test(node: Node) -> None:
        contexts = Lines()

        def connect(server: RemoteServer) -> AbstractAsyncContextManager[Transport]:
            contexts.append(server.context)
            return open_remote(node.daemon.bridge, replace(server, context=None))

        node.connect = connect
        node.events.publish(machine_pb2.RestartEvent(cmd=7))
        async with trio.open_nursery() as nursery:
            port = 1
            if behave is not None:
                (listener,) = await nursery.start(partial(trio.serve_tcp, behave, 0, host="127.0.0.1"))
                port = listener.socket.getsockname()[1]
            await put(
                node.state, *ids.EVENT_SINK_CONFIG, EventSinkConfigSpec(endpoint=f"tls://127.0.0.1:{port}")
            )
            await node.log.wait(text="the sink of events fails")
            await contexts.wait(2)
            assert contexts[0] is not contexts[1], "the node may trust others by now"
            nursery.cancel_scope.cancel()
        node.connect = None
        service = Service(events_pb2.DESCRIPTOR.services_by_name["EventSinkService"], {"Publish": publish})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.serve_sink, service)
            await put(node.state, *ids.EVENT_SINK_CONFIG, EventSinkConfigSpec(endpoint="10.0.0.1:1"))
            await published.wait()
            nursery.cancel_scope.cancel()
        assert not any("failed, next try" in line for line in node.log)

    monkeypatch.setattr(events_module, "RETRY_BACKOFF", Backoff(0.01, 0.02))
    monkeypatch.setattr(events_module, "PUBLISH_TIMEOUT", 0.3)
    run_node(tmp_path, test)


@pytest.mark.parametrize("endpoint", ["10.0.0.1", "tls://:5", ""])
def test_a_sink_needs_a_host_and_a_port(endpoint: str) -> None:
    with pytest.raises(ValueError, match="needs a host"):
        events_module.make_server(endpoint)


def test_a_sink_may_have_tls() -> None:
    server = events_module.make_server("tls://[fd00::1]:4000")
    assert (server.host, server.port, server.context is not None) == ("fd00::1", 4000, True)
    assert events_module.make_server("sink.example:4000").context is None
