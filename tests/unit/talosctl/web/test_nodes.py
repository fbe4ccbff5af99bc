"""The nodes that a talosconfig leads to."""

import asyncio
from collections.abc import Iterator

import pytest

from talos.client.target import Target
from talos.system.errors import UserError
from talos.talosctl.web.nodes import Nodes

FIRST, SECOND = (Target(endpoints=(), nodes=(node,)) for node in ("10.0.0.1", "10.0.0.2"))


def test_a_talosconfig_is_read_anew_and_the_last_one_serves_while_there_is_none() -> None:
    def read() -> Iterator[Target | None]:
        yield from (FIRST, None, SECOND)

    found = read()

    def select() -> Target:
        target = next(found)
        if target is None:
            raise UserError("can't be read")
        return target

    nodes = Nodes(select)
    seen = [asyncio.run(nodes.find()) for _ in range(3)]
    assert seen == [("10.0.0.1",), ("10.0.0.1",), ("10.0.0.2",)]


def test_without_a_talosconfig_there_are_no_nodes() -> None:
    def select() -> Target:
        raise UserError("can't be read")

    with pytest.raises(UserError, match="can't be read"):
        asyncio.run(Nodes(select).find())
