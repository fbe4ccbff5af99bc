"""Changes to a State that take more than one call: read, change, write, retry."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from google.protobuf.message import Message

from talos.resource.kind import Kind
from talos.resource.resource import EMPTY, Phase, Resource, make_resource
from talos.resource.state import (
    AlreadyExistsError,
    ConflictError,
    EventType,
    NotFoundError,
    State,
)

type Change[S: Message] = Callable[[S], None]
"""Changes a spec in place; called again, on a fresh copy, after a conflict."""


async def modify[S: Message](
    state: State,
    kind: Kind[S],
    id: str,
    change: Change[S],
    *,
    namespace: str | None = None,
    owner: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Resource[S]:
    """Create or change a resource; returns it as stored.

    Labels and annotations replace the stored ones, unless they are None. Nothing is written
    when nothing changes. OwnerConflictError when another controller owns the resource,
    PhaseConflictError while it is being torn down.
    """
    while True:
        try:
            current = await state.get(kind, id, namespace=namespace)
        except NotFoundError:
            spec = kind.spec()
            change(spec)
            fresh = make_resource(
                kind, id, spec, namespace=namespace, labels=labels or EMPTY, annotations=annotations or EMPTY
            )
            try:
                return await state.create(fresh, owner=owner)
            except AlreadyExistsError:
                continue
        spec = copy_spec(current.spec)
        change(spec)
        metadata = replace(
            current.metadata,
            labels=current.metadata.labels if labels is None else labels,
            annotations=current.metadata.annotations if annotations is None else annotations,
        )
        changed = Resource(metadata=metadata, spec=spec)
        if changed == current and (metadata.owner, metadata.phase) == (owner, Phase.RUNNING):
            return current
        try:
            return await state.update(changed, owner=owner)
        except (ConflictError, NotFoundError):
            continue


async def put[S: Message](
    state: State,
    kind: Kind[S],
    id: str,
    spec: S,
    *,
    namespace: str | None = None,
    owner: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Resource[S]:
    """Create a resource or replace its spec; see :func:`modify`."""
    return await modify(
        state,
        kind,
        id,
        lambda old: old.CopyFrom(spec),
        namespace=namespace,
        owner=owner,
        labels=labels,
        annotations=annotations,
    )


def copy_spec[S: Message](spec: S) -> S:
    """A copy that may be changed."""
    copy = type(spec)()
    copy.CopyFrom(spec)
    return copy


async def add_finalizer(
    state: State, kind: Kind[Message], id: str, finalizer: str, *, namespace: str | None = None
) -> None:
    """Hold a resource: it can't be destroyed until the finalizer is removed.

    NotFoundError, and PhaseConflictError when the resource is already being torn down.
    """

    def add(finalizers: tuple[str, ...]) -> tuple[str, ...]:
        return finalizers if finalizer in finalizers else (*finalizers, finalizer)

    await _change_finalizers(state, kind, id, namespace, add, Phase.RUNNING)


async def remove_finalizer(
    state: State, kind: Kind[Message], id: str, finalizer: str, *, namespace: str | None = None
) -> None:
    """Release a resource, which may be destroyed already."""

    def remove(finalizers: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(other for other in finalizers if other != finalizer)

    try:
        await _change_finalizers(state, kind, id, namespace, remove, None)
    except NotFoundError:
        return


async def _change_finalizers(
    state: State,
    kind: Kind[Message],
    id: str,
    namespace: str | None,
    change: Callable[[tuple[str, ...]], tuple[str, ...]],
    expected_phase: Phase | None,
) -> None:
    while True:
        current = await state.get(kind, id, namespace=namespace)
        metadata = replace(current.metadata, finalizers=change(current.metadata.finalizers))
        try:
            # Any controller may change finalizers, unlike the rest of the resource.
            await state.update(
                current.with_metadata(metadata), owner=metadata.owner, expected_phase=expected_phase
            )
        except ConflictError:
            continue
        return


async def wait_for[S: Message](
    state: State,
    kind: Kind[S],
    id: str,
    predicate: Callable[[Resource[S]], bool],
    *,
    namespace: str | None = None,
) -> Resource[S]:
    """Wait until a resource exists and satisfies the predicate; returns it.

    A watch that fell behind has lost events: the first event of the next one is the resource as it is.
    """
    while True:
        async with state.watch(kind, id, namespace=namespace) as events:
            async for batch in events:
                for event in batch:
                    if event.type not in (EventType.CREATED, EventType.UPDATED) or event.resource is None:
                        continue
                    if predicate(event.resource):
                        return event.resource


async def destroy_if_present(
    state: State, kind: Kind[Message], id: str, *, namespace: str | None = None, owner: str = ""
) -> bool:
    """Tear a resource down and destroy it if nothing holds it; true when it is destroyed."""
    try:
        if not await state.teardown(kind, id, namespace=namespace, owner=owner):
            return False
        await state.destroy(kind, id, namespace=namespace, owner=owner)
    except NotFoundError:
        return True
    except ConflictError:
        return False
    return True


async def teardown_and_destroy(
    state: State, kind: Kind[Message], id: str, *, namespace: str | None = None, owner: str = ""
) -> None:
    """Tear a resource down, wait until nothing holds it, destroy it. NotFoundError."""
    await state.teardown(kind, id, namespace=namespace, owner=owner)
    while True:  # see wait_for
        async with state.watch(kind, id, namespace=namespace) as events:
            async for batch in events:
                for event in batch:
                    if event.type is EventType.DESTROYED:
                        return
                    if event.resource is not None and is_destroy_ready(event.resource):
                        await destroy_if_present(state, kind, id, namespace=namespace, owner=owner)


def is_destroy_ready(resource: Resource[Message]) -> bool:
    """Whether a resource is being torn down and nothing holds it any more."""
    metadata = resource.metadata
    return metadata.phase is Phase.TEARING_DOWN and not metadata.finalizers
