"""Snapshots of etcd as they arrive: whole only when the last bytes are the hash of all before."""

import hashlib

HASH = 32
"""Bytes of the SHA-256 at the end of a snapshot."""


class SnapshotHash:
    """Takes a snapshot piece by piece."""

    def __init__(self) -> None:
        self._digest, self._last = hashlib.sha256(), b""
        self.size = 0

    def update(self, piece: bytes) -> None:
        """The next piece."""
        self.size += len(piece)
        last = self._last + piece
        self._digest.update(last[:-HASH])
        self._last = last[-HASH:]

    @property
    def is_whole(self) -> bool:
        """Whether what has come so far is a whole snapshot."""
        return self.size > HASH and self._last == self._digest.digest()
