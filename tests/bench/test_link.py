"""How long a node takes from a cable to an address and an API that answers there, static and by DHCPv4.

The node is a container, the machine at the other end a network namespace, which runs dnsmasq and asks. The
time begins when the cable, whose far end is up, is plugged into the node. What the State says is seen by a
watch through the node's API on its first link; the call is made over TLS, so that the address has to be in
apid's certificate, too.
"""

# gRPC's type stubs know no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import subprocess
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc
from google.protobuf.message import Message
from tests.bench.lean_client import connect
from tests.bench.machine import Measured, run_nodes
from tests.bench.report import Table, spread
from tests.harness.cluster import PATIENCE, eventually
from tests.harness.dnsmasq import run_dnsmasq
from tests.harness.peer import Peer

from talos.api.cosi import state_pb2
from talos.api.definitions import enums_pb2
from talos.resource import kinds
from talos.resource.kind import Kind

RUNS = 5
WATCH, VERSION = "/cosi.resource.State/Watch", "/machine.MachineService/Version"
GATEWAY = "10.37.0.1"
CONFIG = """\
apiVersion: v1alpha1
kind: LinkConfig
name: lan0
addresses: [{address: 10.37.0.2/24}]
---
apiVersion: v1alpha1
kind: DHCPv4Config
name: lan1
"""
# Without --no-ping dnsmasq itself looks for three seconds whether anybody has the address.
SERVER = (
    "--port=0", "--interface=far", "--except-interface=lo", "--bind-interfaces", "--no-ping",
    "--dhcp-range=10.37.0.10,10.37.0.10,255.255.255.0,2m",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How the node gets an address; ``link`` is the name of its end of the cable."""

    name: str
    link: str
    address: str
    has_server: bool


WAYS = (
    Way(name="static", link="lan0", address="10.37.0.2", has_server=False),
    Way(name="DHCPv4", link="lan1", address="10.37.0.10", has_server=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Milliseconds since the cable was plugged in: link up and address in the State, an answered call."""

    up: float
    address: float
    answered: float


class Watch[S: Message]:
    """Changes of one resource, from before the cable is there."""

    def __init__(self, channel: grpc.Channel, kind: Kind[S], id: str, check: Callable[[S], bool]) -> None:
        request = state_pb2.WatchRequest(namespace=kind.namespace, type=kind.type, id=id, api_version=1)
        watch = channel.unary_stream(WATCH, response_deserializer=state_pb2.WatchResponse.FromString)
        self._events = (
            event
            for response in watch(request.SerializeToString(), timeout=PATIENCE)
            for event in response.event
        )
        self._kind, self._check = kind, check
        # The first event says how it is now: not there.
        self.wait_until_gone()

    def wait(self) -> float:
        """When it is as it shall be, on the clock that is never set."""
        for event in self._events:
            is_there = event.event_type in {state_pb2.CREATED, state_pb2.UPDATED}
            if is_there and self._check(self._kind.spec.FromString(event.resource.spec.proto_spec)):
                return time.monotonic()
        raise AssertionError("the watch ended")

    def wait_until_gone(self) -> None:
        """Until it is removed, or was never there."""
        for event in self._events:
            if event.event_type == state_pb2.DESTROYED:
                return
        raise AssertionError("the watch ended")


@contextmanager
def other_machine(way: Way) -> Generator[Peer]:
    """The machine at the far end, whose end of the cable is up."""
    peer = Peer()
    try:
        for command in (
            f"link add far type veth peer name {way.link}",
            f"address add {GATEWAY}/24 dev far",
            "link set lo up",
            "link set far up",
        ):
            peer.run(subprocess.run, ["ip", *command.split()], check=True)
        with ExitStack() as stack:
            if way.has_server:
                log = stack.enter_context(run_dnsmasq(peer, *SERVER))

                def check_server() -> None:
                    assert "DHCP, IP range" in log.read_text(), log.read_text()

                eventually("dnsmasq serves", check_server)
            yield peer
    finally:
        peer.close()


def ask_version(measured: Measured, address: str) -> float:
    """When the call is answered; called where the other machine is."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with (
            suppress(OSError),
            connect(address, measured.authority, measured.client, VERSION) as client,
        ):
            client.send(client.begin())
            while not client.finished():
                pass
            return time.monotonic()
        time.sleep(0.002)
    raise AssertionError(f"{address} never answered")


def measure(measured: Measured, way: Way) -> Times:
    """Plug the cable in once, and out again."""
    with (
        other_machine(way) as peer,
        grpc.secure_channel(measured.targets[0], measured.credentials) as channel,
        ThreadPoolExecutor(1) as thread,
    ):
        link = Watch(
            channel,
            kinds.LINK_STATUS,
            way.link,
            lambda spec: spec.operational_state == enums_pb2.OPER_STATE_UP,
        )
        address = Watch(channel, kinds.ADDRESS_STATUS, f"{way.link}/{way.address}/24", lambda _: True)
        up = thread.submit(link.wait)
        node = str(measured.cluster.nodes[0].pid)
        begin = time.monotonic()
        peer.run(subprocess.run, ["ip", "link", "set", way.link, "netns", node], check=True)
        addressed = address.wait()
        answered = peer.run(ask_version, measured, way.address)
        times = Times(
            up=1000 * (up.result() - begin),
            address=1000 * (addressed - begin),
            answered=1000 * (answered - begin),
        )
        peer.run(subprocess.run, ["ip", "link", "delete", "far"], check=True)
        address.wait_until_gone()
    return times


def test_link(tmp_path: Path) -> None:
    patch = tmp_path / "patch.yaml"
    patch.write_text(CONFIG)
    table = Table(f"A cable is plugged into a node, {RUNS} times each, ms", ("min", "median", "max"))
    with run_nodes(tmp_path) as measured:
        measured.settle()
        measured.cluster.talosctl("patch", "machineconfig", "--patch", f"@{patch}")
        for way in WAYS:
            found = [measure(measured, way) for _ in range(RUNS)]
            table.add(f"{way.name}: the link is up in the State", *spread([times.up for times in found]))
            table.add("  the address is in the State", *spread([times.address for times in found]))
            table.add("  Version is answered there, over TLS", *spread([times.answered for times in found]))
    table.show()
