"""Encryption of what nodes publish: the discovery server sees neither data nor endpoints.

The key is the cluster's secret. An affiliate's data are AES-GCM: a nonce of 12 bytes, ciphertext, a tag of 16
bytes. An endpoint is AES-ECB: its length in one byte, the message, zeros up to whole blocks. That is the same
for the same endpoint, so that the server can merge what several nodes report.
"""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from google.protobuf.message import DecodeError

from talos.api.discovery.affiliate_pb2 import Affiliate, Endpoint
from talos.system.errors import UserError

KEY_BYTES = 32
_NONCE_BYTES = 12
_BLOCK_BYTES = 16


class DamagedError(Exception):
    """What was received can't be read; the text is the reason."""


class PayloadCipher:
    """Encrypts and decrypts with one cluster's key."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise UserError(
                f"has {len(key)} bytes instead of {KEY_BYTES}",
                where="the cluster's secret",
                hint=f"base64 of {KEY_BYTES} bytes, the same on all nodes",
            )
        self._gcm = AESGCM(key)
        self._blocks = Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305 - see the module's text

    def seal(self, affiliate: Affiliate) -> bytes:
        """An affiliate's data, other bytes every time."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._gcm.encrypt(nonce, affiliate.SerializeToString(), None)

    def open(self, data: bytes) -> Affiliate:
        """The affiliate in data that :meth:`seal` has made; DamagedError."""
        try:
            return Affiliate.FromString(self._gcm.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], None))
        except (InvalidTag, ValueError):
            raise DamagedError("encrypted with another cluster's secret, or damaged") from None
        except DecodeError:
            raise DamagedError("no affiliate") from None

    def seal_endpoint(self, endpoint: Endpoint) -> bytes:
        """An endpoint, the same bytes every time."""
        message = endpoint.SerializeToString()
        block = bytes([len(message)]) + message
        block += bytes(-len(block) % _BLOCK_BYTES)
        encryptor = self._blocks.encryptor()
        return encryptor.update(block) + encryptor.finalize()

    def open_endpoint(self, data: bytes) -> Endpoint:
        """The endpoint in data that :meth:`seal_endpoint` has made; DamagedError."""
        if not data or len(data) % _BLOCK_BYTES:
            raise DamagedError("an endpoint that is not in whole blocks")
        decryptor = self._blocks.decryptor()
        block = decryptor.update(data) + decryptor.finalize()
        if block[0] >= len(block):
            raise DamagedError("an endpoint of another cluster, or damaged")
        try:
            return Endpoint.FromString(block[1 : 1 + block[0]])
        except DecodeError:
            raise DamagedError("no endpoint") from None
