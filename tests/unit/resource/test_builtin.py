"""The State describes itself, and its controllers."""

import re
from pathlib import Path

from google.protobuf.empty_pb2 import Empty

from talos.api.inspect import inspect_pb2
from talos.api.rpc import Call
from talos.api.tables import read_table
from talos.resource import kinds
from talos.resource.builtin import NAMESPACES, register_builtin
from talos.resource.controller.graph import Edge, make_inspect_service
from talos.resource.kinds import ADDRESS_STATUS, NAMESPACE, OS_ROOT_SECRET, REGISTRY, RESOURCE_DEFINITION
from talos.resource.memory.state import MemoryState
from talos.resource.yaml.spec import spec_to_yaml


async def test_every_registered_type_is_defined() -> None:
    state = MemoryState()
    await register_builtin(state)
    rows = {row["type"]: row for row in read_table("resources.tsv") if row["registered"] == "yes"}
    hidden = {row["type"] for row in read_table("own_sensitivity.tsv")}
    # What upstream hides stays hidden, and nothing is named for what it hides anyway.
    assert all(rows[name]["sensitivity"] == "non-sensitive" for name in hidden)
    definitions = {item.spec.resource_type: item for item in await state.list(RESOURCE_DEFINITION)}
    assert set(definitions) == set(rows) == set(REGISTRY)
    for name, item in definitions.items():
        row = rows[name]
        assert item.id == name.lower()
        assert item.metadata.namespace == "meta"
        assert item.spec.display_type == row["display_type"]
        assert item.spec.default_namespace == row["default_namespace"]
        aliases = f"{row['explicit_aliases']},{row['computed_aliases']}".strip(",").split(",")
        assert list(item.spec.all_aliases) == aliases
        assert bool(item.spec.sensitivity) == (row["sensitivity"] == "sensitive" or name in hidden)
        columns = [f"{column.name}={column.json_path}" for column in item.spec.print_columns]
        assert " | ".join(columns) == row["print_columns"]


async def test_every_namespace_exists() -> None:
    state = MemoryState()
    await register_builtin(state)
    assert {item.id for item in await state.list(NAMESPACE)} == set(NAMESPACES)
    assert {kind.namespace for kind in REGISTRY.values()} <= set(NAMESPACES)


async def test_registering_again_changes_nothing() -> None:
    state = MemoryState()
    await register_builtin(state)
    before = await state.list(RESOURCE_DEFINITION)
    await register_builtin(state)
    assert await state.list(RESOURCE_DEFINITION) == before


async def test_definitions_read_well() -> None:
    state = MemoryState()
    await register_builtin(state)
    address = await state.get(RESOURCE_DEFINITION, ADDRESS_STATUS.type.lower())
    text = spec_to_yaml(RESOURCE_DEFINITION, address.spec)
    assert text.startswith("type: AddressStatuses.net.talos.dev\ndisplayType: AddressStatus\n")
    assert "defaultNamespace: network\naliases:\n    - address\n    - addresses\n" in text
    assert "printColumns:\n    - name: Address\n" in text
    assert "sensitivity" not in text
    secret = await state.get(RESOURCE_DEFINITION, OS_ROOT_SECRET.type.lower())
    assert "sensitivity: sensitive\n" in spec_to_yaml(RESOURCE_DEFINITION, secret.spec)


def test_no_kind_is_named_twice() -> None:
    source = Path(str(kinds.__file__)).read_text(encoding="utf-8")
    names = re.findall(r"^([A-Z_]+) = make_kind\(", source, re.MULTILINE)
    assert len(names) == len(set(names)) == len(REGISTRY)


async def test_inspect_service_lists_the_edges() -> None:
    edge = inspect_pb2.ControllerDependencyEdge(controller_name="c", resource_type="t")

    async def edges() -> list[Edge]:
        return [edge]

    handler = make_inspect_service(edges).handlers["ControllerRuntimeDependencies"]
    reply = await handler(Empty(), Call(method="", metadata={}, deadline=0, peer=""))
    assert reply == inspect_pb2.ControllerRuntimeDependenciesResponse(messages=[{"edges": [edge]}])
