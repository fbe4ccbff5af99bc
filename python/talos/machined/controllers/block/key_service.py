"""The keys of encrypted volumes that services in the network seal: asked for in tasks of their own.

A volume's slots are opened by what is there by now; an answer wakes the manager of volumes. What fails is
tried again, later each time.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import override

import trio

from talos.api.definitions import block_pb2
from talos.disks.volumes.encryption_keys import KeyPendingError, SealedKeys
from talos.machined.node.key_requests import KeyRequests
from talos.system.errors import UserError

SECRET_SIZE = 32
"""Bytes of a key."""
SLOT_TIMEOUT = 20.0
"""Seconds for which a slot is waited for before the next one is tried. The network comes up meanwhile."""
FIRST_RETRY_DELAY, MAX_RETRY_DELAY = 1.0, 60.0
"""Seconds until a request that failed is repeated; doubled each time."""


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked. A new key has its slot, so that two of them are different ones."""

    endpoint: str
    uuid: str
    sealed: bytes
    new_in: int = -1


@dataclass(slots=True)
class _Asked:
    """A question, what it came to, and since when it is asked. ``data`` are what is sent."""

    data: bytes
    began: float
    answer: bytes = b""
    reason: str = ""
    is_busy: bool = False
    delay: float = FIRST_RETRY_DELAY


class KeyService:
    """Asks for the keys of all volumes; ``wake`` is called when there is news of any."""

    def __init__(self, requests: KeyRequests, wake: Callable[[], None]) -> None:
        self._requests = requests
        self._wake = wake
        self._nursery: trio.Nursery | None = None
        self._volumes: dict[str, VolumeKeys] = {}

    async def run(self) -> None:
        """Ask until cancelled."""
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    def of_volume(self, volume: str, uuid: str) -> SealedKeys:
        """The keys of one volume, of a machine with this UUID."""
        keys = self._volumes.setdefault(volume, VolumeKeys(self._start))
        keys.uuid = uuid
        return keys

    def take_news(self, volume: str) -> bool:
        """Whether there was an answer or a failure for a volume since the last call."""
        keys = self._volumes.get(volume)
        if keys is None or not keys.has_news:
            return False
        keys.has_news = False
        return True

    def _start(self, keys: "VolumeKeys", question: _Question, asked: _Asked, *, rest: bool) -> None:
        if asked.is_busy or self._nursery is None:
            return
        asked.is_busy = True
        self._nursery.start_soon(self._ask, keys, question, asked, rest)

    async def _ask(self, keys: "VolumeKeys", question: _Question, asked: _Asked, rest: bool) -> None:
        try:
            if not rest:
                await self._send(keys, question, asked)
            if not asked.answer:
                await trio.sleep(asked.delay)
                asked.delay = min(2 * asked.delay, MAX_RETRY_DELAY)
        finally:
            asked.is_busy = False
            self._tell(keys)

    async def _send(self, keys: "VolumeKeys", question: _Question, asked: _Asked) -> None:
        seal = question.new_in >= 0
        try:
            asked.answer = await self._requests.ask(question.endpoint, question.uuid, asked.data, seal=seal)
        except UserError as error:
            asked.reason = error.message
        self._tell(keys)

    def _tell(self, keys: "VolumeKeys") -> None:
        keys.has_news = True
        self._wake()


type _Start = Callable[..., None]


@dataclass
class VolumeKeys(SealedKeys):
    """Those of one volume."""

    start: _Start
    uuid: str = ""
    has_news: bool = False
    _asked: dict[_Question, _Asked] = field(default_factory=dict[_Question, _Asked])

    @override
    def unseal(self, key: block_pb2.EncryptionKey, sealed: bytes) -> bytes:
        return self._find(_Question(key.kms_endpoint, self.uuid, sealed), sealed).answer

    @override
    def seal(self, key: block_pb2.EncryptionKey) -> tuple[bytes, bytes]:
        question = _Question(key.kms_endpoint, self.uuid, b"", new_in=key.slot)
        asked = self._find(question, os.urandom(SECRET_SIZE))
        return asked.data, asked.answer

    @override
    def reject(self, key: block_pb2.EncryptionKey, sealed: bytes) -> None:
        question = _Question(key.kms_endpoint, self.uuid, sealed)
        asked = self._asked.get(question)
        if asked is not None:
            asked.answer, asked.reason, asked.began = b"", "its key is rejected", -math.inf
            self.start(self, question, asked, rest=True)

    @override
    def forget(self) -> None:
        self._asked.clear()

    def _find(self, question: _Question, data: bytes) -> _Asked:
        """The answer; KeyPendingError, UserError."""
        asked = self._asked.setdefault(question, _Asked(data=data, began=trio.current_time()))
        if asked.answer:
            return asked
        self.start(self, question, asked, rest=False)
        if asked.reason and trio.current_time() >= asked.began + SLOT_TIMEOUT:
            raise UserError(f"{question.endpoint}: {asked.reason}")
        raise KeyPendingError(
            f"waiting for {question.endpoint}" + (f": {asked.reason}" if asked.reason else "")
        )
