"""PCR 11: what systemd's stub measures of a UKI, and what is measured after it during a boot.

As in systemd 257's ``systemd-measure``, whose values these are.
"""

import hashlib
from collections.abc import Mapping, Sequence

from talos.system.pe import Program, Section
from talos.system.tpm.wire import HASH_SIZE

PCR = 11
MEASURED = (
    ".linux",
    ".osrel",
    ".cmdline",
    ".initrd",
    ".ucode",
    ".splash",
    ".dtb",
    ".uname",
    ".sbat",
    ".pcrpkey",
    ".profile",
    ".dtbauto",
    ".hwids",
)
"""The sections, in the order in which they are measured, whatever theirs in the file is."""
PROFILE, KEY, SIGNATURES = ".profile", ".pcrpkey", ".pcrsig"
PHASES = ("enter-initrd", "leave-initrd", "enter-machined")
"""Measured before volumes are opened; the signed value is that after the last of them."""
LAST_PHASE = "start-the-world"
"""Measured when the volumes are open: what is sealed to the value before stays closed until the next boot."""

type Profile = Mapping[str, Section]
"""The sections with which a profile of a UKI is started, by their names."""


def list_profiles(program: Program) -> Sequence[Profile]:
    """The profiles of a UKI, of which the first one is started unless another is named. ValueError."""
    base, found = dict[str, Section](), list[dict[str, Section]]()
    for section in program.list_sections():
        if section.name == PROFILE:
            found.append({})
        (found[-1] if found else base).setdefault(section.name, section)
    return [base | own for own in found] or [base]


def measure_profiles(program: Program) -> Sequence[bytes]:
    """PCR 11 after the phases, for each profile. ValueError, OSError.

    It hashes all that the image has: a second for kernel and initramfs.
    """
    digests: dict[Section, bytes] = {}
    values: list[bytes] = []
    for profile in list_profiles(program):
        value = bytes(HASH_SIZE)
        for name in MEASURED:
            if section := profile.get(name):
                if section not in digests:
                    digests[section] = program.hash_content(section)
                value = extend(value, hash_text(f"{name}\0"))
                value = extend(value, digests[section])
        values.append(measure_phases(value))
    return values


def measure_phases(value: bytes) -> bytes:
    """The value after the phases."""
    for phase in PHASES:
        value = extend(value, hash_text(phase))
    return value


def extend(value: bytes, digest: bytes) -> bytes:
    """The value of a PCR into which a digest was measured."""
    return hashlib.sha256(value + digest).digest()


def hash_text(text: str) -> bytes:
    """The digest by which a text is measured."""
    return hashlib.sha256(text.encode()).digest()
