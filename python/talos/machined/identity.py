"""Who this machine is: a node id kept in STATE, and what follows from it."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml

FILE = "node-identity.yaml"
ID_BYTES = 32
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Identity:
    """The node id, in base62."""

    node_id: str

    @property
    def machine_id(self) -> str:
        """/etc/machine-id: the id's first 16 bytes in hexadecimal."""
        return _decode(self.node_id)[:16].hex()

    @property
    def hostname(self) -> str:
        """The name of a machine that nobody named: ``talos-xxx-yyy``."""
        number = int.from_bytes(hashlib.sha256(self.node_id.encode()).digest()[:8])
        digits = ""
        while number:
            number, digit = divmod(number, 36)
            digits = _BASE36[digit] + digits
        digits = digits.rjust(13, "0")
        return f"talos-{digits[1:4]}-{digits[4:7]}"


def load_identity(state_dir: Path) -> Identity:
    """The identity in STATE, a new one the first time; one that can't be read is an error."""
    path = state_dir / FILE
    try:
        content = cast("dict[str, str]", yaml.safe_load(path.read_text(encoding="utf-8")))
        return Identity(str(content["nodeId"]))
    except FileNotFoundError:
        identity = Identity(_encode(os.urandom(ID_BYTES)))
    temporary = path.with_suffix(".new")
    temporary.write_text(f"nodeId: {identity.node_id}\n", encoding="ascii")
    temporary.chmod(0o600)
    temporary.replace(path)
    return identity


def _encode(raw: bytes) -> str:
    number = int.from_bytes(raw)
    text = ""
    while number:
        number, digit = divmod(number, 62)
        text = _BASE62[digit] + text
    return text


def _decode(text: str) -> bytes:
    number = 0
    for character in text:
        number = number * 62 + _BASE62.index(character)
    return number.to_bytes(ID_BYTES)
