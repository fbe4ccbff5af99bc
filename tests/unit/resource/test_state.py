"""What every State promises about single resources and lists."""

import re
from dataclasses import replace

import pytest

from talos.api.definitions.network_pb2 import AddressStatusSpec, HostnameStatusSpec
from talos.resource.changes import add_finalizer, remove_finalizer
from talos.resource.kinds import ADDRESS_STATUS, HOSTNAME_STATUS
from talos.resource.query import LabelTerm, Operator, Query
from talos.resource.resource import Phase, Resource, make_resource
from talos.resource.state import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    OwnerConflictError,
    PhaseConflictError,
    State,
)


def make_address(id: str, link: str = "eth0", **labels: str) -> Resource[AddressStatusSpec]:
    return make_resource(ADDRESS_STATUS, id, AddressStatusSpec(link_name=link), labels=labels)


async def test_created_resource_is_read_back(state: State) -> None:
    stored = await state.create(make_address("a", zone="x"), owner="c")
    metadata = stored.metadata
    assert (metadata.namespace, metadata.type, metadata.id) == ("network", ADDRESS_STATUS.type, "a")
    assert (metadata.version, metadata.owner, metadata.phase) == (1, "c", Phase.RUNNING)
    assert metadata.labels == {"zone": "x"}
    assert metadata.created == metadata.updated > 0
    assert await state.get(ADDRESS_STATUS, "a") == stored


async def test_same_id_lives_in_another_namespace_and_kind(state: State) -> None:
    await state.create(make_address("a"))
    await state.create(make_resource(ADDRESS_STATUS, "a", AddressStatusSpec(), namespace="network-config"))
    await state.create(make_resource(HOSTNAME_STATUS, "a", HostnameStatusSpec()))
    with pytest.raises(AlreadyExistsError, match=r"AddressStatuses.*already exists"):
        await state.create(make_address("a"))


async def test_absent_resource(state: State) -> None:
    with pytest.raises(NotFoundError, match=r"AddressStatuses.*network/a"):
        await state.get(ADDRESS_STATUS, "a")
    with pytest.raises(NotFoundError):
        await state.update(make_address("a"))
    with pytest.raises(NotFoundError):
        await state.teardown(ADDRESS_STATUS, "a")
    with pytest.raises(NotFoundError):
        await state.destroy(ADDRESS_STATUS, "a")


async def test_update_counts_versions_and_keeps_the_creation_time(state: State) -> None:
    first = await state.create(make_address("a"), owner="c")
    second = await state.update(first.with_spec(AddressStatusSpec(link_name="eth1")), owner="c")
    assert (second.metadata.version, second.spec.link_name) == (2, "eth1")
    assert second.metadata.created == first.metadata.created
    assert second.metadata.updated >= first.metadata.updated
    assert (await state.get(ADDRESS_STATUS, "a")) == second


async def test_update_without_a_change_is_no_new_version(state: State) -> None:
    first = await state.create(make_address("a", zone="x"))
    assert (await state.update(first)).metadata == first.metadata


async def test_stale_update_is_refused(state: State) -> None:
    first = await state.create(make_address("a"))
    await state.update(first.with_spec(AddressStatusSpec(link_name="eth1")))
    with pytest.raises(ConflictError):
        await state.update(first.with_spec(AddressStatusSpec(link_name="eth2")))


async def test_only_the_owner_changes_a_resource(state: State) -> None:
    first = await state.create(make_address("a"), owner="c")
    for owner in ("", "d"):
        with pytest.raises(OwnerConflictError, match="owned by 'c'"):
            await state.update(first.with_spec(AddressStatusSpec()), owner=owner)
        with pytest.raises(OwnerConflictError):
            await state.teardown(ADDRESS_STATUS, "a", owner=owner)
        with pytest.raises(OwnerConflictError):
            await state.destroy(ADDRESS_STATUS, "a", owner=owner)


async def test_an_ending_resource_is_updated_only_on_request(state: State) -> None:
    await state.create(make_address("a"))
    assert await state.teardown(ADDRESS_STATUS, "a")
    ending = await state.get(ADDRESS_STATUS, "a")
    assert ending.metadata.phase is Phase.TEARING_DOWN
    assert ending.metadata.version == 2
    changed = ending.with_spec(AddressStatusSpec(link_name="eth1"))
    with pytest.raises(PhaseConflictError, match="tearingDown"):
        await state.update(changed)
    await state.update(changed, expected_phase=Phase.TEARING_DOWN)
    assert await state.teardown(ADDRESS_STATUS, "a")


