"""AES-SIV: the part of our own agrees with the library's."""

import pytest

from talos.timed.nts.siv import KEY, TAG, decrypt, encrypt

KEYS = bytes(range(KEY))


def test_the_vector_of_the_rfc() -> None:
    # RFC 5297, appendix A.1
    key = bytes.fromhex("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    data = bytes.fromhex("101112131415161718191a1b1c1d1e1f2021222324252627")
    text = bytes.fromhex("112233445566778899aabbccddee")
    sealed = encrypt(key, text, [data])
    assert sealed.hex() == "85632d07c6e8f37f950acd320a2ecc9340c02b9690c4dc04daef7f6afe5c"
    assert decrypt(key, sealed, [data]) == text


@pytest.mark.parametrize("text", [b"", b"cookie"])
def test_any_change_is_noticed(text: bytes) -> None:
    sealed = encrypt(KEYS, text, [b"packet", b"nonce"])
    assert len(sealed) == len(text) + TAG
    assert decrypt(KEYS, sealed, [b"packet", b"nonce"]) == text
    assert decrypt(KEYS, sealed, [b"packet", b"nonsense"]) is None
    assert decrypt(KEYS, sealed[:-1] + bytes([sealed[-1] ^ 1]), [b"packet", b"nonce"]) is None
    assert decrypt(KEYS, sealed[: TAG - 1], [b"packet", b"nonce"]) is None
