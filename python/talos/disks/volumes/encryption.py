"""An encrypted volume: its keys, its creation, unlocking it, and its key slots kept as configured.

Creation is safe against power cuts. The first sector of the device is zero, then the mark, then the header's,
each written at once: under the mark nothing is kept. The header is made in memory with all of its slots, the
filesystem is made through it, and only then is it written. So a device that has a header is complete, and is
never written anew.
"""

import hashlib
from collections.abc import Awaitable, Callable, Collection, Generator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from talos.api.definitions import block_pb2
from talos.disks.volumes.crypt_devices import CryptDevices
from talos.disks.volumes.encryption_keys import KeyPendingError, SealedKeys, SlotKey
from talos.disks.volumes.encryption_spec import join_keys
from talos.system.block.luks import KeyRejectedError, LuksOptions
from talos.system.block.luks_header import LuksHeader
from talos.system.errors import UserError
from talos.system.logging import Log

_ALL_SLOTS = -1
"""Where it is recorded that none can be read."""


@dataclass(kw_only=True)
class VolumeEncryption:
    """The encryption of one volume. ``older`` are keys that the slots may still have.

    ``refused`` keeps why a volume can't be unlocked: the same keys and the same header are not tried again.
    ``remember`` writes elsewhere which keys the slots may have, before they change and when they have: for
    STATE, which the config lies in. One that is not ``configured`` is opened only. Keys that a service in the
    network has sealed are never waited for: KeyPendingError until there is an answer.
    """

    devices: CryptDevices
    service: SealedKeys
    volume: str
    spec: block_pb2.EncryptionSpec
    keys: Sequence[SlotKey]
    older: Sequence[SlotKey] = ()
    configured: bool = True
    refused: MutableMapping[str, tuple[bytes, str]] = field(default_factory=dict[str, tuple[bytes, str]])
    remember: Callable[[block_pb2.EncryptionSpec | None], Awaitable[None]] | None = None
    log: Log
    opener: SlotKey | None = None
    """The key that opened it, or that it was made with."""
    unsettled: frozenset[int] = frozenset()
    """Slots that wait for a service in the network; see :meth:`keep_slots`."""
    _failed: dict[int, str] = field(default_factory=dict[int, str])
    _passes_discards: bool = False
    """Whether it was opened so."""
    _tested: dict[int, tuple[bytes, bytes]] = field(default_factory=dict[int, tuple[bytes, bytes]])
    """Slots whose keys the TPM has opened or sealed since: what is sealed, and the salt. By now the TPM may
    be locked."""

    @property
    def name(self) -> str:
        """The mapping's name."""
        return f"luks2-{self.volume}"

    @property
    def failed(self) -> tuple[str, ...]:
        """Why slots are not as configured."""
        return tuple(self._failed.values())

    @property
    def options(self) -> LuksOptions:
        """How the device is made and opened."""
        spec = self.spec
        return LuksOptions(
            cipher=spec.cipher,
            key_bits=spec.key_size,
            sector_size=spec.block_size,
            performance=tuple(spec.perf_options),
            allow_discards=spec.allow_discards,
        )

    @property
    def allows_discards(self) -> bool:
        """Whether free blocks may be reported to the disk, by the config and by how it was opened."""
        return self._passes_discards and self.spec.allow_discards

    async def create(self, device: str) -> str:
        """Begin a new encrypted device; it is nothing before :meth:`publish`. KeyPendingError, UserError."""
        keys = [self._seal(key) for key in self.keys]
        for key in keys:
            if key.problem:
                raise UserError(f"can't be encrypted: {key}: {key.problem}", where=self.volume)
        if self.remember:
            await self.remember(self.spec)
        self.log.info(f"volume {self.volume}: encrypting it", device=device)
        mapped = await self.devices.create(device, self.name, keys, self.options)
        self.opener, self._passes_discards = keys[0], self.spec.allow_discards
        for key in keys:
            self._record_tested(key)
        return mapped

    async def forget(self) -> None:
        """Take back what was remembered: the volume is made anew without encryption."""
        if self.remember:
            await self.remember(None)

    async def rekey(self, device: str, spec: block_pb2.EncryptionSpec, keys: Sequence[SlotKey]) -> None:
        """Have the slots of an open volume as a new config has them; see :meth:`keep_slots`."""
        self.older, self.spec, self.keys = self.keys, spec, keys
        await self.keep_slots(device)

    async def publish(self, device: str) -> None:
        """Complete it."""
        await self.devices.publish(device, self.name)
        self.service.forget()

    async def open(self, device: str) -> str:
        """Unlock by the first key that works, in the order of the slots; the mapped device.

        UserError with every slot's reason when none does, KeyPendingError while one is being requested.
        """
        header = await self.devices.read_header(device)
        attempt = self._make_fingerprint(header)
        if self.refused.get(self.volume, (b"", ""))[0] == attempt:
            raise UserError(self.refused[self.volume][1], where=self.volume)
        reasons: list[str] = []
        is_final = True
        for wanted in [*self.keys, *(key for key in self.older if key not in self.keys)]:
            key = self._unseal(wanted, header) if wanted.spec.slot in header.slots else wanted
            reason = self._find_obstacle(key, header)
            if key.is_sealed:  # the service may answer otherwise
                is_final = False
            if not reason:
                try:
                    mapped = await self.devices.open(device, self.name, header, key, self.options)
                except KeyRejectedError as error:
                    reason = error.message
                    if key.is_sealed:
                        self.service.reject(key.spec, key.sealed)
                except UserError as error:
                    reason, is_final = error.message, False
                else:
                    self.log.info(f"volume {self.volume}: unlocked", device=device, key=str(key))
                    self.opener, self._passes_discards = key, self.spec.allow_discards
                    self.refused.pop(self.volume, None)
                    return mapped
            reasons.append(f"{key}: {reason}")
        text = f"{device} can't be unlocked: {'; '.join(reasons)}"
        if is_final:
            self.refused[self.volume] = attempt, text
        raise UserError(text, where=self.volume)

    def _unseal(self, key: SlotKey, header: LuksHeader) -> SlotKey:
        """A slot's key with what its service returns, or why there is none. KeyPendingError.

        Of the TPM, what is sealed for this start may be one of several.
        """
        if not key.is_sealed or key.problem:
            return key
        problem = ""
        for sealed in key.list_sealed(header):
            try:
                return key.complete(self.service.unseal(key.spec, sealed), sealed)
            except KeyPendingError:
                raise
            except UserError as error:
                problem = problem or error.message
        return replace(key, problem=problem or "the volume has no sealed key in this slot")

    def _seal(self, key: SlotKey) -> SlotKey:
        """A new key for a slot, sealed where it has to be, or why there is none. KeyPendingError."""
        if not key.is_sealed or key.problem:
            return key
        try:
            return key.complete(*self.service.seal(key.spec))
        except KeyPendingError:
            raise
        except UserError as error:
            return replace(key, problem=error.message)

    def _find_obstacle(self, key: SlotKey, header: LuksHeader) -> str:
        if key.problem:
            return key.problem
        return "" if key.spec.slot in header.slots else "the volume has no key in this slot"

    def _make_fingerprint(self, header: LuksHeader) -> bytes:
        """What decides whether the volume can be unlocked. A digest: keys are not kept in another place."""
        digest = hashlib.sha256(header.data)
        for key in (*self.keys, *self.older):
            digest.update(repr((key.spec.slot, key.passphrase, key.problem)).encode())
        return digest.digest()

    async def keep_slots(self, device: str, *, only: Collection[int] | None = None) -> None:
        """Have the slots as configured: missing keys are added, others replaced, what is left over destroyed.

        The slot that opened the volume goes last, so that one key works at any time. What fails is recorded
        and logged: the volume is open. Slots that are ``unsettled`` then are to be kept again when their
        service has answered, ``only`` these.
        """
        opener = self.opener
        if opener is None or not self.configured:
            return
        failed: dict[int, str] = {} if only is None else {**self._failed}
        unsettled: set[int] = set()
        try:
            header = await self.devices.read_header(device)
            if self.remember:
                older = (key.spec for key in self.older if key.spec not in self.spec.keys)
                await self.remember(join_keys(self.spec, older))
        except (UserError, OSError) as error:
            failed[_ALL_SLOTS] = f"error reading key slots: {error}"
        else:
            failed.pop(_ALL_SLOTS, None)
            await self._keep_all(
                _SlotWork(device, header, opener, set(header.slots), failed, unsettled), only
            )
            if self.remember and not failed and not unsettled:
                await self.remember(self.spec)
        for slot, line in failed.items():
            if line != self._failed.get(slot):
                self.log.warning(f"volume {self.volume}: {line}", device=device)
        self._failed, self.unsettled = failed, frozenset(unsettled)
        if not unsettled:
            self.service.forget()

    async def _keep_all(self, work: "_SlotWork", only: Collection[int] | None) -> None:
        for key in self.keys:
            slot = key.spec.slot
            if only is None or slot in only:
                with work.record(slot, "updating" if slot in work.present else "adding", key):
                    await self._keep_slot(work, key)
        opener = work.opener
        wanted = {key.spec.slot for key in self.keys}
        for slot in sorted(work.present - wanted, key=lambda slot: (slot == opener.spec.slot, slot)):
            with work.record(slot, "removing"):
                await self._remove_slot(work, slot)

    async def _keep_slot(self, work: "_SlotWork", wanted: SlotKey) -> None:
        slot, device, opener = wanted.spec.slot, work.device, work.opener
        if wanted.problem:
            raise UserError(wanted.problem)
        is_opener = slot == opener.spec.slot
        if is_opener and wanted.is_sealed and wanted.spec.type == opener.spec.type:  # it works
            return
        is_there = slot in work.present and (not wanted.is_sealed or bool(wanted.list_sealed(work.header)))
        # A service that has lost its keys unseals something else each time: a new key is sealed anew.
        is_there = is_there and not is_opener
        if is_there and self._is_tested(wanted, work.header):
            return
        key = self._unseal(wanted, work.header) if is_there else self._seal(wanted)
        if key.problem:
            raise UserError(key.problem)
        if is_opener:
            if key.passphrase == opener.passphrase:
                return
            await self.devices.change(device, opener, key)
            self.opener = key
        else:
            if slot in work.present:
                if is_there and await self.devices.test(device, key):
                    self._record_tested(key)
                    return
                key = self._seal(wanted)
                if key.problem:
                    raise UserError(key.problem)
                await self.devices.remove(device, slot, self.opener or opener)
                work.present.discard(slot)
            await self.devices.add(device, self.opener or opener, key)
            work.present.add(slot)
            work.made[slot] = key
            self._record_tested(key)
        self.log.info(f"volume {self.volume}: a key was written", device=device, key=str(key))

    async def _remove_slot(self, work: "_SlotWork", slot: int) -> None:
        """Destroy a slot; the opener's only with a configured key that is known to work."""
        by = self.opener or work.opener
        if slot == work.opener.spec.slot:
            by = await self._find_working(work)
        await self.devices.remove(work.device, slot, by)
        self.opener = by
        self.log.info(f"volume {self.volume}: a key was removed", device=work.device, slot=slot)

    async def _find_working(self, work: "_SlotWork") -> SlotKey:
        header = await self.devices.read_header(work.device)
        for wanted in self.keys:
            if wanted.spec.slot in header.slots:
                key = work.made.get(wanted.spec.slot) or self._unseal(wanted, header)
                if not key.problem and await self.devices.test(work.device, key):
                    return key
        if work.unsettled:
            raise KeyPendingError("no configured key works yet")
        raise UserError("no configured key works yet")

    def _is_tested(self, key: SlotKey, header: LuksHeader) -> bool:
        tested = self._tested.get(key.spec.slot)
        return any(tested == (sealed, key.salt) for sealed in key.list_sealed(header))

    def _record_tested(self, key: SlotKey) -> None:
        if key.is_of_tpm:
            self._tested[key.spec.slot] = key.sealed, key.salt

    async def close(self) -> None:
        """Close it; nothing when it is not open. UserError while something uses it."""
        await self.devices.close(self.name)


@dataclass(frozen=True, slots=True)
class _SlotWork:
    """The slots of one open volume being kept: what is there, was made, fails, or waits for a service."""

    device: str
    header: LuksHeader
    opener: SlotKey
    present: set[int]
    failed: dict[int, str]
    unsettled: set[int]
    made: dict[int, SlotKey] = field(default_factory=dict[int, SlotKey])

    @contextmanager
    def record(self, slot: int, what: str, key: SlotKey | None = None) -> Generator[None]:
        """Record what fails in upstream's words."""
        self.failed.pop(slot, None)
        try:
            yield
        except KeyPendingError:
            self.unsettled.add(slot)
        except (UserError, OSError) as error:
            self.failed[slot] = f"error {what} key slot {slot}: {error}"
            if key is not None and key.is_sealed and not key.is_of_tpm:  # PCRs stay until the next boot
                self.unsettled.add(slot)
