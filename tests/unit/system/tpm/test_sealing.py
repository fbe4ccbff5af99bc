"""Secrets sealed by a real TPM in software, opened by it after a restart, and by no other."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.system.tpm.software import SoftwareTpm, start

from talos.system.errors import UserError
from talos.system.tpm.commands import Tpm, Transmit, open_device
from talos.system.tpm.sealing import find_value, parse_sealed, seal, seal_for_values, unseal

SECRET = bytes(range(32))


@contextmanager
def boot(folder: Path, *, changed: tuple[int, ...] = ()) -> Generator[SoftwareTpm]:
    """A machine starts: what the firmware measures, and what was ``changed`` since."""
    with start(folder) as tpm:
        for pcr in (0, 4, 7):
            tpm.extend(pcr, b"other" if pcr in changed else b"usual")
        yield tpm


@pytest.fixture
def sealed(tmp_path: Path) -> bytes:
    with boot(tmp_path) as tpm:
        return seal(tpm.open(), SECRET, [7, 0])


def test_a_secret_is_opened_by_the_next_boot(sealed: bytes, tmp_path: Path) -> None:
    assert SECRET.hex().encode() not in sealed
    with boot(tmp_path, changed=(4,)) as tpm:
        for _ in range(8):  # a TPM has room for three objects and sessions
            assert unseal(tpm.open(), sealed) == SECRET


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ((7,), "PCR 7 has changed since the key was sealed"),
        ((0, 7), "PCRs 0, 7 have changed since the key was sealed"),
    ],
)
def test_a_changed_pcr_is_named(sealed: bytes, tmp_path: Path, changed: tuple[int, ...], text: str) -> None:
    with boot(tmp_path, changed=changed) as tpm, pytest.raises(UserError) as caught:
        unseal(tpm.open(), sealed)
    assert caught.value.message == text


def test_a_secret_is_sealed_for_a_value_to_come(sealed: bytes, tmp_path: Path) -> None:
    with boot(tmp_path, changed=(7,)) as tpm:
        (value,) = Tpm(tpm.transmit).read_pcrs([7]).values()
        with pytest.raises(UserError, match="PCR 7 has changed since the key was sealed"):
            seal_for_values(tpm.open(), SECRET, sealed, 7, [value])
    with boot(tmp_path) as tpm:
        other, later = seal_for_values(tpm.open(), SECRET, sealed, 7, [bytes(31) + b"x", value])
        for each in (other, later):
            with pytest.raises(UserError, match="PCR 7 has changed since the key was sealed"):
                unseal(tpm.open(), each)
    with boot(tmp_path, changed=(7,)) as tpm:
        assert unseal(tpm.open(), later) == SECRET
        with pytest.raises(UserError, match="PCR 7 has changed since the key was sealed"):
            unseal(tpm.open(), other)
    assert (find_value(later, 7), find_value(later, 4), find_value(b"{}", 7)) == (value, None, None)


def change(sealed: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(sealed), **fields}).encode()


def test_the_tpm_itself_refuses_what_a_changed_header_hides(sealed: bytes, tmp_path: Path) -> None:
    """The policy in the header may be another's: that which the TPM holds decides."""
    with boot(tmp_path, changed=(7,)) as tpm:
        now = json.loads(seal(tpm.open(), b"x", [7, 0]))
        lying = change(sealed, policy_hash=now["policy_hash"], pcr_values={})
        with pytest.raises(UserError, match="of the PCRs 0, 7 some have changed since the key was sealed"):
            unseal(tpm.open(), lying)
        assert unseal(tpm.open(), json.dumps(now).encode()) == b"x", "nothing is left open in it"


def test_another_tpm_opens_nothing(sealed: bytes, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with boot(tmp_path / "other") as tpm:
        with pytest.raises(UserError, match="it was sealed by another TPM, or this one was cleared since"):
            unseal(tpm.open(), sealed)
        name = json.loads(seal(tpm.open(), b"x", [0, 7]))["key_name"]
        with pytest.raises(UserError, match="what is sealed is not its own"):
            unseal(tpm.open(), change(sealed, key_name=name))


def test_pcrs_that_nothing_was_measured_into_are_refused(tmp_path: Path) -> None:
    with boot(tmp_path) as tpm:
        for pcrs, text in (
            ([8], "PCR 8 is all 0x00: nothing was measured into it"),
            ([17], "PCR 17 is all 0xff: nothing was measured into it"),
            ([], "it names no PCR"),
        ):
            with pytest.raises(UserError, match=text):
                seal(tpm.open(), SECRET, pcrs)


def test_all_pcrs_are_read(tmp_path: Path) -> None:
    with boot(tmp_path) as tpm:
        values = Tpm(tpm.transmit).read_pcrs(range(24))
    assert sorted(values) == list(range(24))
    assert values[4] == values[7] != values[5] == bytes(32)


def test_a_response_that_was_changed_on_the_bus_is_refused(sealed: bytes, tmp_path: Path) -> None:
    with boot(tmp_path) as tpm:
        secrets: list[bytes] = []

        def change_one(command: bytes) -> bytes:
            response = tpm.transmit(command)
            if command[6:10] == bytes.fromhex("0000015e"):
                secrets.append(response)
                return response[:20] + bytes([response[20] ^ 1]) + response[21:]
            return response

        @contextmanager
        def on_the_way() -> Generator[Transmit]:
            yield change_one

        with pytest.raises(UserError, match="a response was changed on its way"):
            unseal(on_the_way(), sealed)
    assert secrets
    assert SECRET not in secrets[0], "it is encrypted on the bus"


EMPTY = {
    "sealed_blob_private": "",
    "sealed_blob_public": "",
    "policy_hash": "",
    "key_name": "",
    "alg": "sha256",
}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([], "can't be read"),
        ({"alg": "sha256"}, "sealed_blob_private"),
        ({**EMPTY, "pcrs": [24]}, "there is no PCR 24"),
        ({**EMPTY, "pcrs": ["7"]}, "there is no PCR 7"),
        ({**EMPTY, "pcrs": [7.0]}, "there is no PCR 7.0"),
        ({**EMPTY, "pcr_values": {"7": "x"}}, "can't be read"),
        ({**EMPTY, "alg": "sha1"}, "it is bound to the bank 'sha1'"),
        ({**EMPTY, "pubkey_pcrs": [7, 11]}, r"a signed policy of the PCRs \[7, 11\]"),
        ({**EMPTY, "policy_hash": "-"}, "can't be read"),
        ({**EMPTY, "policy_hash": "A" * 4096}, "a part has 3072 bytes"),
    ],
)
def test_what_a_header_has_is_checked(data: Any, text: str) -> None:
    assert parse_sealed(json.dumps(EMPTY).encode()).pcrs == ()
    with pytest.raises(UserError, match=text):
        parse_sealed(json.dumps(data).encode())


def test_a_machine_without_a_tpm(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is none that the kernel has a driver for"):
        seal(open_device(str(tmp_path / "tpmrm0")), SECRET, [7])


@pytest.mark.parametrize("response", [b"", bytes(9), bytes.fromhex("80010000000a00000000"), bytes(4096)])
def test_a_response_that_is_none_is_an_error(response: bytes) -> None:
    with pytest.raises(UserError):
        Tpm(lambda _: response).read_pcrs([7])
