"""Calls of an upgrade of many nodes: each over a connection of its own."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from google.protobuf.message import Message

from talos.api.cosi.resource_pb2 import Resource
from talos.client.resources import list_resources
from talos.client.session import open_session
from talos.client.target import Target
from talos.resource.kind import Kind
from talos.talosctl.client.health import SessionCalls


@dataclass(frozen=True, slots=True)
class FreshCalls:
    """Calls to the nodes behind a target's endpoints. An endpoint that went down may be the node itself."""

    target: Target

    async def unary[R: Message](self, node: str, method: str, request: Message, reply: type[R]) -> R:
        """One call; RpcError, also when it is inside of the reply."""
        async with open_session(self.target) as session:
            return await SessionCalls(session).unary(node, method, request, reply)

    async def specs[S: Message](self, node: str, kind: Kind[S]) -> Sequence[S]:
        """The specs of all resources of a kind."""
        async with open_session(self.target) as session:
            return await SessionCalls(session).specs(node, kind)

    async def resources(self, node: str, kind: Kind[Message]) -> Sequence[Resource]:
        """All resources of a kind with their metadata."""
        async with open_session(self.target) as session:
            return await list_resources(session, node, kind.namespace, kind.type)

    @asynccontextmanager
    async def stream[R: Message](
        self, node: str, method: str, request: Message, reply: type[R]
    ) -> AsyncGenerator[AsyncIterator[R]]:
        """Replies one after another. Leaving cancels the call."""
        async with (
            open_session(self.target) as session,
            session.stream(node, method, request, reply) as replies,
        ):
            yield replies
