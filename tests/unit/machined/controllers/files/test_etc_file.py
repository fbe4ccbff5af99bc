"""Files of the config in /etc, and the authorities that the node trusts."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.lowlevel
from tests.unit.machined.controllers.running import running

from talos.api.definitions.files_pb2 import EtcFileSpecSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.machined.controllers.files.etc_file import EtcFileController
from talos.machined.controllers.files.etc_file_config import (
    ROOTS,
    RULES,
    EtcFileConfigController,
    TrustedRootsController,
    UdevRulesFileController,
)
from talos.machined.node.etc_files import EtcFiles
from talos.machined.node.etc_layer import EtcLayer
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.testing.mounts import MemoryMounts

HEAD = "version: v1alpha1\nmachine: {type: worker}\n"
FILE = "---\napiVersion: v1alpha1\nkind: EtcFileConfig\nname: %s\ncontents: %s\n"
UDEV = "---\napiVersion: v1alpha1\nkind: UdevRulesConfig\nrules: %s\n"
ROOT = "---\napiVersion: v1alpha1\nkind: TrustedRootsConfig\nname: %s\ncertificates: %s\n"


class Node:
    """A node's /etc: the image's in one folder, what is shown in another."""

    def __init__(self, folder: Path) -> None:
        self.layer = EtcLayer(folder=folder / "layer")
        for side in (self.layer.image, self.layer.writable):
            (side / "ssl/certs").mkdir(parents=True)
            (side / ROOTS).write_text("BUILT IN\n")
            (side / "nfs.conf").write_text("image")
        self.files = EtcFiles(MemoryMounts(), folder / "generated", folder / "etc")
        self.state, self.log, self.trusted = MemoryState(), list[str](), 0
        self.names: list[str] = []

    async def trust(self) -> None:
        await trio.lowlevel.checkpoint()
        self.trusted += 1

    async def configure(self, *documents: str) -> None:
        text = (HEAD + "".join(documents)).encode()
        await put(self.state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text))

    async def wait_for(self, name: str, text: str) -> None:
        while (self.layer.writable / name).read_text() != text:
            await wait_for(self.state, kinds.ETC_FILE_STATUS, name, lambda _: True)
            await trio.lowlevel.checkpoint()


@asynccontextmanager
async def running_node(folder: Path) -> AsyncGenerator[Node]:
    node = Node(folder)
    log = Log(write=node.log.append)
    controllers = (
        EtcFileConfigController(),
        TrustedRootsController(node.layer.read_image),
        UdevRulesFileController(),
        EtcFileController(node.files, node.layer, node.names.append, node.trust, log),
    )
    async with running(node.state, *controllers):
        yield node


async def wait_until_removed(node: Node, name: str) -> None:
    while any(item.id == name for item in await node.state.list(kinds.ETC_FILE_STATUS)):
        await trio.lowlevel.checkpoint()


async def test_a_file_appears_changes_and_goes(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        await node.configure(FILE % ("multipath/a.conf", "one"))
        await wait_for(node.state, kinds.ETC_FILE_STATUS, "multipath/a.conf", lambda _: True)
        path = node.layer.writable / "multipath/a.conf"
        assert path.read_text() == "one"
        assert path.stat().st_mode & 0o777 == 0o644
        await node.configure(FILE % ("multipath/a.conf", "two"))
        await node.wait_for("multipath/a.conf", "two")
        await node.configure()
        await wait_until_removed(node, "multipath/a.conf")
        assert not path.exists()
        assert [entry.name for entry in path.parent.iterdir()] == []


async def test_rules_for_devices_can_be_read(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        await node.configure(UDEV % """['KERNEL=="a", MODE="0600"', "KERNEL==\\"b\\",\\nMODE=\\"0660\\""]""")
        await wait_for(node.state, kinds.ETC_FILE_STATUS, RULES, lambda _: True)
        text = 'KERNEL=="a", MODE="0600"\nKERNEL=="b",\\\nMODE="0660"\n'
        assert (node.layer.writable / RULES).read_text() == text
        await node.configure()
        await wait_until_removed(node, RULES)


async def test_the_file_of_the_image_is_back_afterwards(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        await node.configure(FILE % ("nfs.conf", "mine"))
        await wait_for(node.state, kinds.ETC_FILE_STATUS, "nfs.conf", lambda _: True)
        assert (node.layer.writable / "nfs.conf").read_text() == "mine"
        await node.configure()
        await wait_until_removed(node, "nfs.conf")
        assert (node.layer.writable / "nfs.conf").read_text() == "image"


async def test_what_can_not_be_written_is_named_and_holds_up_nothing(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        (node.layer.writable / "away").symlink_to("/")
        await node.configure(FILE % ("away/evil", "x"), FILE % ("fine", "y"))
        await wait_for(node.state, kinds.ETC_FILE_STATUS, "fine", lambda _: True)
        assert any("/etc/away/evil" in line for line in node.log)
        with pytest.raises(UserError):
            node.layer.remove("away/evil")


async def test_authorities_are_added_to_those_of_the_image(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        await node.configure(ROOT % ("ours", "CERT"), ROOT % ("b", "OTHER"))
        wanted = "BUILT IN\n\nours:\n=====\nCERT\n\n\nb:\n==\nOTHER"
        await wait_for(node.state, kinds.ETC_FILE_STATUS, ROOTS, lambda _: True)
        assert (node.layer.writable / ROOTS).read_text() == wanted
        assert node.trusted == 1
        await node.configure()
        await wait_until_removed(node, ROOTS)
        assert (node.layer.writable / ROOTS).read_text() == "BUILT IN\n"
        assert node.trusted == 2


async def test_the_hostname_is_set_by_its_file(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        await put(node.state, kinds.ETC_FILE_SPEC, "hostname", EtcFileSpecSpec(contents=b"a\n", mode=0o644))
        await wait_for(node.state, kinds.ETC_FILE_STATUS, "hostname", lambda _: True)
        assert node.names == ["a"]
