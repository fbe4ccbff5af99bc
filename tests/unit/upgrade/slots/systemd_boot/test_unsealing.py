"""A release whose UKI would not open the volumes, by keys that a TPM in software has sealed."""

import io
import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.unit.pki.programs import make_program
from tests.unit.system.tpm.software import SoftwareTpm, start

from talos.pki.keys import public_key_to_pem
from talos.pki.signer import FileSigner
from talos.secureboot.sections import add_signed_policy
from talos.system.block.luks_header import LuksHeader
from talos.system.errors import UserError
from talos.system.pe import Program
from talos.system.tpm.sealing import seal
from talos.system.tpm.signed_policy import parse_image_policy, sign_values
from talos.system.tpm.uki import PCR, extend, hash_text
from talos.upgrade.slots.systemd_boot.forecast import Forecast, Start
from talos.upgrade.slots.systemd_boot.unsealing import check_volumes

OWNER, OTHER = (rsa.generate_private_key(65537, 2048) for _ in range(2))
WHERE = "image installer:v1.15.1: vmlinuz.efi"
UKI = make_program(
    [(".osrel", b"ID=talos\n"), (".initrd", b"0707"), (".profile", b"ID=main"), (".profile", b"ID=trial")],
    room=9,
)


def add_policy(folder: Path, key: rsa.RSAPrivateKey) -> bytes:
    (folder / "uki.efi").write_bytes(UKI)
    add_signed_policy(folder / "uki.efi", folder / "signed.efi", FileSigner(key))
    return (folder / "signed.efi").read_bytes()


@contextmanager
def boot(folder: Path) -> Generator[SoftwareTpm]:
    with start(folder) as tpm:
        for pcr in (4, 7, PCR):
            tpm.extend(pcr, b"usual")
        yield tpm


def seal_to(folder: Path, *pcrs: int, signed: bool = True) -> bytes:
    """A key of the image that runs, whose policy the owner has signed."""
    value = extend(bytes(32), hash_text("usual"))
    image = parse_image_policy(
        public_key_to_pem(OWNER),
        sign_values(FileSigner(OWNER), [value]),
        "the image",
    )
    with boot(folder) as tpm:
        return seal(tpm.open(), b"secret", pcrs, image if signed else None)


def make_header(sealed: Mapping[int, bytes], others: Sequence[int] = ()) -> LuksHeader:
    return LuksHeader(slots=(*sorted(sealed), *others), data=b"", sealed_by_tpm=sealed)


def check(data: bytes, headers: Mapping[str, LuksHeader]) -> None:
    check_volumes(Program(io.BytesIO(data), len(data)), headers, WHERE)


def test_an_image_that_the_key_has_signed(tmp_path: Path) -> None:
    image = add_policy(tmp_path, OWNER)
    for sealed in (seal_to(tmp_path), seal_to(tmp_path, 7), seal_to(tmp_path, 7, signed=False)):
        check(image, {"STATE": make_header({0: sealed})})


def test_an_image_that_opens_nothing_names_slot_and_pcr(tmp_path: Path) -> None:
    signed = seal_to(tmp_path, 7)
    for image, sealed, reason in (
        (UKI, signed, "the image has no signed policy of PCR 11"),
        (add_policy(tmp_path, OTHER), signed, "the image's policy of PCR 11 is signed by another key"),
        (
            add_policy(tmp_path, OWNER).replace(b"0707", b"0708"),
            signed,
            "PCR 11 will have a value that the image's key has not signed",
        ),
        (add_policy(tmp_path, OWNER), seal_to(tmp_path, 4), "PCR 4 is another one with each image"),
        (
            add_policy(tmp_path, OWNER),
            seal_to(tmp_path, 11, signed=False),
            "PCR 11 will not have the value that the slot is bound to",
        ),
    ):
        with pytest.raises(UserError, match=r"pcr-signing-key\.pem") as caught:
            check(image, {"EPHEMERAL": make_header({3: sealed}), "STATE": make_header({}, [0])})
        assert caught.value.message == f"it would not open the volume EPHEMERAL: slot 3 (tpm): {reason}"
        check(image, {"EPHEMERAL": make_header({3: sealed}, [4])})


def test_one_slot_that_opens_is_enough(tmp_path: Path) -> None:
    slots = {0: seal_to(tmp_path), 1: seal_to(tmp_path, 7, signed=False)}
    check(UKI, {"STATE": make_header(slots)})


