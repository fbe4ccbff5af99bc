"""Releases, and what upgrades keep on a disk, are accepted, or refused in the one way they may be."""

import io
import json
import struct
import warnings
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509 import load_pem_x509_certificate
from tests.unit.pki.programs import make_program
from tests.unit.system.tpm.logs import measure_secure_boot, pack_log
from tests.unit.upgrade.release.releases import CONTENT, Tar, make_document

from talos.pki.authenticode import Trust, check_signature
from talos.secureboot.variables import make_signature_list
from talos.system.block.meta import COPY, make_meta, parse_meta
from talos.system.block.verity import HashTree
from talos.system.efi_signatures import parse_update
from talos.system.errors import UserError
from talos.system.pe import Program
from talos.system.tpm.event_log import parse_log, parse_variable
from talos.system.tpm.signed_policy import parse_image_policy
from talos.system.version import parse_os_release
from talos.upgrade.release.archive import MANIFEST, read_annotations
from talos.upgrade.release.initramfs import RELEASE, read_folder, read_initramfs
from talos.upgrade.release.layer import check_layer
from talos.upgrade.release.manifest import parse_release
from talos.upgrade.release.signature import sign, verify
from talos.upgrade.release.unpack import read_members
from talos.upgrade.slots.boot_entry import BootEntry, Partition, format_entry, parse_entry
from talos.upgrade.slots.grub.config import Entry, make_config, parse_config
from talos.upgrade.slots.grub.environment import Environment, make_environment, parse_environment
from talos.upgrade.slots.systemd_boot.settings import find_default
from talos.upgrade.slots.systemd_boot.unsealing import read_boots
from talos.upgrade.state import IDLE, find_slot, format_state, parse_state, stage

from .trial import Parser, check_parser

KEY = Ed25519PrivateKey.generate()
SIGNED = json.dumps(make_document()).encode()
STAGED = stage(IDLE, running="A", version="v1.16.0", previous_version="v1.15.0", checks=("apid",))
BOOT_ENTRY = BootEntry(
    description="Talos upgrade",
    partition=Partition(number=1, start=2048, size=204800, id=UUID(int=1)),
    path="/EFI/TALOS/GRUBX64.EFI",
)
ENTRIES = [Entry(slot=slot, version="v1.15.0", arguments=("pti=on",)) for slot in "AB"]

SIGNED_UKI, SIGNATURE = Path("tests/data/authenticode/signed.efi").read_bytes(), 2304
"""A program, and the bytes at its end that are its signature."""
MEASURED = Path("tests/data/measured-boot")
POLICY_KEY, POLICY = (MEASURED / "pcr-public-key.pem").read_bytes(), (MEASURED / "main.json").read_bytes()
PROFILES = [(".linux", b"kernel"), (".pcrpkey", POLICY_KEY), *[(".profile", b"ID"), (".pcrsig", POLICY)] * 2]
OWNER = load_pem_x509_certificate(Path("tests/data/authenticode/certificate.pem").read_bytes())
MEASURED_KEYS = measure_secure_boot(make_signature_list([OWNER], UUID(int=1)), b"", b"an entry")
UPDATE = bytes(16) + struct.pack("<I", 24) + bytes(20) + make_signature_list([OWNER], UUID(int=1))
"""Time, head and kind of a signature without one, and a list."""


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _read_cpio(data: bytes) -> int:
    pieces = (data[place : place + 1000] for place in range(0, len(data), 1000))
    return sum(len(b"".join(member.content)) for member in read_members(pieces))


def _verify(data: bytes) -> None:
    verify(SIGNED, _text(data), [KEY.public_key()])


def _parse_halves(data: bytes) -> None:
    """META's copies are large: what changes is its beginning, the rest is as it was written."""
    parse_meta((data + bytes(COPY))[:COPY] * 2)


