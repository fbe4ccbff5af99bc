"""BootedEntry: the entry of the boot loader that a machine with a Unified Kernel Image was started from."""

from talos.api.definitions.runtime_pb2 import BootedEntrySpec
from talos.machined.controllers.runtime.security_state import read_variable
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Output
from talos.system.efi_variables import LOADER
from talos.system.files import Files
from talos.system.logging import make_printable

MAX_NAME = 255
"""Characters: it is a file's name."""


class BootedEntryController(Controller):
    """Writes the one resource, of which nothing changes while the machine runs."""

    name = "runtime.BootedEntryController"
    outputs = (Output(kinds.BOOTED_ENTRY),)

    def __init__(self, files: Files) -> None:
        self._files = files

    async def run(self, runtime: ControllerRuntime) -> None:
        """Write it once, where the stub of an image has left its variable."""
        if read_variable(self._files, "StubInfo", LOADER):
            await runtime.put(*ids.BOOTED_ENTRY, BootedEntrySpec(booted_entry=find_entry(self._files)))


def find_entry(files: Files) -> str:
    """The entry that the loader has chosen, else its default; empty where firmware has started the image."""
    found = (read_variable(files, name, LOADER) for name in ("LoaderEntrySelected", "LoaderEntryDefault"))
    text = next((value for value in map(bytes, found) if value), b"").decode("utf-16-le", "replace")
    return make_printable(text.partition("\0")[0])[:MAX_NAME]
