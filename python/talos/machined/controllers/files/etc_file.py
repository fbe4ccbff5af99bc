"""EtcFileStatus: which version of a specified file in /etc is in place."""

from collections.abc import Callable

from talos.api.definitions.files_pb2 import EtcFileStatusSpec
from talos.machined.node.etc_files import EtcFiles
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

HOSTNAME = "hostname"


class EtcFileController(Reconciler):
    """EtcFileSpec → the files, EtcFileStatus; also sets the kernel's host name."""

    name = "files.EtcFileController"
    inputs = (Input(kinds.ETC_FILE_SPEC),)
    outputs = (Output(kinds.ETC_FILE_STATUS, shared=True),)

    def __init__(self, files: EtcFiles, set_hostname: Callable[[str], None]) -> None:
        self._files = files
        self._set_hostname = set_hostname
        self._written: dict[str, str] = {}

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write what has changed."""
        for spec in await runtime.list(kinds.ETC_FILE_SPEC):
            text = spec.spec.contents.decode()
            if self._written.get(spec.id) != text:
                self._files.write(spec.id, text, spec.spec.mode)
                self._written[spec.id] = text
                if spec.id == HOSTNAME:
                    self._set_hostname(text.strip())
            version = str(spec.metadata.version)
            await runtime.put(kinds.ETC_FILE_STATUS, spec.id, EtcFileStatusSpec(spec_version=version))
