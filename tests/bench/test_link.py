"""How long a node takes from a cable to an address and an API that answers there, static and by DHCPv4.

The node is a container, the machine at the other end a network namespace, which runs dnsmasq and calls. The
time begins when the cable, whose far end is up, is plugged into the node. What the State has is seen by a
watch through the node's API on its first link; the call is made over TLS, so that the address has to be in
apid's certificate, too.
"""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc
from google.protobuf.message import Message
from tests.bench.lean_client import connect
from tests.bench.machine import Measured, run_nodes
from tests.bench.report import Table, spread
from tests.harness.cluster import NODE_TIMEOUT, eventually
from tests.harness.dnsmasq import run_dnsmasq
from tests.harness.peer import Peer

from talos.api.cosi import state_pb2
from talos.api.definitions import enums_pb2
from talos.resource import kinds
from talos.resource.kind import Kind

RUNS = 10
WATCH, VERSION = "/cosi.resource.State/Watch", "/machine.MachineService/Version"
GATEWAY = "10.37.0.1"
STATIC = "apiVersion: v1alpha1\nkind: LinkConfig\nname: {link}\naddresses: [{{address: {address}/24}}]\n"
DHCP = "apiVersion: v1alpha1\nkind: DHCPv4Config\nname: {link}\n"
# Without --no-ping dnsmasq itself looks for three seconds whether a machine has the address. It offers no
# router: the node keeps the one of its first link.
SERVER = (
    "--port=0", "--interface=far", "--except-interface=lo", "--bind-interfaces", "--no-ping",
    "--dhcp-option=option:router", "--dhcp-range={address},{address},255.255.255.0,2m",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """One that is plugged in once: networkd waits when the same link comes again and again.

    ``link`` is the name of the node's end, ``server`` what gives the address.
    """

    link: str
    address: str
    config: str
    server: Sequence[str] = ()


def make_cables() -> dict[str, list[Cable]]:
    """A cable of its own for each run, by how the node gets its address."""
    cables: dict[str, list[Cable]] = {"static": [], "DHCPv4": []}
    for number in range(RUNS):
        link, address = f"fix{number}", f"10.37.0.{10 + number}"
        cables["static"].append(
            Cable(link=link, address=address, config=STATIC.format(link=link, address=address))
        )
        link, address = f"lease{number}", f"10.37.0.{100 + number}"
        server = [argument.format(address=address) for argument in SERVER]
        config = DHCP.format(link=link)
        cables["DHCPv4"].append(Cable(link=link, address=address, config=config, server=server))
    return cables


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
            for response in watch(request.SerializeToString(), timeout=NODE_TIMEOUT)
            for event in response.event
        )
        self._kind, self._check = kind, check
        # The first event is how it is now: not there.
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
def other_machine(cable: Cable) -> Generator[Peer]:
    """The machine at the far end, whose end of the cable is up."""
    peer = Peer()
    try:
        for command in (
            f"link add far type veth peer name {cable.link}",
            f"address add {GATEWAY}/24 dev far",
            "link set lo up",
            "link set far up",
        ):
            peer.run(subprocess.run, ["ip", *command.split()], check=True)
        with ExitStack() as stack:
            if cable.server:
                log = stack.enter_context(run_dnsmasq(peer, *cable.server))

                def check_server() -> None:
                    assert "DHCP, IP range" in log.read_text(), log.read_text()

                eventually("dnsmasq serves", check_server)
            yield peer
    finally:
        peer.close()


def call_version(measured: Measured, address: str) -> float:
    """When the call is answered; called where the other machine is."""
    end = time.monotonic() + NODE_TIMEOUT
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


def measure(measured: Measured, cable: Cable) -> Times:
    """Plug the cable in, and out again."""
    with (
        other_machine(cable) as peer,
        grpc.secure_channel(measured.targets[0], measured.credentials) as channel,
        ThreadPoolExecutor(1) as thread,
    ):
        link = Watch(
            channel,
            kinds.LINK_STATUS,
            cable.link,
            lambda spec: spec.operational_state == enums_pb2.OPER_STATE_UP,
        )
        address = Watch(channel, kinds.ADDRESS_STATUS, f"{cable.link}/{cable.address}/24", lambda _: True)
        up = thread.submit(link.wait)
        node = str(measured.cluster.nodes[0].pid)
        begin = time.monotonic()
        peer.run(subprocess.run, ["ip", "link", "set", cable.link, "netns", node], check=True)
        addressed = address.wait()
        answered = peer.run(call_version, measured, cable.address)
        times = Times(
            up=1000 * (up.result() - begin),
            address=1000 * (addressed - begin),
            answered=1000 * (answered - begin),
        )
        peer.run(subprocess.run, ["ip", "link", "delete", "far"], check=True)
        address.wait_until_gone()
    return times


def test_link(tmp_path: Path) -> None:
    every = make_cables()
    patch = tmp_path / "patch.yaml"
    patch.write_text("---\n".join(cable.config for cables in every.values() for cable in cables))
    table = Table(f"A cable is plugged into a node, {RUNS} times each, ms", ("min", "median", "max"))
    with run_nodes(tmp_path) as measured:
        measured.settle()
        measured.cluster.talosctl("patch", "machineconfig", "--patch", f"@{patch}")
        for way, cables in every.items():
            found = [measure(measured, cable) for cable in cables]
            table.add(f"{way}: the link is up in the State", *spread([times.up for times in found]))
            table.add("  the address is in the State", *spread([times.address for times in found]))
            table.add("  Version is answered there, over TLS", *spread([times.answered for times in found]))
    table.show()
