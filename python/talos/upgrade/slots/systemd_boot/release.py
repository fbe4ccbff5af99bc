"""Releases for a machine that systemd-boot starts: what is checked of them, and how one is written."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from cryptography import x509

from talos.system.errors import UserError
from talos.system.pe import Program
from talos.upgrade.release.features import NEXT_KEYS
from talos.upgrade.release.layer import Release
from talos.upgrade.release.manifest import UKI, UKI_LOADER
from talos.upgrade.slots.systemd_boot.databases import DB, DBX, Updates, read_updates
from talos.upgrade.slots.systemd_boot.firmware import Certificates, Firmware
from talos.upgrade.slots.systemd_boot.forecast import Planned, make_forecast
from talos.upgrade.slots.systemd_boot.partition import EfiPartition, SlotContent
from talos.upgrade.slots.systemd_boot.unsealing import NO_OPENERS, Gap, check_unsealing

MAX_LOADER = 16 << 20
"""Bytes of a release's systemd-boot; it has a quarter of a million."""


def check_release(
    release: Release,
    firmware: Firmware,
    partition: EfiPartition,
    devices: Mapping[str, str],
    openers: Mapping[str, int] = NO_OPENERS,
) -> Mapping[str, Gap]:
    """UserError when this machine would not start the release, or that not open its volumes.

    ``devices`` are the encrypted ones by their volumes' names, ``openers`` slots whose keys can be sealed for
    starts to come: the volumes where that is missing.
    """
    updates = read_updates(release)
    certificate = check_programs(release, firmware, updates)
    if not devices:
        return {}
    if NEXT_KEYS not in release.manifest.features:  # it would not look for them
        openers = NO_OPENERS
    forecast = make_forecast(firmware, partition, _plan_starts(release, firmware, updates), certificate)
    with _open_program(release, UKI) as (program, where):
        return check_unsealing(program, devices, where, forecast, openers)


def check_slot(slot: str, firmware: Firmware, partition: EfiPartition, devices: Mapping[str, str]) -> None:
    """UserError when this machine would not start what is in a slot, or that not open its volumes."""
    where = f"slot {slot}"
    certificate, uki = partition.check(slot, lambda program: firmware.verify(program, where))
    if not devices:
        return
    planned = [Planned(name="at the next start", uki=uki)]
    forecast = make_forecast(firmware, partition, planned, certificate)
    partition.check(slot, lambda program: check_unsealing(program, devices, where, forecast))


def _plan_starts(release: Release, firmware: Firmware, updates: Updates) -> Sequence[Planned]:
    """The starts that an upgrade may lead to: ``db`` is added to before any of them, ``dbx`` by a verdict.

    Where the release's boot loader gives up, firmware goes on with the present one in the same start.
    """
    before = {name: update for name, update in updates.items() if name != DBX}
    with _open_program(release, UKI) as (program, _):
        uki = firmware.read_certificates(program)
    ways: dict[str, Sequence[Certificates | None]] = {"": (None,)}
    if UKI_LOADER in release.layer.files:
        with _open_program(release, UKI_LOADER) as (program, _):
            own = firmware.read_certificates(program)
        by = " by the present systemd-boot"
        ways = {"": (own,), by: (None,), f"{by} after the release's": (own, None)}
    return [
        Planned(name=f"{when}{how}", updates=known, loaders=loaders, uki=system)
        for when, known, system in (
            ("in the trial", before, uki),
            ("after the verdict", updates, uki),
            ("with the present system", before, None),
        )
        for how, loaders in ways.items()
    ]


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