async def test_finalizers_hold_a_resource(state: State) -> None:
    await state.create(make_address("a"), owner="c")
    await add_finalizer(state, ADDRESS_STATUS, "a", "one")
    await add_finalizer(state, ADDRESS_STATUS, "a", "two")
    await add_finalizer(state, ADDRESS_STATUS, "a", "two")
    assert not await state.teardown(ADDRESS_STATUS, "a", owner="c")
    with pytest.raises(ConflictError, match="pending finalizers"):
        await state.destroy(ADDRESS_STATUS, "a", owner="c")
    with pytest.raises(PhaseConflictError):
        await add_finalizer(state, ADDRESS_STATUS, "a", "three")
    await remove_finalizer(state, ADDRESS_STATUS, "a", "one")
    await remove_finalizer(state, ADDRESS_STATUS, "a", "two")
    assert await state.teardown(ADDRESS_STATUS, "a", owner="c")
    await state.destroy(ADDRESS_STATUS, "a", owner="c")
    await remove_finalizer(state, ADDRESS_STATUS, "a", "two")
    assert await state.list(ADDRESS_STATUS) == []


async def test_a_stored_resource_does_not_follow_its_maker(state: State) -> None:
    spec = AddressStatusSpec(link_name="eth0")
    labels = {"zone": "x"}
    stored = await state.create(make_resource(ADDRESS_STATUS, "a", spec, labels=labels))
    spec.link_name = "changed"
    labels["zone"] = "changed"
    assert await state.get(ADDRESS_STATUS, "a") == stored
    assert (stored.spec.link_name, stored.metadata.labels) == ("eth0", {"zone": "x"})
    await state.update(stored.with_spec(spec))
    spec.link_name = "again"
    assert (await state.get(ADDRESS_STATUS, "a")).spec.link_name == "changed"


async def test_labels_and_annotations_are_replaced(state: State) -> None:
    stored = await state.create(make_address("a", zone="x", rack="1"))
    metadata = replace(stored.metadata, labels={"zone": "y"}, annotations={"note": "n"})
    await state.update(stored.with_metadata(metadata))
    metadata = (await state.get(ADDRESS_STATUS, "a")).metadata
    assert (metadata.labels, metadata.annotations) == ({"zone": "y"}, {"note": "n"})


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        (Query(), ["a", "b", "c"]),
        (Query(id_pattern=re.compile("^[ab]$")), ["a", "b"]),
        (Query(labels=((LabelTerm(key="zone"),),)), ["a", "b"]),
        (Query(labels=((LabelTerm(key="zone", invert=True),),)), ["c"]),
        (Query(labels=((LabelTerm(key="zone", operator=Operator.NOT_EXISTS),),)), ["c"]),
        (Query(labels=((LabelTerm(key="zone", operator=Operator.EQUAL, values=("x",)),),)), ["a"]),
        (Query(labels=((LabelTerm(key="zone", operator=Operator.IN, values=("x", "y")),),)), ["a", "b"]),
        (Query(labels=((LabelTerm(key="zone", operator=Operator.LT, values=("y",)),),)), ["a"]),
        (Query(labels=((LabelTerm(key="zone", operator=Operator.LTE, values=("y",)),),)), ["a", "b"]),
        (Query(labels=((LabelTerm(key="n", operator=Operator.LT_NUMERIC, values=("10",)),),)), ["b"]),
        (Query(labels=((LabelTerm(key="n", operator=Operator.LTE_NUMERIC, values=("10",)),),)), ["a", "b"]),
        (
            Query(
                labels=(
                    (LabelTerm(key="zone"), LabelTerm(key="n", operator=Operator.EQUAL, values=("9",))),
                    (LabelTerm(key="n", operator=Operator.EQUAL, values=("no number",)),),
                )
            ),
            ["b", "c"],
        ),
    ],
)
async def test_list_queries(state: State, query: Query, ids: list[str]) -> None:
    await state.create(make_address("c", n="no number"))
    await state.create(make_address("b", zone="y", n="9"))
    await state.create(make_address("a", zone="x", n="10"))
    assert [item.id for item in await state.list(ADDRESS_STATUS, query=query)] == ids
