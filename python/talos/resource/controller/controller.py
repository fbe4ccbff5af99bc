"""Controllers reconcile declared outputs with declared inputs."""

import math
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Self

import trio
from google.protobuf.message import Message

from talos.resource import changes
from talos.resource.controller.access import (
    ControllerAccess,
    Input,
    InputStrength,
    Output,
    UndeclaredAccessError,
)
from talos.resource.controller.activity import Activity
from talos.resource.kind import Kind
from talos.resource.query import ALL, Query
from talos.resource.resource import Resource
from talos.resource.state import NotFoundError, State, StateError
from talos.system.backoff import Backoff
from talos.system.wakeup import Wakeup

__all__ = [
    "Controller",
    "ControllerRuntime",
    "Input",
    "InputStrength",
    "Output",
    "Reconciler",
    "UndeclaredAccessError",
]

RETRY_BACKOFF = Backoff(0.1, 60.0)
"""Seconds before a failed controller runs again."""
MIN_WAIT = 1.0
"""Seconds after which a change of an input ends a longer wait: it may remove the cause."""

type Spawn = Callable[[Callable[[], Any]], None]


class ControllerRuntime:
    """The State for one controller: what it declared, under its own name.

    The methods are those of :class:`talos.resource.state.State` and
    :mod:`talos.resource.changes`, and raise UndeclaredAccessError beside.
    """

    def __init__(self, access: ControllerAccess, state: State, spawn: Spawn) -> None:
        self.name = access.name
        self.activity = Activity()
        self._access = access
        self._state = state
        self._spawn = spawn
        self._due = Wakeup()
        self._delays = iter(RETRY_BACKOFF)
        self._touched: set[tuple[str, str, str]] | None = None
        self._namespaces: dict[str, set[str]] = {
            output.kind.type: {output.namespace or output.kind.namespace} for output in access.outputs
        }
        self._ending: set[tuple[str, str, str]] = set()

    async def get[S: Message](self, kind: Kind[S], id: str, *, namespace: str | None = None) -> Resource[S]:
        """One resource; NotFoundError when there is none."""
        self._access.check_read(kind, id, namespace)
        return await self._state.get(kind, id, namespace=namespace)

    async def get_or_none[S: Message](
        self, kind: Kind[S], id: str, *, namespace: str | None = None
    ) -> Resource[S] | None:
        """One resource, if there is one."""
        try:
            return await self.get(kind, id, namespace=namespace)
        except NotFoundError:
            return None

    async def list[S: Message](
        self, kind: Kind[S], *, namespace: str | None = None, query: Query = ALL
    ) -> list[Resource[S]]:
        """All resources of a kind that match the query, ordered by id."""
        self._access.check_read(kind, None, namespace)
        return await self._state.list(kind, namespace=namespace, query=query)

    async def modify[S: Message](
        self,
        kind: Kind[S],
        id: str,
        change: changes.Change[S],
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Resource[S]:
        """Create an output or change it; see :func:`talos.resource.changes.modify`."""
        self._access.check_write(kind, id, namespace)
        key = self._key(kind, id, namespace)
        self._namespaces[kind.type].add(key[1])
        if self._touched is not None:
            self._touched.add(key)
        return await changes.modify(
            self._state,
            kind,
            id,
            change,
            namespace=namespace,
            owner=self.name,
            labels=labels,
            annotations=annotations,
        )

    async def put[S: Message](
        self,
        kind: Kind[S],
        id: str,
        spec: S,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Resource[S]:
        """Write an output's spec; nothing is written when it is unchanged."""
        return await self.modify(
            kind,
            id,
            lambda old: old.CopyFrom(spec),
            namespace=namespace,
            labels=labels,
            annotations=annotations,
        )

    def keep(self, kind: Kind[Message], id: str, *, namespace: str | None = None) -> None:
        """Count an output as modified: the caller has written it before and has nothing new to write."""
        key = self._key(kind, id, namespace)
        self._namespaces[kind.type].add(key[1])
        if self._touched is not None:
            self._touched.add(key)

    async def teardown(self, kind: Kind[Message], id: str, *, namespace: str | None = None) -> bool:
        """Start the teardown of an output; true when it has no finalizers. NotFoundError."""
        self._access.check_write(kind, id, namespace)
        return await self._state.teardown(kind, id, namespace=namespace, owner=self.name)

    async def destroy(self, kind: Kind[Message], id: str, *, namespace: str | None = None) -> None:
        """Destroy an output; NotFoundError, ConflictError while it has finalizers."""
        self._access.check_write(kind, id, namespace)
        await self._state.destroy(kind, id, namespace=namespace, owner=self.name)

    async def remove(self, kind: Kind[Message], id: str, *, namespace: str | None = None) -> None:
        """Tear an output down and destroy it as soon as it has no finalizers.

        Returns at once. If it had to wait, the controller reconciles after the end, so that
        it can make the output anew. An output that is not there is no error.
        """
        self._access.check_write(kind, id, namespace)
        key = self._key(kind, id, namespace)
        if key in self._ending:
            return
        if await changes.destroy_if_present(self._state, kind, id, namespace=namespace, owner=self.name):
            return

        async def finish() -> None:
            try:
                await changes.teardown_and_destroy(
                    self._state, kind, id, namespace=namespace, owner=self.name
                )
            except StateError:
                # It is destroyed already, or the watch broke: the next reconciliation looks again.
                pass
            finally:
                self._ending.discard(key)
                self.queue_reconcile()

        self._ending.add(key)
        self._spawn(finish)

    async def add_finalizer(self, kind: Kind[Message], id: str, *, namespace: str | None = None) -> None:
        """Hold a strong input with a finalizer of the controller's name."""
        self._access.check_finalizer(kind, id, namespace)
        await changes.add_finalizer(self._state, kind, id, self.name, namespace=namespace)

    async def remove_finalizer(self, kind: Kind[Message], id: str, *, namespace: str | None = None) -> None:
        """Remove the controller's finalizer from a strong input, which may be destroyed already."""
        self._access.check_finalizer(kind, id, namespace)
        await changes.remove_finalizer(self._state, kind, id, self.name, namespace=namespace)

    @asynccontextmanager
    async def track_outputs(self, *kinds: Kind[Message]) -> AsyncGenerator[None]:
        """Remove the controller's outputs that were not modified within the context.

        Of all output kinds, or of those given. Nothing is removed when the context ends
        with an exception.
        """
        if self._touched is not None:
            raise RuntimeError(f"{self.name} tracks its outputs already")
        touched: set[tuple[str, str, str]] = set()
        self._touched = touched
        try:
            yield
        finally:
            self._touched = None
        for kind in kinds or [output.kind for output in self._access.outputs]:
            self._access.check_write(kind, "*", None)
            for namespace in sorted(self._namespaces[kind.type]):
                for resource in await self._state.list(kind, namespace=namespace):
                    if resource.metadata.owner != self.name:
                        continue
                    if (kind.type, namespace, resource.id) not in touched:
                        await self.remove(kind, resource.id, namespace=namespace)

    def events(self) -> "_Bursts":
        """Yields once at the start and then once per burst of changes of the inputs.

        Changes that come while the controller works make one more round.
        """
        return _Bursts(self)

    def queue_reconcile(self) -> None:
        """Request one more round, as if an input had changed."""
        self._due.set()

    def reset_backoff(self) -> None:
        """Note a success: after the next failure the wait begins with the shortest."""
        self._delays = iter(RETRY_BACKOFF)

    def count_failure(self) -> float:
        """Note a failure; returns how many seconds to wait before the next try."""
        self.activity.end_with_failure()
        return next(self._delays)

    async def wait_for_round(self, interval: float = math.inf) -> None:
        """Wait until an input has changed since the last round began, at most so many seconds."""
        self.activity.end_round()
        with trio.move_on_after(interval):
            await self._due.wait()
        self.activity.begin_round()

    async def wait_before_retry(self, delay: float) -> None:
        """Wait ``delay`` seconds, or less when an input changes after ``MIN_WAIT``."""
        self._due.clear()
        await trio.sleep(min(delay, MIN_WAIT))
        with trio.move_on_after(max(delay - MIN_WAIT, 0.0)):
            await self._due.wait()

    @staticmethod
    def _key(kind: Kind[Message], id: str, namespace: str | None) -> tuple[str, str, str]:
        return kind.type, kind.choose_namespace(namespace), id


class _Bursts:
    """The rounds of a controller; no generator, which would have to be closed."""

    def __init__(self, runtime: ControllerRuntime) -> None:
        self._runtime = runtime

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> None:
        await self._runtime.wait_for_round()


class Controller:
    """A task that reconciles outputs with inputs.

    When :meth:`run` fails it is logged and run again after a growing wait; when it
    returns, the controller is done.
    """

    name: ClassVar[str]
    """Unique; the owner of the outputs. Upstream's form is ``network.AddressSpecController``."""
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()

    async def run(self, runtime: ControllerRuntime) -> None:
        """Work until cancelled."""
        raise NotImplementedError


class Reconciler(Controller):
    """A controller that reconciles from all of its inputs after every change.

    A round that sets ``interval`` has the next one begin after so many seconds: of what it looks at
    there are no changes to wait for.
    """

    interval = math.inf

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Reconcile the outputs with the inputs; called at the start and once per burst."""
        raise NotImplementedError

    async def run(self, runtime: ControllerRuntime) -> None:
        """Reconcile at the start, after every burst of changes, and after the interval."""
        while True:
            await runtime.wait_for_round(self.interval)
            await self.reconcile(runtime)
            runtime.reset_backoff()
