"""Running controllers over a State: one watch per kind for all of its readers."""

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import cast

import trio
from google.protobuf.message import Message

from talos.resource.controller.access import ControllerAccess, Input
from talos.resource.controller.activity import Activities
from talos.resource.controller.controller import RETRY_BACKOFF, Controller, ControllerRuntime
from talos.resource.controller.graph import dependencies, make_inspect_service
from talos.resource.kind import Kind
from talos.resource.state import EventStream, EventType, State, StateError, WatchOptions
from talos.system.errors import UserError

__all__ = ["check_controllers", "dependencies", "make_inspect_service", "run_controllers"]

LOGGER = "talos.controller"
log = logging.getLogger(LOGGER)

type Subscribers = Sequence[tuple[Input, ControllerRuntime]]

_FROM_NOW = WatchOptions(aggregated=True)


async def run_controllers(
    state: State,
    controllers: Sequence[Controller],
    *,
    activities: Activities | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run controllers until cancelled or until all of them are done; ``activities`` gets their counts.

    Started when every input is watched. ValueError when the declarations of two controllers conflict.
    """
    check_controllers(controllers)
    async with trio.open_nursery() as feeds:
        async with trio.open_nursery() as nursery:
            running: list[tuple[Controller, ControllerRuntime]] = []
            for controller in controllers:
                access = ControllerAccess(
                    name=controller.name, inputs=controller.inputs, outputs=controller.outputs
                )
                running.append((controller, ControllerRuntime(access, state, nursery.start_soon)))
            if activities is not None:
                activities |= {runtime.name: runtime.activity for _, runtime in running}
            async with trio.open_nursery() as starting:
                for kind, namespace, subscribers in _subscriptions(running):
                    starting.start_soon(feeds.start, _run_feed, state, kind, namespace, subscribers)
            for controller, runtime in running:
                nursery.start_soon(_run_controller, controller, runtime)
            task_status.started()
        feeds.cancel_scope.cancel()


def check_controllers(controllers: Sequence[Controller]) -> None:
    """Refuse two controllers of one name, and a kind with an exclusive writer and another one."""
    names = Counter(controller.name for controller in controllers)
    for name, count in names.items():
        if count > 1:
            raise ValueError(f"{count} controllers are called {name}")
    writers: defaultdict[str, dict[str, bool]] = defaultdict(dict)
    for controller in controllers:
        for output in controller.outputs:
            writers[output.kind.type][controller.name] = output.shared
    for name, sharing in writers.items():
        if len(sharing) > 1 and not all(sharing.values()):
            exclusive = ", ".join(writer for writer, is_shared in sharing.items() if not is_shared)
            raise ValueError(f"{name} is written by {', '.join(sharing)}, but exclusively so by {exclusive}")


def _subscriptions(
    running: Sequence[tuple[Controller, ControllerRuntime]],
) -> list[tuple[Kind[Message], str, Subscribers]]:
    kinds: dict[tuple[str, str], Kind[Message]] = {}
    found: defaultdict[tuple[str, str], list[tuple[Input, ControllerRuntime]]] = defaultdict(list)
    for controller, runtime in running:
        for item in controller.inputs:
            key = (item.kind.type, item.effective_namespace)
            kinds[key] = item.kind
            found[key].append((item, runtime))
    return [(kinds[key], key[1], subscribers) for key, subscribers in found.items()]


async def _run_feed(
    state: State,
    kind: Kind[Message],
    namespace: str,
    subscribers: Subscribers,
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    """Watch a kind for all its readers; watch again when the watch ends."""
    is_first = True
    delays = iter(RETRY_BACKOFF)
    while True:
        try:
            async with state.watch(kind, namespace=namespace, options=_FROM_NOW) as events:
                if is_first:
                    task_status.started()
                    is_first = False
                else:
                    _wake_all(subscribers)
                delays = iter(RETRY_BACKOFF)
                await _follow(events, subscribers)
        except StateError as error:
            delay = next(delays)
            log.warning("watch of %s in %s broke, again in %.1f s: %s", kind.type, namespace, delay, error)
            await trio.sleep(delay)


async def _follow(events: EventStream[Message], subscribers: Subscribers) -> None:
    async for batch in events:
        for event in batch:
            if event.type in (EventType.BOOTSTRAPPED, EventType.ERRORED):
                # Events may have been lost on the way.
                _wake_all(subscribers)
            elif event.resource is not None:
                for item, runtime in subscribers:
                    if item.is_woken_by(event.resource):
                        runtime.queue_reconcile()


def _wake_all(subscribers: Subscribers) -> None:
    for _, runtime in subscribers:
        runtime.queue_reconcile()


def _leaves(error: BaseException) -> list[BaseException]:
    """What went wrong, without the groups that nurseries put around it."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    inner = cast("BaseExceptionGroup[BaseException]", error)
    return [leaf for one in inner.exceptions for leaf in _leaves(one)]


async def _run_controller(controller: Controller, runtime: ControllerRuntime) -> None:
    log.debug("controller %s is starting", controller.name)
    while True:
        runtime.queue_reconcile()
        try:
            await controller.run(runtime)
        except Exception as error:
            delay = runtime.count_failure()
            # A refusal needs no traceback; anything else is a defect.
            causes = _leaves(error)
            is_refusal = all(isinstance(leaf, (StateError, UserError, OSError)) for leaf in causes)
            text, reason = "controller %s failed, next try in %.1f s: %s", "; ".join(map(str, causes))
            trace = None if is_refusal else error
            log.log(logging.ERROR, text, controller.name, delay, reason, exc_info=trace)
            await runtime.wait_before_retry(delay)
        else:
            log.debug("controller %s is done", controller.name)
            return
