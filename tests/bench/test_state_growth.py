"""How the cost of the State and of its service grows with resources and watches: time, memory, bytes.

All is in one process, without sockets: the figures are the State's own part of a write that daemons see, in
processor time.
"""

import os
import time
from dataclasses import dataclass

import trio
import trio.testing
from google.protobuf.message import Message
from tests.bench.report import MEBIBYTE, Table
from tests.harness.credentials import resident

from talos.api.cosi import state_pb2
from talos.api.definitions.network_pb2 import AddressStatusSpec
from talos.api.rpc import Call
from talos.resource.changes import put
from talos.resource.kinds import ADDRESS_STATUS
from talos.resource.memory.state import MemoryState
from talos.resource.remote.service import make_state_service
from talos.resource.remote.watch import API_VERSION
from talos.resource.state import EventType
from talos.resource.yaml.spec import PLAIN_SPECS

SIZES = [int(size) for size in os.environ.get("BENCH_RESOURCES", "100,1000,10000").split(",")]
WATCHERS = [int(count) for count in os.environ.get("BENCH_WATCHERS", "1,20,200").split(",")]
UPDATES = int(os.environ.get("BENCH_UPDATES", "50"))
"""Writes of which each is awaited by all watchers before the next one."""
CALL = Call(
    method="/cosi.resource.State/Watch",
    metadata={key: tuple(values) for key, values in PLAIN_SPECS.items()},
    deadline=float("inf"),
    peer="bench",
)


@dataclass(slots=True)
class Receiver:
    """What all watchers together have received."""

    events: int = 0
    size: int = 0
    bootstrapped: int = 0

    async def send(self, message: Message) -> None:
        """Take a reply as a server's connection does."""
        assert isinstance(message, state_pb2.WatchResponse)
        self.size += len(message.SerializeToString())
        self.events += len(message.event)
        if message.event and message.event[-1].event_type == EventType.BOOTSTRAPPED:
            self.bootstrapped += 1
        await trio.lowlevel.checkpoint()


def make_request(*, bootstrap: bool) -> state_pb2.WatchRequest:
    options = state_pb2.WatchOptions(bootstrap_contents=bootstrap, aggregated=True)
    return state_pb2.WatchRequest(
        namespace=ADDRESS_STATUS.namespace,
        type=ADDRESS_STATUS.type,
        api_version=API_VERSION,
        options=options,
    )


async def write(state: MemoryState, number: int, priority: int = 0) -> None:
    spec = AddressStatusSpec(link_name=f"veth{number:08x}", link_index=number, priority=priority)
    await put(state, ADDRESS_STATUS, f"veth{number:08x}/10.244.0.1/32", spec)


async def measure_contents(state: MemoryState, size: int, table: Table) -> None:
    """Writes without watchers, a list, and the first batch of a watch."""
    before, began = resident(os.getpid()), time.process_time()
    for number in range(size):
        await write(state, number)
    put_time = time.process_time() - began
    memory = (resident(os.getpid()) - before) * MEBIBYTE / size
    began = time.process_time()
    assert len(await state.list(ADDRESS_STATUS)) == size
    list_time = time.process_time() - began
    receiver = Receiver()
    async with trio.open_nursery() as nursery:
        began = time.process_time()
        watch = make_state_service(state).handlers["Watch"]
        nursery.start_soon(watch, make_request(bootstrap=True), CALL, receiver.send)
        while not receiver.bootstrapped:
            await trio.lowlevel.checkpoint()
        begin_time = time.process_time() - began
        nursery.cancel_scope.cancel()
    figures = (put_time, list_time, begin_time)
    table.add(
        f"{size:,} resources",
        *(f"{1e6 * figure / size:.1f}" for figure in figures),
        f"{receiver.size / size:.0f}",
        f"{memory:.0f}",
    )


async def measure_watchers(state: MemoryState, size: int, watchers: int, table: Table) -> None:
    """A write until all watchers have it."""
    receiver, watch = Receiver(), make_state_service(state).handlers["Watch"]
    async with trio.open_nursery() as nursery:
        before = resident(os.getpid())
        for _ in range(watchers):
            nursery.start_soon(watch, make_request(bootstrap=False), CALL, receiver.send)
        await trio.testing.wait_all_tasks_blocked()
        memory = (resident(os.getpid()) - before) * 1024 / watchers
        began, sent = time.process_time(), receiver.size
        for number in range(UPDATES):
            await write(state, number % size, priority=watchers * UPDATES + number)
            while receiver.events < (number + 1) * watchers:
                await trio.lowlevel.checkpoint()
        used = 1e6 * (time.process_time() - began) / UPDATES
        nursery.cancel_scope.cancel()
    table.add(
        f"{size:,} resources, {watchers} watches",
        f"{used:,.0f}",
        f"{used / watchers:.0f}",
        f"{(receiver.size - sent) / UPDATES / watchers:.0f}",
        f"{memory:.0f}",
    )


def test_state_growth() -> None:
    contents = Table(
        "The State, µs of processor time a resource",
        ("put", "list", "contents of a watch", "bytes of these", "bytes of memory"),
    )
    watches = Table(
        "A write until all watches have sent it, µs of processor time",
        ("a write", "a write and watch", "bytes of an event", "KiB of a watch"),
    )

    async def measure(size: int) -> None:
        state = MemoryState()
        await measure_contents(state, size, contents)
        for watchers in WATCHERS:
            await measure_watchers(state, size, watchers, watches)

    for size in SIZES:
        trio.run(measure, size)
    contents.show()
    watches.show()
