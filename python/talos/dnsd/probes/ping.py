"""ICMP echo requests, one after another, and what becomes of each."""

import math

import trio

from talos.api.ping_summary import make_summary
from talos.api.probe import probe_pb2 as pb
from talos.api.rpc import Call, Send
from talos.api.timestamps import make_duration
from talos.dnsd.probes.bounds import DurationField, IntegerField
from talos.dnsd.probes.sockets import format_error, measure_round_trip, open_echo_socket
from talos.dnsd.probes.target import find_target
from talos.system.net.echo import EchoError, EchoReply, EchoSocket

COUNT = IntegerField(name="count", minimum=1, maximum=10_000, default=5)
SIZE = IntegerField(name="size", minimum=0, maximum=8972, default=56)
"""Bytes; the largest packet has the 9000 bytes of a jumbo frame."""
INTERVAL = DurationField(name="interval", minimum=0.1, maximum=60.0, default=1.0)
TIMEOUT = DurationField(name="timeout", minimum=0.1, maximum=60.0, default=2.0)


async def run_ping(request: pb.PingRequest, _call: Call, send: Send) -> None:
    """The handler; it sends the address, each packet and the summary. RpcError."""
    count, size = COUNT.read(request), SIZE.read(request)
    interval, timeout = INTERVAL.read(request), TIMEOUT.read(request)
    target = await find_target(request.host, request.family)
    with open_echo_socket(target) as opened:
        await send(pb.PingReply(address=target.address))
        packets = _Packets(opened, send, bytes(index & 0xFF for index in range(size)), timeout)
        await packets.run(count, interval)
    await send(pb.PingReply(summary=make_summary(count, packets.round_trips)))


class _Packets:
    """The packets of a call, those on their way in the order in which they were sent."""

    def __init__(self, opened: EchoSocket, send: Send, payload: bytes, timeout: float) -> None:
        self._socket = opened
        self._send = send
        self._payload = payload
        self._timeout = timeout
        self._waiting: dict[int, float] = {}
        self.round_trips: list[float] = []

    async def run(self, count: int, interval: float) -> None:
        """Send so many and wait for each; ``interval`` in seconds from one to the next."""
        sequence, next_time = 0, trio.current_time()
        while sequence < count or self._waiting:
            deadline = next_time if sequence < count else math.inf
            if self._waiting:
                deadline = min(deadline, next(iter(self._waiting.values())) + self._timeout)
            answer: EchoReply | EchoError | None = None
            with trio.move_on_at(deadline):
                answer = await self._socket.receive()
            if answer is not None:
                await self._take(answer)
            await self._drop_late()
            if sequence < count and trio.current_time() >= next_time:
                sequence += 1
                await self._send_one(sequence)
                # From now on: after a client that has not read for a while there is no burst.
                next_time = trio.current_time() + interval

    async def _send_one(self, sequence: int) -> None:
        self._waiting[sequence] = trio.current_time()
        try:
            self._socket.send(sequence, self._payload)
        except OSError as error:
            del self._waiting[sequence]
            await self._report(pb.PingPacket(sequence=sequence, error=format_error(error)))

    async def _take(self, answer: EchoReply | EchoError) -> None:
        began = self._waiting.pop(answer.sequence, None)
        if began is None:
            return  # a second reply, or one that is too late
        age = answer.age if isinstance(answer, EchoReply) else answer.error.age
        seconds = measure_round_trip(began, age)
        packet = pb.PingPacket(sequence=answer.sequence, round_trip=make_duration(seconds))
        match answer:
            case EchoReply():
                self.round_trips.append(seconds)
                packet.sender, packet.size = str(answer.sender), answer.size
                packet.time_to_live = answer.time_to_live
            case EchoError():
                packet.sender, packet.error = str(answer.error.sender), str(answer.error)
        await self._report(packet)

    async def _drop_late(self) -> None:
        bound = trio.current_time() - self._timeout
        for sequence in [sequence for sequence, began in self._waiting.items() if began <= bound]:
            del self._waiting[sequence]
            error = f"no answer within {self._timeout:g} s"
            await self._report(pb.PingPacket(sequence=sequence, error=error))

    async def _report(self, packet: pb.PingPacket) -> None:
        await self._send(pb.PingReply(packet=packet))
