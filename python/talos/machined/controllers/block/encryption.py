"""The encryption of volumes, for their manager: keys from the config, or from META before there is one."""

import trio

from talos.api.definitions import block_pb2
from talos.disks.volumes.crypt_devices import CryptDevices
from talos.disks.volumes.encryption import VolumeEncryption
from talos.disks.volumes.encryption_keys import SlotKey, make_keys
from talos.disks.volumes.encryption_spec import format_meta, parse_meta
from talos.disks.volumes.status import VolumeState
from talos.machined.controllers.block.key_service import KeyService
from talos.machined.node.meta_store import STATE_ENCRYPTION, MetaStore
from talos.resource import ids
from talos.resource.controller.controller import ControllerRuntime
from talos.resource.resource import Resource
from talos.system.block.layout import STATE
from talos.system.errors import UserError
from talos.system.logging import Log

UUID_KEY = 0x0F
"""META's key with a machine's UUID, for one whose firmware has none."""
META_TIMEOUT = 10.0
"""Seconds for META to be found after it was made."""

type _Config = Resource[block_pb2.VolumeConfigSpec]


class EncryptionKeeper:
    """Makes the encryption of volumes, and follows their configs."""

    def __init__(self, devices: CryptDevices, meta: MetaStore, service: KeyService, log: Log) -> None:
        self._devices = devices
        self._meta = meta
        self._service = service
        self._log = log
        self._refused: dict[str, tuple[bytes, str]] = {}

    async def make(self, runtime: ControllerRuntime, config: _Config) -> VolumeEncryption | None:
        """A volume's encryption; None without one. UserError when META's copy of STATE's can't be read."""
        is_state = config.id == STATE.label
        spec = _find_spec(config)
        older = self._read_meta(spec) if is_state else None
        if spec is None and older is None:
            return None
        return VolumeEncryption(
            devices=self._devices,
            service=self._service.of_volume(config.id, await self._find_uuid(runtime)),
            volume=config.id,
            spec=spec or older or block_pb2.EncryptionSpec(),
            keys=await self._make_keys(runtime, config.id, spec or older),
            older=await self._make_keys(runtime, config.id, older),
            configured=spec is not None,
            refused=self._refused,
            remember=self._remember if is_state else None,
            log=self._log,
        )

    async def keep(self, runtime: ControllerRuntime, config: _Config, current: VolumeState) -> None:
        """Bring the key slots of a volume in use up to date with its config."""
        held, wanted = current.encryption, _find_spec(config)
        if held is None:
            return
        if wanted is not None and not (held.configured and held.spec == wanted):
            held.configured = True
            await held.rekey(current.location, wanted, await self._make_keys(runtime, config.id, wanted))
        elif held.unsettled and self._service.take_change(config.id):
            await held.keep_slots(current.location, only=held.unsettled)

    def _read_meta(self, wanted: block_pb2.EncryptionSpec | None) -> block_pb2.EncryptionSpec | None:
        value = self._meta.values.get(STATE_ENCRYPTION)
        try:
            return parse_meta(value) if value is not None else None
        except UserError as error:
            if wanted is None:
                raise
            self._log.warning("the encryption of STATE is taken from the config", reason=str(error))
            return None

    async def _make_keys(
        self, runtime: ControllerRuntime, volume: str, spec: block_pb2.EncryptionSpec | None
    ) -> list[SlotKey]:
        if spec is None:
            return []
        salt = await runtime.get_or_none(*ids.ENCRYPTION_SALT)
        uuid = await self._find_uuid(runtime)
        return make_keys(spec, volume, uuid, salt.spec.disk_salt if salt else b"")

    async def _find_uuid(self, runtime: ControllerRuntime) -> str:
        information = await runtime.get_or_none(*ids.SYSTEM_INFORMATION)
        uuid = self._meta.values.get(UUID_KEY, b"").decode(errors="replace")
        return uuid or (information.spec.uuid if information is not None else "")

    async def _remember(self, spec: block_pb2.EncryptionSpec | None) -> None:
        """Have in META how STATE is opened; nothing of one that is not encrypted."""
        with trio.move_on_after(META_TIMEOUT):
            await self._meta.wait_until_located()
        if spec is None:
            await self._meta.delete(STATE_ENCRYPTION)
        elif self._meta.values.get(STATE_ENCRYPTION) != (value := format_meta(spec)):
            await self._meta.set(STATE_ENCRYPTION, value)


def _find_spec(config: _Config) -> block_pb2.EncryptionSpec | None:
    return config.spec.encryption if config.spec.HasField("encryption") else None
