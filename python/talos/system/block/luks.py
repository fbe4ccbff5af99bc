"""Encrypted devices by Debian's ``cryptsetup``, in the order of arguments that upstream's nodes use.

The program runs through an injected function. Passphrases reach it on its standard input only. Headers that
are being made, and those that a device is opened by, are files in memory.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from talos.system.block.luks_header import (
    DATA_OFFSET,
    KMS_TOKEN,
    NEXT_TOKEN,
    SECTOR,
    LuksHeader,
    NextKey,
    make_token,
)
from talos.system.block.partitions import Run
from talos.system.errors import UserError
from talos.system.process import Finished, find_line

CRYPTSETUP = "/usr/sbin/cryptsetup"
DEFAULT_CIPHER = "aes-xts-plain64"
_KEY_BITS = {DEFAULT_CIPHER: 512}
_OTHER_KEY_BITS = 256
_SLOT_CIPHER = (f"--keyslot-cipher={DEFAULT_CIPHER}", "--keyslot-key-size=512")
"""Of the key slots, whatever the data's is: cryptsetup itself has no Adiantum."""
_OF_RANDOM_KEY = ("--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000")
"""The derivation for a passphrase that can't be guessed: the fewest iterations that there are."""
_DEVICES = Path("/sys/block")
_NO_KEY = 2
_NO_SLOT = "No usable keyslot is available."
_NO_TOKEN = ("is not in use", "Failed to get token")


