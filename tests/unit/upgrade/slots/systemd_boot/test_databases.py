"""Releases that add to the databases of Secure Boot: whom firmware trusts, and what it starts no more."""

import errno
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from uuid import UUID

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.unit.disks.install.test_release import make_release

from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType
from talos.pki.signer import FileSigner
from talos.secureboot.signed_data import SigningPair
from talos.secureboot.variables import (
    DATABASE,
    REVOKED,
    Variable,
    make_authenticated,
    make_digest_list,
    make_signature_list,
)
from talos.system.efi_signatures import parse_signatures
from talos.system.efi_variables import EfiVariables
from talos.system.errors import UserError
from talos.system.pe import Program
from talos.upgrade.session import Upgrades
from talos.upgrade.slots.systemd_boot.entry import LOADER_PATH

from .machine import Machine, make_machine

DATA = Path("tests/data/authenticode")
SIGNED = (DATA / "signed.efi").read_bytes()
"""By the owner; as a UKI, it is v1.15.3."""
OWNER = x509.load_pem_x509_certificate((DATA / "certificate.pem").read_bytes())
BY = UUID(int=1)


@cache
def make_other() -> CertificateAuthority:
    return CertificateAuthority.generate(KeyType.RSA4096, common_name="Other", ttl=timedelta(days=1))


@dataclass(frozen=True, slots=True)
class Databases(EfiVariables):
    """Those of a firmware: it adds to them, and compares no signature; ``refused`` is not added to."""

    refused: str = ""

    def append(self, name: str, update: bytes) -> None:
        if name == self.refused:
            raise OSError(errno.EACCES, "Permission denied")
        before = self.read(name) or b""
        (value,) = (update[-size:] for size in range(len(update), 0, -1) if _is_list(update[-size:]))
        self.delete(name)
        self.make(name, before + value)


def _is_list(data: bytes) -> bool:
    try:
        return bool(parse_signatures(data))
    except ValueError:
        return False


def make_update(variable: Variable, value: bytes) -> bytes:
    other = make_other()
    assert isinstance(other.key, rsa.RSAPrivateKey)
    pair = SigningPair(certificate=other.certificate, signer=FileSigner(other.key))
    return make_authenticated(variable, value, pair, datetime(2026, 1, 1, tzinfo=UTC), append=True)


def trust(*certificates: x509.Certificate) -> bytes:
    return make_update(DATABASE, make_signature_list(certificates, BY))


def refuse(*certificates: x509.Certificate) -> bytes:
    return make_update(REVOKED, make_signature_list(certificates, BY))


def list_entries(machine: Machine, name: str) -> list[bytes]:
    return [entry.data for entry in parse_signatures(machine.firmware.databases.read(name) or b"")]


def encode(certificate: x509.Certificate) -> bytes:
    (entry,) = parse_signatures(make_signature_list([certificate], BY))
    return entry.data


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_secure_machine(tmp_path)


def make_secure_machine(tmp_path: Path) -> Machine:
    """With Secure Boot, and the owner's certificate in ``db``."""
    machine = make_machine(tmp_path)
    root = machine.target.root("EFI")
    for path in ("EFI/Linux/talos-a.efi", LOADER_PATH):
        (root / path).write_bytes(SIGNED)
    databases = Databases(tmp_path / "variables", "databases")
    databases.make("db", make_signature_list([OWNER], BY))
    machine.firmware.settings.make("SecureBoot", b"\1")
    machine.firmware = replace(machine.firmware, databases=databases)
    return machine


async def upgrade(machine: Machine, upgrades: Upgrades, uki: bytes = SIGNED, **updates: bytes) -> None:
    folder = machine.folder / "release"
    folder.mkdir()
    files = {"vmlinuz.efi": uki} | {f"{name}.auth": update for name, update in updates.items()}
    install = await upgrades.prepare(make_release(folder, files, "v1.15.3"))
    await install(machine.lines.append)


async def test_what_is_signed_by_a_certificate_that_the_release_adds(machine: Machine) -> None:
    machine.firmware.databases.delete("db")
    machine.firmware.databases.make("db", make_signature_list([make_other().certificate], BY))
    with pytest.raises(UserError, match="whose certificate the firmware does not have"):
        await upgrade(machine, await machine.boot())
    (machine.folder / "release").rename(machine.folder / "refused")
    await upgrade(machine, await machine.boot(), db=trust(OWNER))
    assert list_entries(machine, "db") == [encode(make_other().certificate), encode(OWNER)]
    assert "adding to the firmware's database db" in machine.lines
    trial = await machine.boot()
    assert trial.running == "B"
    await trial.bless()


async def test_an_update_that_the_firmware_refuses_changes_nothing(machine: Machine) -> None:
    databases = machine.firmware.databases
    machine.firmware = replace(
        machine.firmware, databases=Databases(databases.folder, databases.vendor, refused="db")
    )
    reason = "image installer:v1.15.3: the firmware does not take the update of db: Permission denied"
    with pytest.raises(UserError, match=reason):
        await upgrade(machine, await machine.boot(), db=trust(make_other().certificate))
    assert not (machine.target.root("EFI") / "EFI/Linux/talos-b.efi").exists()
    assert (await machine.boot()).running == "A"


