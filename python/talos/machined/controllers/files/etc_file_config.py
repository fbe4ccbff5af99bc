"""EtcFileSpec: files of the config in /etc, the authorities that the node trusts, and rules for devices."""

from collections.abc import Callable
from typing import override

from talos.api.definitions.files_pb2 import EtcFileSpecSpec
from talos.config.active import PARTIAL_CONFIG_INPUTS, read_config, read_partial_config
from talos.config.effective import machine as effective
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

ROOTS = "ssl/certs/ca-certificates.crt"
"""Below /etc: where OpenSSL, Go and our own clients look for authorities."""
RULES = "udev/rules.d/99-talos.rules"
"""Below /etc; the image links to it where upstream has the file. It is for readers: udevd has the config."""
MODE = 0o644


class EtcFileConfigController(Reconciler):
    """MachineConfig → EtcFileSpec, one for each document."""

    name = "files.EtcFileConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.ETC_FILE_SPEC, shared=True),)

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        config = await read_config(runtime)
        async with runtime.track_outputs():
            for file in effective.etc_files(config) if config else ():
                mode = MODE if not file.mode else int(file.mode)
                spec = EtcFileSpecSpec(contents=(file.contents or "").encode(), mode=mode)
                await runtime.put(kinds.ETC_FILE_SPEC, file.name, spec)


class UdevRulesFileController(Reconciler):
    """MachineConfig → EtcFileSpec: the rules for devices, one a line."""

    name = "files.UdevRulesFileController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.ETC_FILE_SPEC, shared=True),)

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        config = await read_config(runtime)
        rules = effective.udev_rules(config) if config else ()
        text = "".join("{}\n".format(rule.replace("\n", "\\\n")) for rule in rules)
        async with runtime.track_outputs():
            if text:
                spec = EtcFileSpecSpec(contents=text.encode(), mode=MODE)
                await runtime.put(kinds.ETC_FILE_SPEC, RULES, spec)


class TrustedRootsController(Reconciler):
    """MachineConfig → EtcFileSpec: the image's authorities with those of the config behind them.

    Without any in the config there is none: the image's file is in place, and its quarter of a megabyte
    takes no memory.
    """

    name = "secrets.TrustedRootsController"
    inputs = PARTIAL_CONFIG_INPUTS
    outputs = (Output(kinds.ETC_FILE_SPEC, shared=True),)

    def __init__(self, read_image: Callable[[str], bytes]) -> None:
        self._read_image = read_image

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        config = await read_partial_config(runtime)
        added = [make_part(name, text) for name, text in effective.trusted_roots(config)] if config else []
        async with runtime.track_outputs():
            if added:
                contents = self._read_image(ROOTS) + "\n\n".join(added).encode()
                spec = EtcFileSpecSpec(contents=contents, mode=MODE)
                await runtime.put(kinds.ETC_FILE_SPEC, ROOTS, spec)


def make_part(name: str, certificates: str) -> str:
    """A document's certificates as they are written, below a title."""
    return f"\n{name}:\n{'=' * (len(name) + 1)}\n{certificates}"
