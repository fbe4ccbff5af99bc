"""Releases for a machine that systemd-boot starts: what is checked of them, and how one is written."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

from cryptography import x509

from talos.system.errors import UserError
from talos.system.pe import Program
from talos.upgrade.release.layer import Release
from talos.upgrade.release.manifest import UKI, UKI_LOADER
from talos.upgrade.slots.systemd_boot.databases import DB, DBX, NO_UPDATES, Updates, read_updates
from talos.upgrade.slots.systemd_boot.firmware import Firmware
from talos.upgrade.slots.systemd_boot.partition import EfiPartition, SlotContent
from talos.upgrade.slots.systemd_boot.unsealing import check_unsealing, find_changed_pcrs

MAX_LOADER = 16 << 20
"""Bytes of a release's systemd-boot; it has a quarter of a million."""


def check_release(
    release: Release, firmware: Firmware, partition: EfiPartition, devices: Mapping[str, str]
) -> None:
    """UserError when this machine would not start the release, or that not open its volumes.

    ``devices`` are the encrypted ones by their volumes' names.
    """
    updates = read_updates(release)
    certificate = check_programs(release, firmware, updates)
    if not devices:
        return
    changed = find_changed_pcrs(firmware, updates, certificate, find_certificate(partition, firmware))
    with _open_program(release, UKI) as (program, where):
        check_unsealing(program, devices, where, changed)


def check_slot(slot: str, firmware: Firmware, partition: EfiPartition, devices: Mapping[str, str]) -> None:
    """UserError when this machine would not start what is in a slot, or that not open its volumes."""
    running, where = find_certificate(partition, firmware) if devices else None, f"slot {slot}"

    def check(program: Program) -> None:
        certificate = firmware.check(program, where)
        changed = find_changed_pcrs(firmware, NO_UPDATES, certificate, running)
        check_unsealing(program, devices, where, changed)

    partition.check(slot, check)


def check_programs(release: Release, firmware: Firmware, updates: Updates) -> x509.Certificate | None:
    """The certificate by which firmware would start a release once it has these updates; None without any.

    UserError where it would not start the UKI, or the release's systemd-boot.
    """
    where, files = f"image {release.name}", release.layer.files
    if UKI not in files:
        raise UserError(
            f"it lacks {UKI}, the signed UKI, from which this machine is started",
            where=where,
            hint="make a release with one: nix run .#sign-release",
        )
    if UKI_LOADER in files:
        if files[UKI_LOADER].size > MAX_LOADER:
            raise UserError(f"its {UKI_LOADER} has more than {MAX_LOADER} bytes", where=where)
        with _open_program(release, UKI_LOADER) as (program, place):
            firmware.check(program, place, updates)
    with _open_program(release, UKI) as (program, place):
        return firmware.check(program, place, updates)


def find_certificate(partition: EfiPartition, firmware: Firmware) -> x509.Certificate | None:
    """The certificate by which firmware would start the system that runs; None where it would not, or any."""
    found, slot = list[x509.Certificate | None](), firmware.running
    if slot and firmware.is_secure:
        with suppress(UserError):  # it has started it: its databases were changed since
            partition.check(slot, lambda program: found.append(firmware.check(program, f"slot {slot}")))
    return found[0] if found else None


def write_release(
    release: Release, slot: str, firmware: Firmware, partition: EfiPartition, report: Callable[[str], None]
) -> bytes:
    """Write a release to a slot; its systemd-boot, which is empty where it has none.

    The firmware's trust comes first: where it refuses the update, nothing else has changed. What it is to
    start no more is kept beside the slot. UserError, OSError.
    """
    updates, layer = read_updates(release), release.layer
    if DB in updates and firmware.is_secure:
        report("adding to the firmware's database db")
        firmware.add(DB, updates, f"image {release.name}")
    content = SlotContent(
        slot=slot,
        read=partial(layer.read, UKI),
        digest=layer.files[UKI].sha256,
        revocations=updates.get(DBX, b""),
    )
    partition.write(content, report)
    return b"".join(layer.read(UKI_LOADER)) if UKI_LOADER in layer.files else b""


@contextmanager
def _open_program(release: Release, name: str) -> Generator[tuple[Program, str]]:
    """A program of the release, and its place for errors."""
    layer = release.layer
    with layer.path.open("rb") as file:
        yield Program(file, layer.files[name].size, layer.offsets[name]), f"image {release.name}: {name}"
