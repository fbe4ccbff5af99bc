"""What firmware with Secure Boot switched on would refuse to start, found out before it is written."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from talos.pki.authenticode import check_signature
from talos.system.efi_signatures import X509, parse_signatures
from talos.system.efi_variables import IMAGE_SECURITY, LOADER, EfiVariables
from talos.system.errors import UserError
from talos.system.pe import Program
from talos.upgrade.slots.systemd_boot.entry import find_slot

SIGN_HINT = "sign it by one that it has: nix run .#sign-release"
_ON = b"\1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Firmware:
    """The firmware's variables, by vendor. OSError where they can't be read."""

    settings: EfiVariables = field(default_factory=EfiVariables)
    databases: EfiVariables = field(default_factory=lambda: EfiVariables(vendor=IMAGE_SECURITY))
    loader: EfiVariables = field(default_factory=lambda: EfiVariables(vendor=LOADER))

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

    def check(self, program: Program, where: str) -> None:
        """UserError when Secure Boot is on and would not start this program."""
        if self.settings.read("SecureBoot") != _ON:
            return
        try:
            check_signature(program, self._read_certificates())
        except ValueError as error:
            raise UserError(f"Secure Boot is on: {error}", where=where, hint=SIGN_HINT) from None

    def _read_text(self, name: str) -> str:
        """A boot loader's variable that is a text, empty where it has left none."""
        return (self.loader.read(name) or b"").decode("utf-16-le", "replace").partition("\0")[0]

    def _read_certificates(self) -> Sequence[x509.Certificate]:
        """Those that the firmware starts programs of; others, by their digests, are none of ours."""
        found: list[x509.Certificate] = []
        for entry in parse_signatures(self.databases.read("db") or b""):
            if entry.kind == X509:
                try:
                    found.append(x509.load_der_x509_certificate(entry.data))
                except (ValueError, UnsupportedAlgorithm):
                    continue
        return found
