"""LUKS2 headers by the real cryptsetup, in files: made, published, changed, refused, destroyed."""

import hashlib
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.system.block.tools import run_tool

from talos.system.block.blkid import probe
from talos.system.block.luks import KeyRejectedError, Luks, LuksOptions, hold_in_memory
from talos.system.block.luks_header import (
    DATA_OFFSET,
    MARK,
    SECTOR,
    TPM_TOKEN,
    NextKey,
    measure_keys,
    publish_header,
    read_header,
    write_mark,
)
from talos.system.block.partitions import write_table
from talos.system.block.wipe import WipeMethod, wipe_device, wipe_edges
from talos.system.errors import UserError
from talos.system.process import Finished

MIB = 1 << 20
SIZE = 24 * MIB
SECOND = 16384
"""Where the second copy of a header begins."""
QUICK = ("--pbkdf-force-iterations=4", "--pbkdf-memory=32", "--pbkdf-parallel=1")
"""A weak derivation of keys: it is not what is tested."""
OPTIONS = LuksOptions()


async def run(argv: Sequence[str], stdin: bytes) -> Finished:
    makes_key = argv[1] in {"luksFormat", "luksAddKey", "luksChangeKey"}
    more = QUICK if makes_key and "--pbkdf=pbkdf2" not in argv else ()
    return await run_tool([*argv, *more], stdin)


@pytest.fixture
def luks() -> Luks:
    return Luks(run)


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "device"
    with path.open("wb") as file:
        file.truncate(SIZE)
    return path


def read(path: Path) -> bytes:
    return path.read_bytes()


async def make(luks: Luks, device: Path, options: LuksOptions = OPTIONS) -> bytes:
    """A header with the keys ``one`` in slot 0 and ``two`` in slot 3."""
    with hold_in_memory() as header:
        await luks.format(str(device), header, 0, b"one", options)
        await luks.add(header, b"one", 3, b"two")
        data = read(Path(header))
    write_mark(str(device))
    return data


async def test_a_header_is_made_beside_its_device_and_published(luks: Luks, device: Path) -> None:
    data = await make(luks, device)
    assert read(device)[: 2 * SECTOR] == MARK + bytes(SECTOR)
    assert probe(device).name == ""
    publish_header(str(device), data)
    header = read_header(str(device))
    assert (header.slots, header.data) == ((0, 3), data)
    assert len(data) == DATA_OFFSET
    assert probe(device).name == "crypto_LUKS"
    assert await luks.test(str(device), 3, b"two")
    assert not await luks.test(str(device), 0, b"two")