async def test_what_is_trusted_already_is_not_added_again(machine: Machine) -> None:
    await upgrade(machine, await machine.boot(), db=trust(OWNER))
    assert list_entries(machine, "db") == [encode(OWNER)]


async def test_what_is_revoked_is_so_with_the_verdict(machine: Machine) -> None:
    other = make_other().certificate
    await upgrade(machine, await machine.boot(), dbx=refuse(other))
    trial = await machine.boot()
    assert list_entries(machine, "dbx") == []
    await trial.bless()
    assert list_entries(machine, "dbx") == [encode(other)]
    await (await machine.boot()).confirm()
    assert list_entries(machine, "dbx") == [encode(other)], "it is revoked once"
    assert not list(machine.target.root("EFI").glob("EFI/DBX/*"))


async def test_nothing_is_revoked_before_the_verdict_is_kept(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What META has not is on trial still, and may be reverted to the system of before."""
    await upgrade(machine, await machine.boot(), dbx=refuse(make_other().certificate))
    trial = await machine.boot()

    async def fail(upgrades: Upgrades, state: object) -> None:
        del upgrades, state
        await trio.lowlevel.checkpoint()
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Upgrades, "set", fail)
        with pytest.raises(OSError, match="Input/output"):
            await trial.bless()
    assert list_entries(machine, "dbx") == []
    await trial.bless()
    assert list_entries(machine, "dbx") == [encode(make_other().certificate)]


async def test_a_release_that_is_reverted_revokes_nothing(machine: Machine) -> None:
    await upgrade(machine, await machine.boot(), dbx=refuse(make_other().certificate))
    trial = await machine.boot()
    await trial.revert("a test")
    await (await machine.boot()).confirm()
    assert list_entries(machine, "dbx") == []


async def test_a_firmware_without_room_is_tried_at_the_next_start(machine: Machine) -> None:
    databases, other = machine.firmware.databases, make_other().certificate
    await upgrade(machine, await machine.boot(), dbx=refuse(other))
    full = Databases(databases.folder, databases.vendor, refused="dbx")
    machine.firmware = replace(machine.firmware, databases=full)
    await (await machine.boot()).bless()
    assert any("the firmware still starts what this release revokes" in line for line in machine.lines)
    machine.firmware = replace(machine.firmware, databases=databases)
    await (await machine.boot()).confirm()
    assert list_entries(machine, "dbx") == [encode(other)]


@pytest.mark.parametrize("kind", ["certificate", "program"])
async def test_a_release_that_revokes_itself_is_refused(machine: Machine, kind: str) -> None:
    update, reason = refuse(OWNER), "it is signed by CN=Ours, whose certificate is revoked"
    if kind == "program":
        path = DATA / "signed.efi"
        with path.open("rb") as file:
            digest = Program(file, len(SIGNED)).hash()
        update, reason = make_update(REVOKED, make_digest_list([digest], BY)), "it is revoked by its digest"
    with pytest.raises(UserError, match=f"vmlinuz.efi: Secure Boot is on: {reason}"):
        await upgrade(machine, await machine.boot(), dbx=update)


async def test_a_boot_loader_that_is_revoked_is_replaced_first(machine: Machine) -> None:
    """The present one is another's: as long as it is, nothing is revoked."""
    loader = machine.target.root("EFI") / LOADER_PATH
    loader.write_bytes(b"MZ of another")
    await upgrade(machine, await machine.boot(), dbx=refuse(make_other().certificate))
    await (await machine.boot()).bless()
    assert list_entries(machine, "dbx") == []
    loader.write_bytes(SIGNED)
    await (await machine.boot()).confirm()
    assert list_entries(machine, "dbx") == [encode(make_other().certificate)]


async def test_back_to_what_is_revoked_is_refused(machine: Machine) -> None:
    await upgrade(machine, await machine.boot())
    upgrades = await machine.boot()
    await upgrades.bless()
    machine.firmware.databases.append("dbx", refuse(OWNER))
    with pytest.raises(UserError, match="slot A: Secure Boot is on: it is signed by CN=Ours, whose"):
        await upgrades.roll_back()


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (b"short", "db.auth: is no signed update of db: 5 bytes are no signed update"),
        (bytes(40 << 10), "db.auth: has more than 32768 bytes"),
        (bytes(64), "db.auth: is no signed update of db: its signature has 0 bytes, the file 64"),
        (bytes(16) + b"\x10\0\0\0" + bytes(12), "db.auth: is no signed update of db: it has no entries"),
    ],
)
async def test_what_is_no_update(machine: Machine, update: bytes, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        await upgrade(machine, await machine.boot(), db=update)
