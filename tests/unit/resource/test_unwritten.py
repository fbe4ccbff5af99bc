"""Each kind has a writer in the source, or a reason why it has none."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import cast

from talos.api.tables import read_table
from talos.process.grants import TABLE, WRITE
from talos.resource import ids, kinds
from talos.resource.kind import is_kind
from talos.resource.kinds import REGISTRY
from talos.resource.unwritten import UNWRITTEN

ROOT = Path(kinds.__file__).parents[1]
WRITERS = frozenset({"Output", "put", "modify", "create", "request_refresh", "publish_config"})
"""Functions that write what they are given the kind, or kind and id, of."""


def resolve(node: ast.expr) -> str:
    """The type that ``kinds.NAME``, ``*ids.NAME`` or an imported ``NAME`` of a kind means, or nothing."""
    if isinstance(node, ast.Starred):
        node = node.value
    if isinstance(node, ast.Name):
        module, name = kinds, node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module, name = {"kinds": kinds, "ids": ids}.get(node.value.id), node.attr
    else:
        return ""
    found: object = getattr(module, name, None)
    kind = cast("tuple[object, str]", found)[0] if isinstance(found, tuple) else found
    return kind.type if is_kind(kind) else ""


def is_writer(call: ast.Call) -> bool:
    """Whether a call is one of a function that writes."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in WRITERS


def find_written(source: str) -> Iterator[str]:
    """The types that a module writes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and is_writer(node):
            yield from filter(None, map(resolve, node.args))


@cache
def written() -> frozenset[str]:
    """The types that nodes write."""
    of_daemons = {row["type"] for row in read_table(TABLE) if row["access"] == WRITE}
    paths = (path for path in ROOT.rglob("*.py") if not path.name.endswith("_pb2.py"))
    in_source = {found for path in paths for found in find_written(path.read_text(encoding="utf-8"))}
    return frozenset(of_daemons | in_source)


def test_a_kind_has_a_writer_or_a_reason() -> None:
    assert sorted(REGISTRY.keys() - written()) == sorted(UNWRITTEN)


def test_writers_are_found_in_the_source() -> None:
    source = """
outputs = (Output(kinds.NODENAME, shared=True),)
async def run():
    await changes.put(state, *ids.VERSION, spec)
    await put(state, NAMESPACE, name, spec)
    await state.get(*ids.HOSTNAME_STATUS)
"""
    expected = [kinds.NODENAME.type, kinds.VERSION.type, kinds.NAMESPACE.type]
    assert list(find_written(source)) == expected
