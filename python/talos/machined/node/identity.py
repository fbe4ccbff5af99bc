"""Who this machine is: a node id kept in STATE, and what follows from it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml

from talos.system.files import replace_durably

FILE = "node-identity.yaml"
ID_BYTES = 32
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Identity:
    """The node id, in base62."""

    node_id: str

    @property
    def machine_id(self) -> str:
        """/etc/machine-id: the id's first 16 bytes in hexadecimal."""
        return _decode(self.node_id)[:16].hex()


def make_identity() -> Identity:
    """A new one."""
    return Identity(_encode(os.urandom(ID_BYTES)))


def load_identity(state_dir: Path) -> Identity:
    """The identity in STATE, a new one the first time; one that can't be read is an error."""
    return keep_identity(state_dir, make_identity())


def keep_identity(state_dir: Path, identity: Identity) -> Identity:
    """The identity that counts: the one in STATE, else the given one, which is then kept there.

    OSError when STATE fails or is full, ValueError when what is there is no identity.
    """
    path = state_dir / FILE
    return _parse(keep_file(path, f"nodeId: {identity.node_id}\n"), path)


def keep_file(path: Path, text: str) -> str:
    """The text of a file in STATE; the given one, which is then kept there, the first time."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        pass
    replace_durably(path, [text.encode()], mode=0o600)
    return text


def _parse(text: str, path: Path) -> Identity:
    try:
        content = cast("dict[str, str]", yaml.safe_load(text))
        identity = Identity(str(content["nodeId"]))
        _ = identity.machine_id
    except (yaml.YAMLError, TypeError, KeyError, ValueError, OverflowError) as error:
        raise ValueError(f"{path}: no node id: {error}") from None
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
