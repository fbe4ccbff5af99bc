"""The keys of encrypted volumes that services in the network or the TPM seal: requested in other tasks.

A volume's slots are opened by the keys that have come by now; an answer wakes the manager of volumes. A
request that fails is repeated, later each time.
"""

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import override

import trio

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.encryption_keys import KeyPendingError, SealedKeys
from talos.machined.node.key_requests import KeyRequests
from talos.machined.node.tpm_keys import TpmKeys
from talos.system.backoff import Backoff
from talos.system.errors import UserError

SECRET_SIZE = 32
"""Bytes of a key."""
SLOT_TIMEOUT = 20.0
"""Seconds for which a slot is waited for before the next one is tried. The network comes up meanwhile."""
RETRY_BACKOFF = Backoff(1.0, 60.0)
"""Seconds until a request that failed is repeated; one to the TPM waits for the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A request to a service, or to the TPM, which seals to ``pcrs``.

    That for a new key has its slot, so that two of them are different ones.
    """

    endpoint: str = ""
    uuid: str = ""
    is_to_tpm: bool = False
    pcrs: tuple[int, ...] = ()
    needs_secure_boot: bool = False
    sealed: bytes = b""
    new_in: int = -1

    def __str__(self) -> str:
        return "the TPM" if self.is_to_tpm else self.endpoint

    @property
    def is_new(self) -> bool:
        """Whether it is one for a new key."""
        return self.new_in >= 0


@dataclass(slots=True)
class _Exchange:
    """What is sent for a request, since when in seconds, and the result."""

    data: bytes
    began: float
    answer: bytes = b""
    reason: str = ""
    is_busy: bool = False
    delays: Iterator[float] = field(default_factory=lambda: iter(RETRY_BACKOFF))


class KeyService:
    """Requests the keys of all volumes; ``wake`` is called at every answer and failure."""

    def __init__(self, requests: KeyRequests, tpm: TpmKeys, wake: Callable[[], None]) -> None:
        self._requests = requests
        self._tpm = tpm
        self._wake = wake
        self._nursery: trio.Nursery | None = None
        self._volumes: dict[str, VolumeKeys] = {}

    async def run(self) -> None:
        """Send requests until cancelled."""
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    def of_volume(self, volume: str, uuid: str) -> SealedKeys:
        """The keys of one volume, of a machine with this UUID."""
        keys = self._volumes.setdefault(volume, VolumeKeys(self))
        keys.uuid = uuid
        return keys

    def take_change(self, volume: str) -> bool:
        """Whether there was an answer or a failure for a volume since the last call."""
        keys = self._volumes.get(volume)
        if keys is None or not keys.has_changed:
            return False
        keys.has_changed = False
        return True

    def start(self, keys: "VolumeKeys", request: _Request, exchange: _Exchange, *, delayed: bool) -> None:
        """Send a request unless it is under way, ``delayed`` by as long as after a failure."""
        if exchange.is_busy or self._nursery is None:
            return
        exchange.is_busy = True
        self._nursery.start_soon(self._run_exchange, keys, request, exchange, delayed)

    async def _run_exchange(
        self, keys: "VolumeKeys", request: _Request, exchange: _Exchange, delayed: bool
    ) -> None:
        try:
            if not delayed:
                await self._send(keys, request, exchange)
            if not exchange.answer:
                await trio.sleep(next(exchange.delays))
        finally:
            exchange.is_busy = False
            self._notify(keys)

    async def _send(self, keys: "VolumeKeys", request: _Request, exchange: _Exchange) -> None:
        try:
            if request.is_to_tpm:
                exchange.answer = await self._use_tpm(request, exchange)
            else:
                exchange.answer = await self._requests.call(
                    request.endpoint, request.uuid, exchange.data, seal=request.is_new
                )
        except UserError as error:
            exchange.reason = str(error) if request.is_to_tpm else error.message
        except OSError as error:
            exchange.reason = f"{request}: {error.strerror}"
        self._notify(keys)

    async def _use_tpm(self, request: _Request, exchange: _Exchange) -> bytes:
        if not request.is_new:
            return await self._tpm.unseal(request.sealed)
        return await self._tpm.seal(exchange.data, request.pcrs, needs_secure_boot=request.needs_secure_boot)

    def _notify(self, keys: "VolumeKeys") -> None:
        keys.has_changed = True
        self._wake()


@dataclass
class VolumeKeys(SealedKeys):
    """The keys of one volume. ``has_changed``: there was an answer or a failure."""

    service: KeyService
    uuid: str = ""
    has_changed: bool = False
    _exchanges: dict[_Request, _Exchange] = field(default_factory=dict[_Request, _Exchange])

    @override
    def unseal(self, key: block_pb2.EncryptionKey, sealed: bytes) -> bytes:
        return self._find(self._make_request(key, sealed), sealed).answer

    @override
    def seal(self, key: block_pb2.EncryptionKey) -> tuple[bytes, bytes]:
        exchange = self._find(self._make_request(key, new_in=key.slot), os.urandom(SECRET_SIZE))
        return exchange.data, exchange.answer

    @override
    def reject(self, key: block_pb2.EncryptionKey, sealed: bytes) -> None:
        request = self._make_request(key, sealed)
        exchange = self._exchanges.get(request)
        if exchange is not None:
            exchange.answer, exchange.reason, exchange.began = b"", "its key is rejected", -math.inf
            self.service.start(self, request, exchange, delayed=True)

    @override
    def forget(self) -> None:
        self._exchanges.clear()

    def _make_request(
        self, key: block_pb2.EncryptionKey, sealed: bytes = b"", *, new_in: int = -1
    ) -> _Request:
        if key.type != enums.ENCRYPTION_KEY_TPM:
            return _Request(endpoint=key.kms_endpoint, uuid=self.uuid, sealed=sealed, new_in=new_in)
        if new_in < 0:
            return _Request(is_to_tpm=True, sealed=sealed)
        return _Request(
            is_to_tpm=True,
            pcrs=tuple(key.tpmpc_rs),
            needs_secure_boot=key.tpm_check_secureboot_status_on_enroll,
            new_in=new_in,
        )

    def _find(self, request: _Request, data: bytes) -> _Exchange:
        """The answer; KeyPendingError, UserError."""
        exchange = self._exchanges.get(request)
        if exchange is None:
            exchange = self._exchanges[request] = _Exchange(data=data, began=trio.current_time())
            if request.is_to_tpm:  # it refuses for as long as the system runs
                exchange.delays = repeat(RETRY_BACKOFF.limit)
        if exchange.answer:
            return exchange
        self.service.start(self, request, exchange, delayed=False)
        if exchange.reason and request.is_to_tpm:
            raise UserError(exchange.reason)
        if exchange.reason and trio.current_time() >= exchange.began + SLOT_TIMEOUT:
            raise UserError(f"{request}: {exchange.reason}")
        raise KeyPendingError(f"waiting for {request}" + (f": {exchange.reason}" if exchange.reason else ""))
