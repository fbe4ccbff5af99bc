"""Keys of WireGuard: Curve25519, in base64 as the field writes them.

make_private_key() -> "YCmmKPQTPPGiTi3w4eTD+cBzPTOTUg3pdO4ERlDgDWs="
make_public_key(private) -> "vCciBo2XSigSQtRbo66UZkwLO2wnCuifIgw7qmHxyBg="
"""

from base64 import b64decode, b64encode

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

KEY_BYTES = 32


def make_private_key() -> str:
    """A new one."""
    return b64encode(X25519PrivateKey.generate().private_bytes_raw()).decode()


def make_public_key(private_key: str) -> str:
    """The public half; ValueError, which does not show the key."""
    if not is_key(private_key):
        raise ValueError(f"is no key of {KEY_BYTES} bytes in base64")
    key = X25519PrivateKey.from_private_bytes(b64decode(private_key))
    return b64encode(key.public_key().public_bytes_raw()).decode()


def is_key(text: str) -> bool:
    """Whether this is a key in its one form: what differs from it would be another id for the same key."""
    try:
        key = b64decode(text, validate=True)
    except ValueError:
        return False
    return len(key) == KEY_BYTES and b64encode(key).decode() == text
