"""Following one resource for as long as a daemon runs."""

from collections.abc import Callable

import trio
from google.protobuf.message import Message

from talos.api.rpc import RpcError
from talos.resource.kind import Kind
from talos.resource.state import EventType, State, StateError
from talos.system.logging import Log

RETRY = 1.0
"""Seconds before a watch that broke is made anew."""


async def follow[S: Message](
    state: State, kind: Kind[S], id: str, apply: Callable[[S | None], None], log: Log
) -> None:
    """Call ``apply`` with a resource's spec now and after every change, None while there is none.

    A watch that breaks is made anew. Runs until cancelled.
    """
    while True:
        try:
            async with state.watch(kind, id) as events:
                async for batch in events:
                    for event in batch:
                        match event.type:
                            case EventType.CREATED | EventType.UPDATED if event.resource is not None:
                                apply(event.resource.spec)
                            case EventType.DESTROYED:
                                apply(None)
                            case _:
                                pass
        except (StateError, RpcError) as error:
            log.warning("a watch broke", kind=kind.type, id=id, reason=str(error))
        await trio.sleep(RETRY)
