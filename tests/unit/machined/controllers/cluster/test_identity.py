"""The node's id in the State and on the disk."""

from pathlib import Path

import pytest
import trio
from tests.unit.machined.controllers.running import mount_state, running

from talos.machined.controllers.cluster.identity import NodeIdentityController
from talos.machined.node.identity import Identity, keep_identity, make_identity
from talos.resource import ids
from talos.resource.changes import wait_for
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

LOG = Log(write=lambda _: None)


@pytest.mark.parametrize("kept", [False, True])
async def test_the_id_in_state_counts(tmp_path: Path, *, kept: bool) -> None:
    state, mine, theirs = MemoryState(), make_identity(), make_identity()
    shown: list[Identity] = []
    if kept:
        keep_identity(tmp_path, theirs)
    async with running(state, NodeIdentityController(mine, shown.append, LOG)):
        await wait_for(state, *ids.IDENTITY, lambda found: found.spec.node_id == mine.node_id)
        await mount_state(state, tmp_path)
        wanted = theirs if kept else mine
        await wait_for(state, *ids.IDENTITY, lambda found: found.spec.node_id == wanted.node_id)
        file = trio.Path(tmp_path / "node-identity.yaml")
        while not await file.exists():  # noqa: ASYNC110 - a file has no event
            await trio.sleep(0.01)
    assert keep_identity(tmp_path, make_identity()) == wanted
    assert (await file.stat()).st_mode & 0o777 == 0o600
    assert shown == ([theirs] if kept else [])


async def test_an_id_that_can_not_be_read_is_left_there(tmp_path: Path) -> None:
    (tmp_path / "node-identity.yaml").write_text("nodeId: '!!'\n", encoding="ascii")
    with pytest.raises(ValueError, match=r"node-identity\.yaml: no node id"):
        keep_identity(tmp_path, make_identity())
    lines: list[str] = []
    state, mine = MemoryState(), make_identity()
    async with running(state, NodeIdentityController(mine, lambda _: None, Log(write=lines.append))):
        await mount_state(state, tmp_path)
        while not lines:  # noqa: ASYNC110 - a log has no event
            await trio.sleep(0.01)
    assert "can't be read" in lines[0]
    assert (tmp_path / "node-identity.yaml").read_text(encoding="ascii") == "nodeId: '!!'\n"
