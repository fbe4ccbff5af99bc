"""EtcFileStatus: which version of a specified file in /etc is in place."""

import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import override

from talos.api.definitions.files_pb2 import EtcFileStatusSpec
from talos.machined.controllers.files.etc_file_config import ROOTS
from talos.machined.node.etc_files import EtcFiles
from talos.machined.node.etc_layer import EtcLayer
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.errors import UserError
from talos.system.logging import Log

HOSTNAME = "hostname"
BOUND = frozenset({HOSTNAME, "hosts", "resolv.conf"})
"""Files that are there from the beginning and shown by a mount each; others are in the layer above /etc."""


class EtcFileController(Reconciler):
    """EtcFileSpec → the files, EtcFileStatus; also sets the kernel's host name.

    ``trust_anew`` is called when the authorities that the node trusts have changed.
    """

    name = "files.EtcFileController"
    inputs = (Input(kinds.ETC_FILE_SPEC),)
    outputs = (Output(kinds.ETC_FILE_STATUS, shared=True),)

    def __init__(
        self,
        files: EtcFiles,
        layer: EtcLayer,
        set_hostname: Callable[[str], None],
        trust_anew: Callable[[], Awaitable[None]],
        log: Log,
    ) -> None:
        self._files = files
        self._layer = layer
        self._set_hostname = set_hostname
        self._trust_anew = trust_anew
        self._log = log
        self._written: dict[str, bytes] = {}

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write what has changed, and take back what is no longer specified."""
        found = {spec.id: spec for spec in await runtime.list(kinds.ETC_FILE_SPEC)}
        for name in self._written.keys() - found.keys() - BOUND:
            if self._apply(name, partial(self._layer.remove, name)):
                del self._written[name]
                await self._follow(name, b"")
        async with runtime.track_outputs():
            for name, spec in found.items():
                digest = hashlib.sha256(spec.spec.contents).digest()
                if self._written.get(name) != digest:
                    write = partial(self._write, name, spec.spec.contents, spec.spec.mode)
                    if not self._apply(name, write):
                        continue
                    self._written[name] = digest
                    await self._follow(name, spec.spec.contents)
                version = str(spec.metadata.version)
                await runtime.put(kinds.ETC_FILE_STATUS, name, EtcFileStatusSpec(spec_version=version))

    def _write(self, name: str, contents: bytes, mode: int) -> None:
        if name in BOUND:
            self._files.write(name, contents.decode(), mode)
        else:
            self._layer.write(name, contents, mode)

    def _apply(self, name: str, change: Callable[[], None]) -> bool:
        """Whether a change of a file of the user's was possible; that of the system's own raises OSError."""
        try:
            change()
        except (UserError, OSError) as error:
            if name in BOUND:
                raise
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._log.once(f"/etc/{name} is not written: {reason}", key=name, level="error")
            return False
        return True

    async def _follow(self, name: str, contents: bytes) -> None:
        if name == HOSTNAME:
            self._set_hostname(contents.decode().strip())
        elif name == ROOTS:
            await self._trust_anew()
