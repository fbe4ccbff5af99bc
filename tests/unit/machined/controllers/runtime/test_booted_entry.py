"""The entry that a machine was started from, by the variables of its boot loader."""

import pytest
from tests.unit.machined.controllers.running import running

from talos.machined.controllers.runtime.booted_entry import BootedEntryController
from talos.resource import ids
from talos.resource.changes import wait_for
from talos.resource.memory.state import MemoryState
from talos.testing.files import MemoryFiles

LOADER = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"


def make_files(**variables: str) -> MemoryFiles:
    folder = "/sys/firmware/efi/efivars"
    texts = {name: b"\6\0\0\0" + f"{text}\0".encode("utf-16-le") for name, text in variables.items()}
    return MemoryFiles({f"{folder}/{name}-{LOADER}": data for name, data in texts.items()} | {"/x": ""})


@pytest.mark.parametrize(
    ("variables", "entry"),
    [
        ({"LoaderEntrySelected": "B.efi", "LoaderEntryDefault": "A.efi"}, "B.efi"),
        ({"LoaderEntryDefault": "A\n.efi"}, "A?.efi"),
        ({}, ""),
    ],
)
async def test_the_entry_is_the_chosen_one_or_the_default(variables: dict[str, str], entry: str) -> None:
    state = MemoryState()
    async with running(state, BootedEntryController(make_files(StubInfo="systemd-stub 257", **variables))):
        found = await wait_for(state, *ids.BOOTED_ENTRY, lambda _: True)
    assert found.spec.booted_entry == entry
