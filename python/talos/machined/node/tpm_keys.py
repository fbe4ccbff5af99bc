"""Keys of encrypted volumes that the TPM of the machine seals, and what PID 1 measures into its PCR 11."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, override

import trio

from talos.system.efi_variables import LOADER, EfiVariables
from talos.system.errors import UserError
from talos.system.tpm.commands import Tpm, open_device
from talos.system.tpm.sealing import Open, find_signed, parse_sealed, seal, seal_for_values, unseal
from talos.system.tpm.signed_policy import MAX_KEY, MAX_SIGNATURES, ImagePolicy, parse_image_policy
from talos.system.tpm.uki import LAST_PHASE, PCR, PHASES, extend, hash_text
from talos.system.tpm.wire import WHERE
from talos.upgrade.release.initramfs import SHOWN

TIMEOUT = 60.0
"""Seconds for one key: twenty times what a slow TPM takes; an emulated machine on a busy host took 28."""
EXTRA = SHOWN / ".extra"
"""What systemd's stub adds to the initramfs."""
KEY_NAME, SIGNATURES_NAME = "tpm2-pcr-public-key.pem", "tpm2-pcr-signature.json"
MEASURED = "StubPcrKernelImage"
"""The stub's variable, which is there when it has measured the image."""


class TpmKeys(Protocol):
    """Seals and unseals. UserError with what has changed or is missing, OSError."""

    async def seal(self, secret: bytes, pcrs: Sequence[int], *, needs_secure_boot: bool) -> bytes:
        """Seal to PCRs as they are now, and to the image's key; the JSON for the volume's header."""
        ...

    async def seal_for_values(
        self, secret: bytes, sealed: bytes, pcr: int, values: Sequence[bytes]
    ) -> Sequence[bytes]:
        """Seal as it was before, for each of these values that a PCR will have at a start to come.

        What is ``sealed`` is what has opened in this start.
        """
        ...

    async def unseal(self, sealed: bytes) -> bytes:
        """The secret again."""
        ...

    async def begin(self) -> bool:
        """Measure the phases of the boot before volumes are opened; False where PCR 11 is not in use."""
        ...

    async def lock(self) -> None:
        """Measure the phase after: until the next boot what is bound to PCR 11 stays closed."""
        ...


class KernelTpmKeys(TpmKeys):
    """By the kernel's device, one request after the other: a TPM takes up to a second for one.

    ``settings`` are the firmware's variables, ``loader`` those of the stub.
    """

    def __init__(
        self,
        settings: EfiVariables,
        loader: EfiVariables | None = None,
        open_tpm: Callable[[], Open] = open_device,
        extra: Path = EXTRA,
    ) -> None:
        self._open = open_tpm
        self._settings = settings
        self._loader = EfiVariables(vendor=LOADER) if loader is None else loader
        self._extra = extra
        self._lock = trio.Lock()
        self._busy = threading.Lock()
        self._left = list(PHASES)
        self._value = b""
        self._expected = b""
        self._is_locked = False

    @override
    async def seal(self, secret: bytes, pcrs: Sequence[int], *, needs_secure_boot: bool) -> bytes:
        if needs_secure_boot:
            self._check_secure_boot()
        return await self._run(partial(self._seal, secret, pcrs))

    @override
    async def seal_for_values(
        self, secret: bytes, sealed: bytes, pcr: int, values: Sequence[bytes]
    ) -> Sequence[bytes]:
        return await self._run(partial(self._seal_for_values, secret, sealed, pcr, values))

    @override
    async def unseal(self, sealed: bytes) -> bytes:
        return await self._run(partial(self._unseal, sealed))

    @override
    async def begin(self) -> bool:
        if not self._is_measured():
            return False
        await self._run(self._measure)
        return True

    @override
    async def lock(self) -> None:
        await self._run(self._measure_last)

    async def _run[T](self, request: Callable[[], T]) -> T:
        """Run a request in a thread, which is left alone when it takes too long.

        Until such a thread has its answer, every other request is refused: both could measure the same phase.
        """

        def work() -> T:
            if not self._busy.acquire(blocking=False):
                text = f"an earlier request has had no answer for more than {TIMEOUT:.0f} s"
                raise UserError(text, where=WHERE, hint="reboot, if it does not answer soon")
            try:
                return request()
            finally:
                self._busy.release()

        async with self._lock:
            with trio.move_on_after(TIMEOUT):
                return await trio.to_thread.run_sync(work, abandon_on_cancel=True)
        raise UserError(f"no answer in {TIMEOUT:.0f} s", where=WHERE)

    def _seal(self, secret: bytes, pcrs: Sequence[int]) -> bytes:
        self._measure()
        if PCR in pcrs:
            self._check_unlocked()
        image = self._read_image()
        if image is not None:
            find_signed(image, self._value)  # or nothing would open it
        return seal(self._open(), secret, pcrs, image)

    def _seal_for_values(
        self, secret: bytes, sealed: bytes, pcr: int, values: Sequence[bytes]
    ) -> Sequence[bytes]:
        return seal_for_values(self._open(), secret, sealed, pcr, values, self._read_image())

    def _unseal(self, sealed: bytes) -> bytes:
        self._measure()
        found = parse_sealed(sealed)
        if found.is_signed or PCR in found.pcrs:
            self._check_unlocked()
        return unseal(self._open(), sealed, self._read_image() if found.is_signed else None)

    def _measure(self) -> None:
        """Measure the phases, each once. Of an image that was not measured the PCR stays empty."""
        if self._value or not self._is_measured():
            return
        with self._open() as transmit:
            tpm = Tpm(transmit)
            while self._left:
                self._measure_phase(tpm, self._left[0])
                del self._left[0]
            self._value = tpm.read_pcrs([PCR])[PCR]

    def _measure_last(self) -> None:
        self._measure()
        if not self._is_locked and self._is_measured():
            with self._open() as transmit:
                self._measure_phase(Tpm(transmit), LAST_PHASE)
            self._is_locked = True

    def _measure_phase(self, tpm: Tpm, phase: str) -> None:
        """Measure one phase, unless the PCR shows that a try which ended with an error has done it."""
        value, digest = tpm.read_pcrs([PCR])[PCR], hash_text(phase)
        if value != self._expected:
            self._expected = extend(value, digest)
            tpm.extend(PCR, digest)
        self._expected = b""

    def _check_unlocked(self) -> None:
        if self._is_locked:
            raise UserError(
                f"PCR {PCR} is locked until the next boot, as the volumes of this one were open (reboot)"
            )

    def _is_measured(self) -> bool:
        return self._loader.read(MEASURED) is not None

    def _read_image(self) -> ImagePolicy | None:
        """What the image has, None where it was not measured or has no signed policy. UserError."""
        if not self._is_measured():
            return None
        try:
            key = _read(self._extra / KEY_NAME, MAX_KEY)
            signatures = _read(self._extra / SIGNATURES_NAME, MAX_SIGNATURES)
        except FileNotFoundError:
            return None
        return parse_image_policy(key, signatures, str(self._extra))

    def _check_secure_boot(self) -> None:
        """Sealed to PCRs without Secure Boot, a key would open for whatever is started."""
        if self._settings.read("SecureBoot") != b"\1":
            raise UserError("Secure Boot is off, and tpm.checkSecurebootStatusOnEnroll is set")
        if self._settings.read("SetupMode") == b"\1":
            raise UserError("Secure Boot is in setup mode, and tpm.checkSecurebootStatusOnEnroll is set")


def _read(path: Path, maximum: int) -> bytes:
    with path.open("rb") as file:
        return file.read(maximum)