def _check_program(data: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cryptography's, of certificates that it will refuse one day
        check_signature(Program(io.BytesIO(data), len(data)), Trust(trusted=[OWNER]))


def _read_boots(data: bytes) -> None:
    read_boots(Program(io.BytesIO(data), len(data)), "a UKI")


PARSERS: Mapping[str, Parser] = {
    "release manifest": Parser(parse=parse_release, seeds=[SIGNED]),
    "log of measurements": Parser(parse=parse_log, seeds=[pack_log(MEASURED_KEYS)], refusals=(UserError,)),
    "event of a variable": Parser(
        parse=parse_variable, seeds=[data for _, _, data in MEASURED_KEYS], refusals=(ValueError,)
    ),
    "update of a database": Parser(parse=parse_update, seeds=[UPDATE], refusals=(ValueError,)),
    "signature": Parser(parse=_verify, seeds=[sign(SIGNED, KEY).encode()]),
    "annotations": Parser(
        parse=lambda data: read_annotations({MANIFEST: _text(data)}, "image"), seeds=[b"e30=", b"!"]
    ),
    "upgrade in META": Parser(
        parse=parse_state, seeds=[format_state(IDLE), format_state(STAGED)], refusals=(ValueError,)
    ),
    "META": Parser(
        parse=_parse_halves,
        seeds=[make_meta({6: b"A", 64: b"{}"})[:512]],
        refusals=(ValueError,),
        examples=300,
    ),
    "grub.cfg": Parser(
        parse=lambda data: parse_config(_text(data)),
        seeds=[make_config(ENTRIES, "A").encode()],
        refusals=(ValueError,),
    ),
    "grubenv": Parser(
        parse=parse_environment,
        seeds=[make_environment(Environment(next_slot="B", count=2, by_trial_loader=True))],
        refusals=(ValueError,),
    ),
    "boot entry": Parser(parse=parse_entry, seeds=[format_entry(BOOT_ENTRY)], refusals=(ValueError,)),
    "booted slot": Parser(parse=lambda data: find_slot(_text(data)), seeds=[b"BOOT_IMAGE=/B/vmlinuz a b"]),
    "UKI": Parser(parse=_check_program, seeds=[SIGNED_UKI], refusals=(ValueError,)),
    "signature of a UKI": Parser(
        parse=lambda data: _check_program(SIGNED_UKI[:-SIGNATURE] + data.ljust(SIGNATURE, b"\0")[:SIGNATURE]),
        seeds=[SIGNED_UKI[-SIGNATURE:]],
        refusals=(ValueError,),
    ),
    "profiles of a UKI": Parser(
        parse=_read_boots, seeds=[make_program(PROFILES)], refusals=(UserError, ValueError), examples=1000
    ),
    "signed policy": Parser(parse=lambda data: parse_image_policy(POLICY_KEY, data, "x"), seeds=[POLICY]),
    "key of a signed policy": Parser(
        parse=lambda data: parse_image_policy(data, POLICY, "x"), seeds=[POLICY_KEY]
    ),
    "loader.conf": Parser(
        parse=lambda data: find_default(_text(data)),
        seeds=[b"timeout 3\ndefault talos-a.efi\n", b"default talos-b+1.efi@trial\n"],
        refusals=(ValueError,),
    ),
    "os-release": Parser(
        parse=lambda data: parse_os_release(_text(data)), seeds=[b'ID=talos\nVERSION_ID="1"']
    ),
}


@pytest.mark.parametrize("name", PARSERS)
def test_what_an_upgrade_reads(name: str) -> None:
    check_parser(PARSERS[name])


def test_an_initramfs(tmp_path: Path) -> None:
    for name in ("init", "image"):
        (tmp_path / name).write_bytes(name.encode() * 100)
    (tmp_path / "release").mkdir()
    (tmp_path / "release/os-release").write_text("ID=talos\n")
    archive = b"".join(read_initramfs(tmp_path / "init", tmp_path / "image", HashTree("0" * 64, b"tree")))
    release = b"".join(read_folder(tmp_path / "release", RELEASE))
    check_parser(Parser(parse=_read_cpio, seeds=[archive + bytes(8) + release, release]))


def test_a_layer(tmp_path: Path) -> None:
    files = [{"name": name, "size": len(data), "sha256": "0" * 64} for name, data in CONTENT.items()]
    release = parse_release(json.dumps(make_document(files=files)).encode())
    path = tmp_path / "layer"
    seed = Tar().add_all().write(path).read_bytes()

    def check(data: bytes) -> None:
        path.write_bytes(data)
        check_layer(path, release)

    check_parser(Parser(parse=check, seeds=[seed], refusals=(UserError,), examples=500))
