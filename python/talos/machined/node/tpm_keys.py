"""Keys of encrypted volumes that the TPM of the machine seals."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, override

import trio

from talos.system.efi_variables import EfiVariables
from talos.system.errors import UserError
from talos.system.tpm.commands import open_device
from talos.system.tpm.sealing import Open, seal, unseal
from talos.system.tpm.wire import WHERE

TIMEOUT = 60.0
"""Seconds for one key: twenty times what a slow TPM takes; an emulated machine on a busy host took 28."""


class TpmKeys(Protocol):
    """Seals and unseals. UserError with what has changed or is missing, OSError."""

    async def seal(self, secret: bytes, pcrs: Sequence[int], *, needs_secure_boot: bool) -> bytes:
        """Seal to PCRs as they are now; the JSON for the volume's header."""
        ...

    async def unseal(self, sealed: bytes) -> bytes:
        """The secret again."""
        ...


class KernelTpmKeys(TpmKeys):
    """By the kernel's device, one request after the other: a TPM takes up to a second for one."""

    def __init__(self, variables: EfiVariables, open_tpm: Callable[[], Open] = open_device) -> None:
        self._open = open_tpm
        self._variables = variables
        self._lock = trio.Lock()

    @override
    async def seal(self, secret: bytes, pcrs: Sequence[int], *, needs_secure_boot: bool) -> bytes:
        if needs_secure_boot:
            self._check_secure_boot()
        return await self._run(partial(seal, self._open(), secret, pcrs))

    @override
    async def unseal(self, sealed: bytes) -> bytes:
        return await self._run(partial(unseal, self._open(), sealed))

    async def _run(self, request: Callable[[], bytes]) -> bytes:
        """Run a request in a thread, which is left alone when it takes too long."""
        async with self._lock:
            with trio.move_on_after(TIMEOUT):
                return await trio.to_thread.run_sync(request, abandon_on_cancel=True)
        raise UserError(f"no answer in {TIMEOUT:.0f} s", where=WHERE)

    def _check_secure_boot(self) -> None:
        """Sealed to PCRs without Secure Boot, a key would open for whatever is started."""
        if self._variables.read("SecureBoot") != b"\1":
            raise UserError("Secure Boot is off, and tpm.checkSecurebootStatusOnEnroll is set")
        if self._variables.read("SetupMode") == b"\1":
            raise UserError("Secure Boot is in setup mode, and tpm.checkSecurebootStatusOnEnroll is set")