async def test_a_device_has_no_header_before_the_last_write(
    luks: Luks, device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a record of all writes: what a power cut leaves after each of them."""
    data = await make(luks, device)
    states: list[bytes] = []

    def record(_: int) -> None:
        states.append(device.read_bytes())

    monkeypatch.setattr(os, "fsync", record)
    publish_header(str(device), data)
    begin, first, second = (state[: SECOND + SECTOR] for state in states)
    assert begin[:SECTOR] == MARK
    assert not any(begin[SECOND:])
    assert first[:6] == data[:6]
    assert not any(first[SECOND:])
    assert second == data[: SECOND + SECTOR]
    copy = device.with_name("copy")
    copy.write_bytes(states[0])
    assert probe(copy).name == ""
    copy.write_bytes(states[1])
    assert read_header(str(copy)).slots == (0, 3), "one copy is enough"


async def test_keys_for_starts_to_come_are_beside_the_slots(luks: Luks, device: Path) -> None:
    publish_header(str(device), await make(luks, device))
    path, data = str(device), {"pcrs": [7], "policy_hash": "x" * 600}
    await luks.write_token(path, 3, json.dumps(data).encode(), kind=TPM_TOKEN)
    keys = [NextKey(3, json.dumps(data).encode()) for _ in range(3)]
    places = (before := read_header(path)).find_places(keys)
    assert places == [31, 30, 29]
    for place, key in zip(places, keys, strict=True):
        await luks.write_next_key(path, place, key)
    header = read_header(path)
    assert before.sealed_by_tpm == header.sealed_by_tpm
    assert [json.loads(each) for each in header.list_sealed_by_tpm(3)] == [data | {"keyslots": [3]}] * 4
    assert header.list_sealed_by_tpm(0) == []
    await luks.remove_token(path, 30)
    assert sorted(read_header(path).next_keys) == [29, 31]
    assert await luks.test(path, 3, b"two"), "no key is changed"


async def test_a_header_is_filled_to_its_last_byte(luks: Luks, device: Path) -> None:
    publish_header(str(device), await make(luks, device))
    path, key = str(device), NextKey(0, json.dumps({"policy_hash": "x" * 900}).encode())
    header = read_header(path)
    while True:
        try:
            (place,) = header.find_places([key])
        except UserError:
            break
        await luks.write_next_key(path, place, key)
        after = read_header(path)
        assert header.room - after.room <= 1010, "as many bytes as were counted"
        header = after
    assert 8 < len(header.next_keys) < 20
    with pytest.raises(UserError, match="cryptsetup token ended with"):
        await luks.write_next_key(path, 1, key)


async def test_keys_are_changed_and_removed(luks: Luks, device: Path) -> None:
    publish_header(str(device), await make(luks, device))
    path = str(device)
    await luks.change(path, 0, b"one", b"three")
    assert await luks.test(path, 0, b"three")
    assert not await luks.test(path, 0, b"one")
    await luks.write_token(path, 3, b"old")
    await luks.write_token(path, 3, b"x")
    token = read_json(device)["tokens"]["3"]
    assert token == {"type": "sideroKMS", "keyslots": [], "UserData": {"sealedData": "eA=="}}
    assert read_header(path).sealed == {3: b"x"}
    await luks.write_token(path, 3, b'{"pcrs": [7]}', kind=TPM_TOKEN)
    token = read_json(device)["tokens"]["3"]
    assert token == {"type": "talos-tpm2", "keyslots": [], "UserData": {"keyslots": [3], "pcrs": [7]}}
    header = read_header(path)
    assert (header.sealed, json.loads(header.sealed_by_tpm[3])) == ({}, token["UserData"])
    await luks.remove(path, 3, b"three")
    assert read_header(path).slots == (0,)
    assert read_json(device)["tokens"] == {}
    with pytest.raises(KeyRejectedError, match="encryption key rejected"):
        await luks.add(path, b"wrong", 4, b"x")
    with pytest.raises(UserError, match="cryptsetup luksAddKey ended with 1: Key slot 0 is full"):
        await luks.add(path, b"three", 0, b"x")


@pytest.mark.parametrize(
    ("options", "cipher", "sector"),
    [
        (LuksOptions(sector_size=512), "aes-xts-plain64", 512),
        (LuksOptions(key_bits=256, sector_size=4096), "aes-xts-plain64", 4096),
    ],
)
async def test_options(luks: Luks, device: Path, options: LuksOptions, cipher: str, sector: int) -> None:
    publish_header(str(device), await make(luks, device, options))
    segment = read_json(device)["segments"]["0"]
    assert (segment["encryption"], segment["sector_size"]) == (cipher, sector)
    assert read_json(device)["keyslots"]["0"]["key_size"] == (options.key_bits or 512) // 8


async def test_a_key_that_can_not_be_guessed_has_the_quick_derivation(luks: Luks, device: Path) -> None:
    with hold_in_memory() as header:
        await luks.format(str(device), header, 0, b"r" * 44, OPTIONS, is_random=True)
        await luks.add(header, b"r" * 44, 1, b"s" * 44, is_random=True)
        await luks.add(header, b"r" * 44, 2, b"chosen")
        await luks.change(header, 1, b"s" * 44, b"t" * 44, is_random=True)
        publish_header(str(device), read(Path(header)))
    slots = read_json(device)["keyslots"]
    found = [(slots[slot]["kdf"]["type"], slots[slot]["kdf"].get("iterations")) for slot in "012"]
    assert found == [("pbkdf2", 1000), ("pbkdf2", 1000), ("argon2id", None)]
    assert read_header(str(device)).slots == (0, 1, 2)
    assert await luks.test(str(device), 1, b"t" * 44)


def read_json(device: Path) -> Any:
    return json.loads(device.read_bytes()[4096:SECOND].rstrip(b"\0"))


def set_value(parsed: Any, path: str, value: object) -> None:
    *folders, name = path.split("/")
    for folder in folders:
        parsed = parsed[folder]
    parsed[name] = value


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("segments/0/encryption", "cipher_null-ecb", "the cipher 'cipher_null-ecb'"),
        ("segments/0/flags", ["in-reencryption"], "the segment is of another kind"),
        ("segments/0/type", "linear", "the segment is of another kind"),
        ("segments/0/offset", "0", "the data begin at byte 0"),
        ("segments/0/offset", str(1 << 40), "the data begin at byte"),
        ("segments/0/offset", math.inf, "infinity"),
        ("segments/1", {}, "not exactly one segment"),
        ("keyslots/0/kdf/type", "none", "key slot 0 is of another kind"),
        ("keyslots/0/area/encryption", "null", "key slot 0 has the cipher 'null'"),
        ("keyslots", {}, "there is no key slot"),
        ("keyslots", None, "NoneType"),
        ("tokens", [1], "list"),
        ("tokens/0", {"type": "sideroKMS"}, "UserData"),
        ("tokens/0", {"type": "talos-tpm2", "UserData": "x" * 5000}, "token 0 has 5002 bytes"),
        ("tokens/0", {"type": "sideroKMS", "UserData": {"sealedData": "-"}}, "base64|padding"),
        ("tokens/0", {"type": "sideroKMS", "UserData": {"sealedData": ""}}, "token 0 has 0 bytes"),
    ],
)
async def test_a_forged_header_is_refused(
    luks: Luks, device: Path, path: str, value: object, reason: str
) -> None:
    """With a checksum that is right."""
    publish_header(str(device), await make(luks, device))
    parsed = read_json(device)
    set_value(parsed, path, value)
    write_json(device, json.dumps(parsed).encode())
    with pytest.raises(UserError, match=f"the LUKS2 header is not accepted: .*{reason}"):
        read_header(str(device))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"[" * 9000, b'{"keyslots": 5}', b"\xff"])
async def test_a_header_without_sense_is_refused(luks: Luks, device: Path, text: bytes) -> None:
    publish_header(str(device), await make(luks, device))
    write_json(device, text)
    with pytest.raises(UserError, match="the LUKS2 header is not accepted"):
        read_header(str(device))


def write_json(device: Path, text: bytes) -> None:
    """Replace the JSON of the first copy, and make it the newer one."""
    with device.open("r+b") as file:
        copy = bytearray(file.read(SECOND))
        copy[4096:] = text.ljust(SECOND - 4096, b"\0")
        copy[16:24] = (1000).to_bytes(8)
        copy[448:512] = bytes(64)
        copy[448:480] = hashlib.sha256(copy).digest()
        file.seek(0)
        file.write(copy)


async def test_a_damaged_copy_is_left_out_and_two_are_an_error(luks: Luks, device: Path) -> None:
    publish_header(str(device), await make(luks, device))
    flip(device, 5000)
    assert read_header(str(device)).slots == (0, 3)
    flip(device, SECOND + 5000)
    with pytest.raises(UserError, match="the LUKS2 header is damaged: no copy of it is whole"):
        read_header(str(device))


@pytest.mark.parametrize("cut", [0, SECTOR, 4096, 8192, SECOND, SECOND + SECTOR, SECOND + 4096])
@pytest.mark.parametrize("lost", [False, True])
async def test_a_header_that_was_being_written_is_whole(
    luks: Luks, device: Path, cut: int, *, lost: bool
) -> None:
    """A power cut while a key is added: what was written until then, with and without the sector it met."""
    publish_header(str(device), await make(luks, device))
    before = read(device)[: 2 * SECOND]
    await luks.add(str(device), b"one", 5, b"five")
    with device.open("r+b") as file:
        after = file.read(2 * SECOND)
        file.seek(0)
        file.write(after[:cut] + (bytes(SECTOR) if lost else b"") + before[cut + SECTOR * lost :])
    assert probe(device).name == "crypto_LUKS", "it is never taken for blank"
    slots = read_header(str(device)).slots
    assert slots in {(0, 3), (0, 3, 5)}
    with hold_in_memory(read_header(str(device)).data) as header:
        for slot, key in ((0, b"one"), (3, b"two"), (5, b"five")):
            assert slot not in slots or await luks.test(header, slot, key)


def flip(device: Path, place: int) -> None:
    with device.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))


async def test_erasing_destroys_every_key_slot(luks: Luks, device: Path) -> None:
    data = await make(luks, device)
    publish_header(str(device), data)
    assert any(data[3 * MIB // 4 : 2 * MIB]), "a slot lies beyond the first MiB"
    with device.open("r+b") as file:
        assert measure_keys(file.fileno(), MIB) == 0
        wipe_edges(file.fileno(), 0, SIZE)
    assert not any(read(device)[:DATA_OFFSET])


@pytest.mark.parametrize("method", WipeMethod)
async def test_erasing_a_disk_destroys_the_key_slots_of_its_partitions(
    luks: Luks, device: Path, method: WipeMethod
) -> None:
    header = await make(luks, device)
    await write_table(run, str(device), "label: gpt\n1 : start=2MiB, size=40MiB\n")
    with device.open("r+b") as file:
        file.seek(2 * MIB)
        file.write(header)
    wipe_device(str(device), method)
    assert not any(read(device)[: 2 * MIB + DATA_OFFSET])
