"""Volumes whose keys are bound to PCR 7: which upgrades, rollbacks and revocations they forbid."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from tests.unit.disks.install.test_release import make_release
from tests.unit.system.tpm import logs

from talos.secureboot.variables import make_signature_list
from talos.system.block.luks_header import LuksHeader
from talos.system.errors import UserError
from talos.system.tpm.sealing import SealedSecret, format_sealed, make_policy
from talos.upgrade.slots.systemd_boot import unsealing
from talos.upgrade.slots.systemd_boot.entry import LOADER_PATH
from talos.upgrade.slots.systemd_boot.partition import EfiPartition
from talos.upgrade.slots.systemd_boot.release import check_release, check_slot
from talos.upgrade.slots.systemd_boot.revocation import revoke

from .machine import Machine
from .test_databases import BY, DATA, OWNER, SIGNED, make_other, make_secure_machine, refuse, trust
from .test_pcr7_model import OURS, THEIRS, find_entry

OTHER = make_other().certificate
DB, ADDED, REVOKED = (make_signature_list(each, BY) for each in ([OWNER], [OWNER, OTHER], [OTHER]))
NOW = logs.measure_secure_boot(DB, b"", OURS)
VALUE = logs.replay(NOW)
WITH_DB = logs.replay(logs.measure_secure_boot(ADDED, b"", OURS))
WITH_DBX = logs.replay(logs.measure_secure_boot(DB, REVOKED, OURS))
DEVICES = {"STATE": "/dev/vda5"}


def seal_to(value: bytes, *, is_known: bool = True) -> bytes:
    """What a slot has that is bound to this value of PCR 7; with ``is_known`` it has the value beside it."""
    values = {7: value}
    sealed = SealedSecret(
        private=b"",
        public=b"",
        pcrs=(7,),
        policy=make_policy(values, None),
        key_name=b"",
        values=values if is_known else {},
    )
    return format_sealed(sealed)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """With Secure Boot; it was measured, and slot A runs."""
    machine = make_secure_machine(tmp_path)
    measured = logs.measure(machine.folder / "measured", NOW)
    machine.firmware = replace(machine.firmware, measured=measured)
    machine.start()
    return machine


class Volume:
    """The encrypted volume of a machine, by what the TPM has sealed for its slots."""

    def __init__(self, machine: Machine, patch: pytest.MonkeyPatch) -> None:
        self._machine, self._patch = machine, patch
        self.partition = EfiPartition(machine.target, machine.firmware.loader)

    def seal(self, *sealed: bytes) -> None:
        header = LuksHeader(slots=tuple(range(len(sealed))), data=b"", sealed_by_tpm=dict(enumerate(sealed)))

        def read_header(device: str) -> LuksHeader:
            assert device == DEVICES["STATE"]
            return header

        self._patch.setattr(unsealing, "read_header", read_header)

    def check(self, loader: bytes = b"", **updates: bytes) -> None:
        """Whether a release that the owner has signed opens it."""
        folder = self._machine.folder / "release"
        folder.mkdir(exist_ok=True)
        files = {"vmlinuz.efi": SIGNED} | {f"{name}.auth": update for name, update in updates.items()}
        files |= {"systemd-boot.efi": loader} if loader else {}
        release = make_release(folder, files, "v1.15.3")
        check_release(release, self._machine.firmware, self.partition, DEVICES)

    def check_slot(self) -> None:
        check_slot("A", self._machine.firmware, self.partition, DEVICES)

    def revoke(self, update: bytes) -> Sequence[str]:
        """What is reported of it."""
        path = self._machine.target.root("EFI") / "EFI/DBX/SLOT-A"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(update)
        lines: list[str] = []
        revoke(self.partition, self._machine.firmware, "A", DEVICES, lines.append)
        return lines


@pytest.fixture
def volume(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Volume:
    found = Volume(machine, monkeypatch)
    found.seal(seal_to(VALUE))
    return found


def explain(value: bytes, start: str, reason: str = "", bound: bytes = VALUE) -> str:
    text = f"volume STATE: slot 0 .tpm.: PCR 7 will be {value.hex()} {start}{reason}"
    return f"{text}; the slot is bound to {bound.hex()}"


def test_what_leaves_pcr_7_as_it_is(volume: Volume) -> None:
    volume.check()
    volume.check(loader=SIGNED)
    volume.check(db=trust(OWNER), loader=SIGNED)
    volume.check_slot()
    volume.seal(seal_to(VALUE, is_known=False))
    volume.check(loader=SIGNED)


def test_an_update_names_the_values_before_and_after(volume: Volume) -> None:
    added = ", as the release adds to db"
    with pytest.raises(UserError, match=explain(WITH_DB, "in the trial", added)):
        volume.check(db=trust(OTHER))
    with pytest.raises(UserError, match=explain(WITH_DBX, "after the verdict", f"{added}x")):
        volume.check(dbx=refuse(OTHER))
    volume.seal(seal_to(VALUE, is_known=False))
    with pytest.raises(UserError, match=explain(WITH_DB, "in the trial", added)):
        volume.check(db=trust(OTHER))


def test_slots_for_all_values_are_enough(volume: Volume) -> None:
    volume.seal(seal_to(VALUE), seal_to(WITH_DB))
    volume.check(db=trust(OTHER))
    volume.seal(seal_to(WITH_DB))
    volume.check(db=trust(OTHER))
    with pytest.raises(UserError, match=explain(VALUE, "in the trial", bound=WITH_DB)):
        volume.check()
    volume.seal(seal_to(WITH_DBX))
    with pytest.raises(UserError, match=explain(VALUE, "in the trial", ", as .*", bound=WITH_DBX)):
        volume.check(dbx=refuse(OTHER))
    volume.seal(seal_to(VALUE), seal_to(WITH_DBX))
    volume.check(dbx=refuse(OTHER))


def test_databases_that_were_changed_since_the_start(machine: Machine, volume: Volume) -> None:
    """Of the next start the log is not true any more, whatever the release does."""
    machine.firmware.databases.append("dbx", refuse(OTHER))
    reason = ", as db or dbx was changed since this start"
    with pytest.raises(UserError, match=explain(WITH_DBX, "in the trial", reason)):
        volume.check()
    with pytest.raises(UserError, match=f"slot A: it .*{explain(WITH_DBX, 'at the next start', reason)}"):
        volume.check_slot()
    volume.seal(seal_to(WITH_DBX))
    volume.check()
    volume.check_slot()


def test_nothing_is_revoked_where_that_closes_a_volume(machine: Machine, volume: Volume) -> None:
    with pytest.raises(
        UserError, match=explain(WITH_DBX, "at the next start", ", as the release adds to dbx")
    ):
        volume.revoke(refuse(OTHER))
    assert not machine.firmware.databases.read("dbx")
    volume.seal(seal_to(WITH_DBX))
    assert len(volume.revoke(refuse(OTHER))) == 1
    assert machine.firmware.databases.read("dbx") == REVOKED


def test_a_boot_loader_of_another_certificate(machine: Machine, volume: Volume) -> None:
    """Firmware measures its certificate before the UKI's."""
    theirs = x509.load_pem_x509_certificate((DATA / "other-certificate.pem").read_bytes())
    both, databases = make_signature_list([OWNER, theirs], BY), machine.firmware.databases
    databases.delete("db")
    databases.make("db", both)
    logs.measure(machine.folder / "measured", logs.measure_secure_boot(both, b"", OURS))
    entries = [find_entry(theirs), OURS]
    value, other = (logs.replay(logs.measure_secure_boot(both, b"", *each)) for each in ([OURS], entries))
    volume.seal(seal_to(value))
    volume.check(loader=SIGNED)
    reason = explain(other, "in the trial", bound=value)
    with pytest.raises(UserError, match=reason):
        volume.check(loader=(DATA / "other.efi").read_bytes())
    volume.seal(seal_to(value), seal_to(other))
    with pytest.raises(
        UserError, match=r"slot 0 .*; slot 1 .tpm.: PCR 7 will be \w{64} in the trial; the slot"
    ):
        volume.check(loader=(DATA / "other.efi").read_bytes())  # or by OURS before THEIRS, for a card


@pytest.mark.parametrize("damage", ["missing", "other", "values", "damaged", "loader"])
def test_without_a_forecast_other_keys_are_refused(machine: Machine, volume: Volume, damage: str) -> None:
    boot = machine.firmware.measured
    match damage:
        case "missing":
            boot.log.unlink()
        case "other":
            logs.measure(machine.folder / "measured", logs.measure_secure_boot(DB, b"", THEIRS))
        case "values":
            (boot.values / "7").write_text(f"{WITH_DB.hex()}\n")
        case "damaged":
            boot.log.write_bytes(boot.log.read_bytes()[:-1])
        case _:
            (machine.target.root("EFI") / LOADER_PATH).write_bytes(b"MZ")
    volume.check(loader=SIGNED)
    volume.check_slot()
    reason = r"PCR 7 is another one, as the release adds to db; its value is unknown: \S"
    with pytest.raises(UserError, match=reason):
        volume.check(db=trust(OTHER))


def test_without_secure_boot_nothing_changes(machine: Machine, volume: Volume) -> None:
    machine.firmware.settings.delete("SecureBoot")
    volume.check(db=trust(OTHER))
