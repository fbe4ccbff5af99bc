"""Calls of an upgrade of many nodes: each over a connection of its own."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from google.protobuf.message import Message

from talos.api.cosi.resource_pb2 import Resource
from talos.client.resources import list_resources
from talos.client.session import open_session
from talos.client.target import Target
from talos.fleet.calls import FleetCalls
from talos.fleet.plan import Plan, PlanError, make_plan
from talos.resource.kind import Kind
from talos.talosctl.cli.exit import CommandError, Exit
from talos.talosctl.client.failure import find_exit
from talos.talosctl.client.health import SessionCalls


async def find_plan(
    calls: FleetCalls, nodes: Sequence[str], *, version: str = "", force: bool = False, what: str = "upgrade"
) -> Plan:
    """What :func:`make_plan` finds; a CommandError with the exit code of the calls that failed."""
    try:
        return await make_plan(calls, nodes, version=version, force=force, what=what)
    except PlanError as error:
        codes = {find_exit(failure) for failure in error.failures}
        raise CommandError(str(error), code=codes.pop() if len(codes) == 1 else Exit.FAILED) from None


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
