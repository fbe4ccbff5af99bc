"""A key management service in memory: the twin of one in the network."""

from dataclasses import dataclass

from talos.api.definitions import block_pb2
from talos.disks.volumes.encryption_keys import KeyPendingError
from talos.system.errors import UserError


@dataclass
class MemoryService:
    """What it seals it can open again. ``reason`` is why it does not answer; while ``is_slow`` it will."""

    reason: str = ""
    is_slow: bool = False
    rejected: int = 0
    made: int = 0

    def unseal(self, key: block_pb2.EncryptionKey, sealed: bytes) -> bytes:
        self._check(key)
        return sealed.removeprefix(b"sealed ")

    def seal(self, key: block_pb2.EncryptionKey) -> tuple[bytes, bytes]:
        self._check(key)
        self.made += 1
        secret = b"random %d" % self.made
        return secret, b"sealed " + secret

    def reject(self, key: block_pb2.EncryptionKey, sealed: bytes) -> None:
        del key, sealed
        self.rejected += 1

    def forget(self) -> None:
        pass

    def _check(self, key: block_pb2.EncryptionKey) -> None:
        if self.is_slow:
            raise KeyPendingError(f"waiting for {key.kms_endpoint}")
        if self.reason:
            raise UserError(f"{key.kms_endpoint}: {self.reason}")
