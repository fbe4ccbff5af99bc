"""What nodes publish, encrypted, read by others, and damaged on the way."""

from contextlib import suppress

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from talos.api.discovery.affiliate_pb2 import Affiliate, Endpoint
from talos.clusterd.discovery.cipher import DamagedError, PayloadCipher
from talos.system.errors import UserError

KEY = bytes(range(32))
CIPHER = PayloadCipher(KEY)


def packed(text: str) -> bytes:
    return bytes(map(int, text.split(".")))


def test_data_are_a_nonce_then_gcm() -> None:
    affiliate = Affiliate(node_id="one", hostname="node-1")
    data = CIPHER.seal(affiliate)
    assert AESGCM(KEY).decrypt(data[:12], data[12:], None) == affiliate.SerializeToString()
    assert len(data) == 12 + len(affiliate.SerializeToString()) + 16
    assert CIPHER.seal(affiliate) != data
    assert CIPHER.open(data) == affiliate


def test_an_endpoint_is_length_message_and_zeros_in_blocks() -> None:
    for endpoint in (Endpoint(ip=packed("192.0.2.1"), port=51820), Endpoint(ip=bytes(range(16)), port=51820)):
        data = CIPHER.seal_endpoint(endpoint)
        decryptor = Cipher(algorithms.AES(KEY), modes.ECB()).decryptor()
        plain = decryptor.update(data)
        message = endpoint.SerializeToString()
        assert plain == (bytes([len(message)]) + message).ljust(len(data), b"\0")
        assert len(data) in {16, 32}
        assert CIPHER.seal_endpoint(endpoint) == data, "the server merges what is the same"
        assert CIPHER.open_endpoint(data) == endpoint


def test_the_length_of_an_endpoint_is_within_its_block() -> None:
    def seal(plain: bytes) -> bytes:
        return Cipher(algorithms.AES(KEY), modes.ECB()).encryptor().update(plain)

    endpoint = Endpoint(ip=bytes(13))
    message = endpoint.SerializeToString()
    assert len(message) == 15
    assert CIPHER.open_endpoint(seal(b"\x0f" + message)) == endpoint
    with pytest.raises(DamagedError, match="of another cluster, or damaged"):
        CIPHER.open_endpoint(seal(b"\x10" + message))
    with pytest.raises(DamagedError, match="no endpoint"):
        CIPHER.open_endpoint(seal(b"\x0f" + b"\xff" * 15))


@pytest.mark.parametrize("data", [b"", b"x", bytes(12), bytes(28), bytes(range(100)), bytes(range(256)) * 16])
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedError):
        CIPHER.open(data)


def test_another_cluster_s_data_are_refused() -> None:
    other = PayloadCipher(bytes(32))
    with pytest.raises(DamagedError, match="another cluster's secret"):
        CIPHER.open(other.seal(Affiliate(node_id="one")))
    sealed = AESGCM(KEY).encrypt(bytes(12), b"\xff\xff", None)
    with pytest.raises(DamagedError, match="no affiliate"):
        CIPHER.open(bytes(12) + sealed)


@pytest.mark.parametrize("data", [b"", b"x" * 15, bytes(16), bytes(range(32))])
def test_garbage_endpoints_never_crash(data: bytes) -> None:
    with suppress(DamagedError):
        assert isinstance(CIPHER.open_endpoint(data), Endpoint)


def test_a_key_of_another_length_is_the_user_s_mistake() -> None:
    with pytest.raises(UserError, match="the cluster's secret: has 5 bytes instead of 32"):
        PayloadCipher(b"short")