def test_images_are_hashed_only_where_that_decides(tmp_path: Path) -> None:
    sealed = seal_to(tmp_path, 7, signed=False)
    check(b"no image", {"STATE": make_header({0: sealed}), "EPHEMERAL": make_header({}, [0])})


def test_what_a_header_or_an_image_has_is_checked(tmp_path: Path) -> None:
    image = add_policy(tmp_path, OWNER)
    damaged = json.dumps({}).encode()
    check(image, {"STATE": make_header({0: damaged})})
    reason = "slot 0 .tpm.: the sealed key in the header can't be read; slot 1 .tpm.: the image has no signed"
    with pytest.raises(UserError, match=reason):
        check(UKI, {"STATE": make_header({0: damaged, 1: seal_to(tmp_path)})})
    with pytest.raises(UserError, match=r"vmlinuz.efi: the signed policy of PCR 11 can't be read"):
        check(image.replace(b'"sha256"', b"'sha256'"), {"STATE": make_header({0: seal_to(tmp_path)})})


def test_other_keys_of_secure_boot_change_pcr_7(tmp_path: Path) -> None:
    image = add_policy(tmp_path, OWNER)
    forecast = Forecast(changed={7: "another one, as the release adds to db"})
    program = Program(io.BytesIO(image), len(image))
    bound = make_header({0: seal_to(tmp_path, 7)})
    reason = r"volume STATE: slot 0 \(tpm\): PCR 7 is another one, as the release adds to db"
    with pytest.raises(UserError, match=reason):
        check_volumes(program, {"STATE": bound}, WHERE, forecast)
    for header in (make_header({0: seal_to(tmp_path)}), make_header({0: seal_to(tmp_path, 7)}, [1])):
        check_volumes(program, {"STATE": header}, WHERE, forecast)


def test_each_start_needs_a_slot_that_opens(tmp_path: Path) -> None:
    """The system that runs goes on with what it has opened; of the other one PCR 11 counts as well."""
    image, value, other = add_policy(tmp_path, OWNER), extend(bytes(32), hash_text("usual")), bytes(range(32))
    starts = [Start(name="in the trial", value=value), Start(name="as now", value=other, is_present=True)]
    program = Program(io.BytesIO(image), len(image))

    def check_starts(*starts: Start, **slots: bytes) -> None:
        header = make_header({int(name[-1]): sealed for name, sealed in slots.items()})
        check_volumes(program, {"STATE": header}, WHERE, Forecast(starts=starts, value=value))

    usual, alone, foreign = (
        seal_to(tmp_path, 7),
        seal_to(tmp_path, 7, signed=False),
        json.dumps(json.loads(seal_to(tmp_path, 7)) | {"pcr_values": {"7": other.hex()}}).encode(),
    )
    check_starts(starts[0], slot_0=usual)
    with pytest.raises(UserError, match=f"slot 0 .tpm.: PCR 7 will be {other.hex()} as now; the slot is"):
        check_starts(*starts, slot_0=usual, slot_1=alone)
    check_starts(*starts, slot_0=usual, slot_1=foreign)
    with pytest.raises(UserError, match=r"slot 0 .tpm.: the image's policy of PCR 11 is signed by another"):
        check_starts(replace(starts[1], is_present=False), slot_0=foreign)


def test_the_policy_shows_what_a_key_without_values_is_bound_to(tmp_path: Path) -> None:
    """Upstream's have no values beside them."""
    image, value, other = add_policy(tmp_path, OWNER), extend(bytes(32), hash_text("usual")), bytes(range(32))
    program = Program(io.BytesIO(image), len(image))

    def check_start(start: bytes, key: bytes, now: bytes = value) -> None:
        forecast = Forecast(starts=[Start(name="in the trial", value=start)], value=now)
        sealed = {name: found for name, found in json.loads(key).items() if name != "pcr_values"}
        header = make_header({0: json.dumps(sealed).encode()})
        check_volumes(program, {"STATE": header}, WHERE, forecast)

    usual = seal_to(tmp_path, 7)
    check_start(value, usual)
    check_start(value, usual, now=other)
    for key in (usual, seal_to(tmp_path, 7, signed=False)):
        with pytest.raises(UserError, match=f"PCR 7 will be {other.hex()} .*bound to {value.hex()}"):
            check_start(other, key)
    image = add_policy(tmp_path, OTHER)
    program = Program(io.BytesIO(image), len(image))
    with pytest.raises(
        UserError, match=r"slot 0 .tpm.: it is bound to another key of policies of PCR 11, or"
    ):
        check_start(value, usual)
