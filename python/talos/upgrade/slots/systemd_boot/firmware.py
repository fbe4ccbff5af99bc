"""What firmware with Secure Boot switched on would refuse to start, found out before it is written."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509

from talos.pki.authenticode import check_signature, read_certificates
from talos.system.efi_variables import IMAGE_SECURITY, LOADER, EfiVariables
from talos.system.errors import UserError
from talos.system.pe import Program
from talos.system.tpm.event_log import MeasuredBoot
from talos.upgrade.slots.systemd_boot.databases import (
    NO_UPDATES,
    Updates,
    find_changed,
    read_trust,
)
from talos.upgrade.slots.systemd_boot.entry import find_slot

SIGN_HINT = "sign it by one that it has: nix run .#sign-release"
_ON = b"\1"

type Certificates = Sequence[x509.Certificate]
"""Those in the signatures of a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Firmware:
    """The firmware's variables, by vendor, and what it has measured. OSError where they can't be read."""

    settings: EfiVariables = field(default_factory=EfiVariables)
    databases: EfiVariables = field(default_factory=lambda: EfiVariables(vendor=IMAGE_SECURITY))
    loader: EfiVariables = field(default_factory=lambda: EfiVariables(vendor=LOADER))
    measured: MeasuredBoot = field(default_factory=MeasuredBoot)

    @property
    def has_started_uki(self) -> bool:
        """Whether the system that runs was started from a UKI, whose stub has left a variable."""
        return self.loader.read("StubInfo") is not None

    @property
    def entry(self) -> str:
        """The entry that systemd-boot has started, empty where something else has."""
        return self._read_text("LoaderEntrySelected")

    @property
    def partition(self) -> str:
        """The id of the partition that systemd-boot was started from, empty where it has left none."""
        return self._read_text("LoaderDevicePartUUID")

    @property
    def loader_path(self) -> str:
        """Where the systemd-boot that was started is on its partition, with slashes; empty without one."""
        return self._read_text("LoaderImageIdentifier").replace("\\", "/").lstrip("/")

    @property
    def running(self) -> str:
        """The slot that was started; empty where none was."""
        return find_slot(self.entry)

    @property
    def is_secure(self) -> bool:
        """Whether Secure Boot is on."""
        return self.settings.read("SecureBoot") == _ON

    def check(self, program: Program, where: str, updates: Updates = NO_UPDATES) -> x509.Certificate | None:
        """The certificate of the firmware by which it starts a program; None without Secure Boot.

        UserError where it would not start it once its databases have these updates.
        """
        if not self.is_secure:
            return None
        try:
            return check_signature(program, read_trust(self.databases, updates))
        except ValueError as error:
            raise UserError(f"Secure Boot is on: {error}", where=where, hint=SIGN_HINT) from None

    def verify(
        self, program: Program, where: str, updates: Updates = NO_UPDATES
    ) -> tuple[x509.Certificate | None, Certificates]:
        """What :meth:`check` returns, and the certificates in the signatures. UserError, ValueError."""
        return self.check(program, where, updates), self.read_certificates(program)

    def read_certificates(self, program: Program) -> Certificates:
        """Those in its signatures; none without Secure Boot, which compares no signature. ValueError."""
        return read_certificates(program) if self.is_secure else ()

    def find_changed(self, updates: Updates) -> Sequence[str]:
        """The databases that these updates would change; UserError for damaged ones."""
        try:
            return find_changed(self.databases, updates)
        except ValueError as error:
            raise UserError(
                f"can't be read: {error}", where="databases of Secure Boot", hint="enroll the keys anew"
            ) from None

    def add(self, name: str, updates: Updates, where: str) -> None:
        """Add to a database, unless that has it all. UserError: it is what it was."""
        if name not in self.find_changed(updates):
            return
        try:
            self.databases.append(name, updates[name])
        except OSError as error:
            raise UserError(
                f"the firmware does not take the update of {name}: {error.strerror}",
                where=where,
                hint="sign it by a key of the firmware's KEK: talosctl gen secureboot update",
            ) from None
        if name in self.find_changed(updates):
            raise UserError(
                f"the firmware has not kept the update of {name}", where=where, hint="update the firmware"
            )

    def _read_text(self, name: str) -> str:
        """A boot loader's variable that is a text, empty where it has left none."""
        return (self.loader.read(name) or b"").decode("utf-16-le", "replace").partition("\0")[0]
