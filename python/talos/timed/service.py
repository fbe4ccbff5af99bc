"""``time.TimeService``: the node's clock, and how it compares to a server's."""

from collections.abc import Awaitable, Callable, Sequence

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.rpc import Call, Code, RpcError, Service
from talos.api.time import time_pb2
from talos.api.timestamps import make_timestamp
from talos.timed.ntp.packet import Sample

type Servers = Callable[[], Awaitable[Sequence[str]]]
type Query = Callable[[str], Awaitable[Sample]]


class TimeService:
    """The handlers. ``servers`` gives those configured, ``query`` queries one."""

    def __init__(self, servers: Servers, query: Query) -> None:
        self._servers = servers
        self._query = query

    def make_service(self) -> Service:
        """The service to be served."""
        descriptor = time_pb2.DESCRIPTOR.services_by_name["TimeService"]
        return Service(descriptor, {"Time": self.time, "TimeCheck": self.check})

    async def time(self, _request: Empty, _call: Call) -> time_pb2.TimeResponse:
        """Compare with the configured server that answers first."""
        servers = await self._servers()
        if not servers:
            raise RpcError(Code.FAILED_PRECONDITION, "no time servers are configured")
        return make_response(await self._query_all(servers))

    async def _query_all(self, servers: Sequence[str]) -> Sample:
        """The first answer of all servers, which are queried at once: none delays the others."""
        answers: list[Sample] = []
        failures: list[RpcError] = []
        async with trio.open_nursery() as nursery:

            async def query_one(server: str) -> None:
                try:
                    answers.append(await self._query(server))
                    nursery.cancel_scope.cancel()
                except RpcError as error:
                    failures.append(error)

            for server in servers:
                nursery.start_soon(query_one, server)
        if answers:
            return answers[0]
        raise RpcError(failures[0].code, "; ".join(error.reason for error in failures))

    async def check(self, request: time_pb2.TimeRequest, _call: Call) -> time_pb2.TimeResponse:
        """Compare with the server that is named."""
        if not request.server:
            raise RpcError(Code.INVALID_ARGUMENT, "no time server is named")
        return make_response(await self._query(request.server))


def make_response(answer: Sample) -> time_pb2.TimeResponse:
    """The reply: both clocks at the moment of the answer."""
    message = time_pb2.Time(
        server=answer.server,
        localtime=make_timestamp(answer.local),
        remotetime=make_timestamp(answer.local + answer.offset),
    )
    return time_pb2.TimeResponse(messages=[message])
