"""``time.TimeService``: the node's clock, and how it compares to a server's."""

from collections.abc import Awaitable, Callable, Sequence

from google.protobuf.empty_pb2 import Empty

from talos.api.rpc import Call, Code, RpcError, Service
from talos.api.time import time_pb2
from talos.api.timestamps import make_timestamp
from talos.timed.sntp import Answer

type Servers = Callable[[], Awaitable[Sequence[str]]]
type Ask = Callable[[str], Awaitable[Answer]]


class TimeService:
    """The handlers. ``servers`` gives those configured, ``ask`` asks one."""

    def __init__(self, servers: Servers, ask: Ask) -> None:
        self._servers = servers
        self._ask = ask

    def make_service(self) -> Service:
        """The service to be served."""
        descriptor = time_pb2.DESCRIPTOR.services_by_name["TimeService"]
        return Service(descriptor, {"Time": self.time, "TimeCheck": self.check})

    async def time(self, request: Empty, call: Call) -> time_pb2.TimeResponse:
        """Compare with the first configured server that answers."""
        del request, call
        servers = await self._servers()
        if not servers:
            raise RpcError(Code.FAILED_PRECONDITION, "no time servers are configured")
        for server in servers[:-1]:
            try:
                return make_response(await self._ask(server))
            except RpcError:
                continue
        return make_response(await self._ask(servers[-1]))

    async def check(self, request: time_pb2.TimeRequest, call: Call) -> time_pb2.TimeResponse:
        """Compare with the server that is named."""
        del call
        if not request.server:
            raise RpcError(Code.INVALID_ARGUMENT, "no time server is named")
        return make_response(await self._ask(request.server))


def make_response(answer: Answer) -> time_pb2.TimeResponse:
    """The reply: both clocks at the moment of the answer."""
    message = time_pb2.Time(
        server=answer.server,
        localtime=make_timestamp(answer.local),
        remotetime=make_timestamp(answer.local + answer.offset),
    )
    return time_pb2.TimeResponse(messages=[message])