class KeyRejectedError(UserError):
    """The passphrase does not open the slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LuksOptions:
    """How a device is encrypted and opened. Zero and the empty text are the default."""

    cipher: str = ""
    key_bits: int = 0
    sector_size: int = 0
    performance: tuple[str, ...] = ()
    allow_discards: bool = False


@contextmanager
def hold_in_memory(data: bytes = b"") -> Generator[str]:
    """The path of a file in memory with a header, or with room for one."""
    descriptor = os.memfd_create("talos-luks", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, DATA_OFFSET)
        done = 0
        while done < len(data):
            done += os.pwrite(descriptor, data[done:], done)
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


class Luks:
    """Calls of cryptsetup, one after the other. KeyRejectedError, UserError with the program's last line."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = trio.Lock()
        """Two that change a header at once would each write what it has read: the last one would count."""

    async def format(
        self,
        device: str,
        header: str,
        slot: int,
        key: bytes,
        options: LuksOptions,
        *,
        is_random: bool = False,
    ) -> None:
        """Make a header with one key in a file; of the device only the size is read."""
        cipher = options.cipher or DEFAULT_CIPHER
        sector = [f"--sector-size={options.sector_size}"] if options.sector_size else []
        argv = [
            *("luksFormat", "-q", "--type", "luks2", "--header", header),
            *("--offset", str(DATA_OFFSET // SECTOR), "--key-file=-", f"--keyfile-size={len(key)}"),
            *("-c", cipher, device, f"--key-slot={slot}", f"--key-size={_find_key_bits(options)}", *sector),
            *_SLOT_CIPHER,
            *_make_derivation(is_random=is_random),
        ]
        await self._call(argv, key, device)

    async def open(
        self, device: str, name: str, header: LuksHeader, slot: int, key: bytes, options: LuksOptions
    ) -> str:
        """Open by a header that was checked; the mapped device."""
        with hold_in_memory(header.data) as copy:
            return await self.open_by(device, name, copy, slot, key, options)

    async def open_by(
        self, device: str, name: str, header: str, slot: int, key: bytes, options: LuksOptions
    ) -> str:
        """Open by the header in a file; the mapped device."""
        discards = ["--allow-discards"] if options.allow_discards else []
        argv = [
            *("luksOpen", device, name, f"--header={header}", "--key-file=-", f"--keyfile-size={len(key)}"),
            *(f"--key-slot={slot}", *_make_performance(options), *discards),
        ]
        await self._call(argv, key, device)
        mapped = find_mapped(name)
        if not mapped:
            raise UserError(f"{name} is not there after it was opened", where=device)
        return mapped

    async def test(self, header: str, slot: int, key: bytes) -> bool:
        """Whether a passphrase opens a slot."""
        argv = [
            *("luksOpen", "--test-passphrase", header, "--key-file=-", f"--keyfile-size={len(key)}"),
            f"--key-slot={slot}",
        ]
        try:
            await self._call(argv, key, header)
        except KeyRejectedError:
            return False
        return True

    async def add(self, header: str, key: bytes, slot: int, added: bytes, *, is_random: bool = False) -> None:
        """Add a key to a free slot, with one that is there."""
        argv = [
            *("luksAddKey", "-q", header, "--key-file=-", f"--keyfile-size={len(key)}"),
            *("--new-keyfile=-", f"--new-keyfile-size={len(added)}"),
            *(f"--key-slot={slot}", *_SLOT_CIPHER, *_make_derivation(is_random=is_random)),
        ]
        await self._call(argv, key + added, header)

    async def change(
        self, header: str, slot: int, key: bytes, new: bytes, *, is_random: bool = False
    ) -> None:
        """Replace the key of a slot; a power cut leaves either of them."""
        argv = [
            *("luksChangeKey", "-q", header, "--key-file=-", f"--keyfile-size={len(key)}"),
            *(f"--new-keyfile-size={len(new)}", f"--key-slot={slot}", *_SLOT_CIPHER),
            *(*_make_derivation(is_random=is_random), "-"),
        ]
        await self._call(argv, key + new, header)

    async def remove(self, header: str, slot: int, key: bytes) -> None:
        """Destroy a slot, with the key of another one, and its token."""
        argv = ["luksKillSlot", "-q", header, str(slot), "--key-file=-", f"--keyfile-size={len(key)}"]
        await self._call(argv, key, header)
        await self.remove_token(header, slot)

    async def write_token(self, header: str, slot: int, sealed: bytes, *, kind: str = KMS_TOKEN) -> None:
        """Keep a slot's sealed key in the header."""
        await self._import_token(header, slot, make_token(kind, slot, sealed))

    async def write_next_key(self, header: str, place: int, key: NextKey) -> None:
        """Keep a slot's key for a start to come in a token of its own."""
        await self._import_token(header, place, make_token(NEXT_TOKEN, key.slot, key.sealed))

    async def _import_token(self, header: str, place: int, token: bytes) -> None:
        argv = ["token", "import", "-q", header, "--token-id", str(place), "--json-file=-", "--token-replace"]
        await self._call(argv, token, header)

    async def remove_token(self, header: str, place: int) -> None:
        """Remove a token, if it is there: a slot's has its number."""
        done = await self._start(["token", "remove", "--token-id", str(place), header], b"")
        if done.code and not any(text in find_line(done, -1) for text in _NO_TOKEN):
            raise _make_error("token", done, header)

    async def close(self, name: str) -> None:
        """Close a mapped device; nothing when it is not open."""
        if find_mapped(name):
            await self._call(["luksClose", name], b"", name)

    async def _call(self, argv: Sequence[str], stdin: bytes, where: str) -> Finished:
        done = await self._start(argv, stdin)
        if done.code == _NO_KEY or (done.code and find_line(done, -1) == _NO_SLOT):
            raise KeyRejectedError("encryption key rejected", where=where)
        if done.code:
            raise _make_error(argv[0], done, where)
        return done

    async def _start(self, argv: Sequence[str], stdin: bytes) -> Finished:
        async with self._lock:
            return await self._run([CRYPTSETUP, *argv, "--disable-locks"], stdin)


def find_mapped(name: str) -> str:
    """The device of a mapping, such as ``/dev/dm-1``; empty when there is none."""
    for folder in sorted(_DEVICES.glob("dm-*")):
        try:
            if (folder / "dm" / "name").read_text(encoding="utf-8").strip() == name:
                return f"/dev/{folder.name}"
        except OSError:  # it has just gone
            continue
    return ""


def find_lower_devices(mapped: str) -> tuple[str, ...]:
    """The devices that a mapped device lies on; none for any other."""
    try:
        return tuple(f"/dev/{path.name}" for path in (_DEVICES / Path(mapped).name / "slaves").iterdir())
    except OSError:
        return ()


def _find_key_bits(options: LuksOptions) -> int:
    return options.key_bits or _KEY_BITS.get(options.cipher or DEFAULT_CIPHER, _OTHER_KEY_BITS)


def _make_derivation(*, is_random: bool) -> Sequence[str]:
    """For what a person may have chosen it is the default, argon2id."""
    return _OF_RANDOM_KEY if is_random else ()


def _make_performance(options: LuksOptions) -> list[str]:
    return [f"--perf-{option}" for option in options.performance]


def _make_error(command: str, done: Finished, where: str) -> UserError:
    return UserError(f"cryptsetup {command} ended with {done.code}: {find_line(done, -1)}", where=where)
