"""Calls of key management services, for PID 1: its requests are followed and answered."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import trio

from talos.api.internal import keys_pb2 as pb
from talos.api.kms import kms_pb2 as kms
from talos.api.rpc import RpcError, Transport, format_reason
from talos.api.service_endpoint import parse_endpoint
from talos.rpc.port.remote import ClientTls, RemoteServer, make_client_context
from talos.system.logging import Log

FOLLOW = "/talos.internal.Keys/Follow"
ANSWER = "/talos.internal.Keys/Answer"
SEAL = "/sidero.kms.KMSService/Seal"
UNSEAL = "/sidero.kms.KMSService/Unseal"
ROOTS = trio.Path("/etc/ssl/certs/ca-certificates.crt")
"""The CAs that the node trusts; a config may add some."""
CALL_TIMEOUT = 10.0  # seconds
RETRY_DELAY = 1.0
"""Seconds until a stream that has ended is begun again."""
MAX_REPLY = 64 * 1024
"""Bytes of a service's answer."""
MAX_CALLS = 8
"""Calls at the same time."""

type Connect = Callable[[RemoteServer], AbstractAsyncContextManager[Transport]]


class KeyCaller:
    """Carries out what PID 1 requests over ``transport``; ``connect`` opens a connection to a service."""

    def __init__(self, transport: Transport, connect: Connect, log: Log, roots: trio.Path = ROOTS) -> None:
        self._transport, self._connect, self._log, self._roots = transport, connect, log, roots
        self._calls = trio.CapacityLimiter(MAX_CALLS)
        self._running: set[int] = set()

    async def run(self) -> None:
        """Follow the requests until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    async with self._transport.stream(FOLLOW, pb.FollowRequest(), pb.KeyRequest) as requests:
                        async for request in requests:
                            if request.number not in self._running:
                                self._running.add(request.number)
                                nursery.start_soon(self._answer, request)
                except RpcError as error:
                    self._log.once(f"the requests of PID 1 have ended: {error.reason}")
                await trio.sleep(RETRY_DELAY)

    async def _answer(self, request: pb.KeyRequest) -> None:
        answer = pb.KeyAnswer(number=request.number)
        try:
            async with self._calls:
                answer.data = await self._call(request)
        except (RpcError, ValueError, OSError) as error:  # ssl.SSLError is one of the last
            answer.error = format_reason(error)
            self._log.once(f"{request.endpoint} fails: {answer.error}", key=request.endpoint)
        try:
            await self._transport.unary(ANSWER, answer, pb.KeyAnswerReply)
        except RpcError as error:
            self._log.once(f"an answer does not reach PID 1: {error.reason}")
        finally:
            self._running.discard(request.number)

    async def _call(self, request: pb.KeyRequest) -> bytes:
        endpoint = parse_endpoint(request.endpoint)
        context = None
        if not endpoint.is_plain:
            authorities = await self._roots.read_bytes()
            settings = ClientTls(authorities=(authorities,))
            context = await trio.to_thread.run_sync(make_client_context, settings)
        server = RemoteServer(host=endpoint.host, port=endpoint.port, context=context, max_message=MAX_REPLY)
        wanted = kms.Request(node_uuid=request.node_uuid, data=request.data)
        method = SEAL if request.seal else UNSEAL
        async with self._connect(server) as transport:
            return (await transport.unary(method, wanted, kms.Response, timeout=CALL_TIMEOUT)).data
