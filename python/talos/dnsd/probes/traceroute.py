"""The routers on the way to a host: packets that live for one of them, then for two, and so on."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol, override

import trio

from talos.api.probe import probe_pb2 as pb
from talos.api.rpc import Call, Code, RpcError, Send
from talos.api.timestamps import make_duration
from talos.dnsd.probes.bounds import DurationField, IntegerField
from talos.dnsd.probes.sockets import (
    format_error,
    measure_round_trip,
    open_echo_socket,
    open_udp_socket,
)
from talos.dnsd.probes.target import Target, find_target
from talos.system.net.echo import EchoReply, EchoSocket
from talos.system.net.icmp_errors import IcmpError
from talos.system.net.udp_probe import PortReply, UdpProbeSocket

MAX_HOPS = IntegerField(name="max_hops", minimum=1, maximum=64, default=30)
QUERIES = IntegerField(name="queries", minimum=1, maximum=10, default=3)
TIMEOUT = DurationField(name="timeout", minimum=0.1, maximum=10.0, default=1.0)
FIRST_PORT = 33434
"""The port that traceroute has always begun at."""


async def run_traceroute(request: pb.TracerouteRequest, _call: Call, send: Send) -> None:
    """The handler; it sends the address and each hop, the last one arrives or is refused. RpcError."""
    max_hops, queries, timeout = MAX_HOPS.read(request), QUERIES.read(request), TIMEOUT.read(request)
    target = await find_target(request.host, request.family)
    with ExitStack() as stack:
        prober = _open_prober(request.protocol, target, stack)
        await send(pb.TracerouteReply(address=target.address))
        for number in range(1, max_hops + 1):
            hop = await _Hop(number=number, prober=prober, queries=queries).run(timeout)
            await send(pb.TracerouteReply(hop=hop))
            if hop.is_destination or is_refused(hop):
                return


def is_refused(hop: pb.Hop) -> bool:
    """Whether no packet goes further: all that is answered has an error. Routers limit how many they send."""
    answers = [answer for answer in hop.answers if answer.sender or answer.error]
    return bool(answers) and all(answer.error for answer in answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back for a packet, ``age`` seconds ago.

    ``error`` is empty when the packet's life was over, or it has arrived.
    """

    packet: int
    sender: str
    age: float
    error: str = ""
    is_destination: bool = False


class Prober(Protocol):
    """A way to send numbered packets."""

    def set_hops(self, hops: int) -> None:
        """How many routers the next packets may pass."""
        ...

    def send(self, packet: int) -> None:
        """Send one; OSError when this node can't."""
        ...

    async def receive(self) -> Answer:
        """What comes back next."""
        ...


@dataclass(slots=True)
class _Echoes(Prober):
    """ICMP echo requests, whose sequence is the packet's number."""

    opened: EchoSocket

    @override
    def set_hops(self, hops: int) -> None:
        self.opened.set_hops(hops)

    @override
    def send(self, packet: int) -> None:
        self.opened.send(packet, b"")

    @override
    async def receive(self) -> Answer:
        found = await self.opened.receive()
        if isinstance(found, EchoReply):
            return Answer(packet=found.sequence, sender=str(found.sender), age=found.age, is_destination=True)
        return _make_answer(found.sequence, found.error, is_destination=False)


@dataclass(slots=True)
class _Datagrams(Prober):
    """Datagrams, each to a port of its own."""

    opened: UdpProbeSocket

    @override
    def set_hops(self, hops: int) -> None:
        self.opened.set_hops(hops)

    @override
    def send(self, packet: int) -> None:
        self.opened.send(FIRST_PORT + packet)

    @override
    async def receive(self) -> Answer:
        found = await self.opened.receive()
        packet = found.port - FIRST_PORT
        if isinstance(found, PortReply):
            return Answer(packet=packet, sender=str(found.sender), age=found.age, is_destination=True)
        return _make_answer(packet, found, is_destination=found.is_no_port)


def _make_answer(packet: int, error: IcmpError, *, is_destination: bool) -> Answer:
    is_expected = is_destination or error.is_time_exceeded
    return Answer(
        packet=packet,
        sender=str(error.sender),
        age=error.age,
        error="" if is_expected else str(error),
        is_destination=is_destination,
    )


def _open_prober(protocol: pb.TracerouteRequest.Protocol, target: Target, stack: ExitStack) -> Prober:
    match protocol:
        case pb.TracerouteRequest.UDP:
            return _Datagrams(stack.enter_context(open_udp_socket(target)))
        case pb.TracerouteRequest.ICMP:
            return _Echoes(stack.enter_context(open_echo_socket(target)))
        case _:
            raise RpcError(Code.INVALID_ARGUMENT, f"protocol {protocol} is none: give 0 (UDP) or 1 (ICMP)")


@dataclass(slots=True, kw_only=True)
class _Hop:
    """The packets of one hop, by their numbers in the call."""

    number: int
    prober: Prober
    queries: int
    _sent: dict[int, float] = field(default_factory=dict[int, float])
    _answers: dict[int, pb.HopAnswer] = field(default_factory=dict[int, pb.HopAnswer])
    _has_arrived: bool = False

    async def run(self, timeout: float) -> pb.Hop:  # noqa: ASYNC109 - no answer is no error
        """Send them at once, and wait so many seconds for their answers."""
        packets = range((self.number - 1) * self.queries, self.number * self.queries)
        self.prober.set_hops(self.number)
        for packet in packets:
            self._send(packet)
        with trio.move_on_after(timeout):
            while self._sent.keys() - self._answers.keys():
                self._take(await self.prober.receive())
        return pb.Hop(
            number=self.number, answers=self._list_answers(packets), is_destination=self._has_arrived
        )

    def _send(self, packet: int) -> None:
        self._sent[packet] = trio.current_time()
        try:
            self.prober.send(packet)
        except OSError as error:
            self._answers[packet] = pb.HopAnswer(error=format_error(error))

    def _take(self, answer: Answer) -> None:
        began = self._sent.get(answer.packet)
        if began is None or answer.packet in self._answers:
            return  # of an earlier hop, or a second one
        round_trip = make_duration(measure_round_trip(began, answer.age))
        self._answers[answer.packet] = pb.HopAnswer(
            sender=answer.sender, round_trip=round_trip, error=answer.error
        )
        self._has_arrived |= answer.is_destination

    def _list_answers(self, packets: Sequence[int]) -> list[pb.HopAnswer]:
        return [self._answers.get(packet, pb.HopAnswer()) for packet in packets]
