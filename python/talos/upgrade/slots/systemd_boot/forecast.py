"""What is known of PCR 7 at the starts that an upgrade, a rollback or a revocation leads to.

The value of each of them is forecast. Where that can't be, PCR 7 is taken to be another one if the release
adds to a database, or if another certificate has signed it, and else to stay as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cryptography import x509

from talos.pki.authenticode import read_certificates
from talos.system.errors import UserError
from talos.system.tpm.event_log import replay
from talos.upgrade.slots.systemd_boot.databases import NO_UPDATES, Updates
from talos.upgrade.slots.systemd_boot.firmware import Certificates, Firmware
from talos.upgrade.slots.systemd_boot.partition import EfiPartition
from talos.upgrade.slots.systemd_boot.pcr7_model import PCR, make_model, read_contents


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A start to come, by its boot loaders in their order and its UKI. None is the one that runs.

    ``name`` completes "PCR 7 will be …".
    """

    name: str
    updates: Updates = field(default_factory=lambda: NO_UPDATES)
    loaders: Sequence[Certificates | None] = (None,)
    uki: Certificates | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A start to come, and its value of PCR 7. ``is_present``: it is that of the system that runs."""

    name: str
    value: bytes
    is_present: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """PCR 7 at the starts to come, and ``value`` now; no starts where nothing is forecast.

    ``reason`` is why it changes, empty where that is not known. ``changed`` is why it is another one, where
    its value is not known.
    """

    starts: Sequence[Start] = ()
    value: bytes = b""
    reason: str = ""
    changed: Mapping[int, str] = field(default_factory=dict[int, str])


UNCHANGED = Forecast()
"""PCR 7 is not in use, or stays as it is."""


def make_forecast(
    firmware: Firmware,
    partition: EfiPartition,
    planned: Sequence[Planned],
    certificate: x509.Certificate | None = None,
) -> Forecast:
    """The forecast for these starts. UserError for damaged databases, OSError.

    ``certificate`` is the firmware's by which it starts another system than the one that runs.
    """
    if not firmware.is_secure:
        return UNCHANGED
    updates = {name: update for each in planned for name, update in each.updates.items()}
    reason = _find_reason(firmware, partition, updates, certificate)
    try:
        return _predict(firmware, partition, planned, reason)
    except (ValueError, UserError, OSError) as error:
        if not reason:
            return UNCHANGED
        return Forecast(changed={PCR: f"another one, as {reason}; its value is unknown: {error}"})


def _find_reason(
    firmware: Firmware, partition: EfiPartition, updates: Updates, new: x509.Certificate | None
) -> str:
    """Why PCR 7 is another one; empty where it should stay."""
    if changed := firmware.find_changed(updates):
        return f"the release adds to {' and '.join(changed)}"
    if new is None or new == _find_certificate(firmware, partition):
        return ""
    return "another certificate has signed the system that runs"


def _find_certificate(firmware: Firmware, partition: EfiPartition) -> x509.Certificate | None:
    """The certificate by which firmware would start the system that runs; None where it would not."""
    slot = firmware.running
    if not slot:
        return None
    try:
        return partition.check(slot, lambda program: firmware.check(program, f"slot {slot}"))
    except UserError:  # it has started it: its databases were changed since
        return None


def _predict(
    firmware: Firmware, partition: EfiPartition, planned: Sequence[Planned], reason: str
) -> Forecast:
    """The forecast with values. ValueError, UserError, OSError with why there are none."""
    events, (loader, uki) = firmware.measured.read_events(PCR), _read_running(firmware, partition)
    model, starts = make_model(events, [loader, uki]), list[Start]()
    for each in planned:
        contents = read_contents(firmware.databases, each.updates)
        chain = [loader if own is None else own for own in each.loaders]
        chain.append(uki if each.uki is None else each.uki)
        starts += [
            Start(name=each.name, value=value, is_present=each.uki is None)
            for value in model.find_values(contents, chain)
        ]
    if not reason and read_contents(firmware.databases, NO_UPDATES) != model.contents:
        reason = "db or dbx was changed since this start"
    return Forecast(starts=starts, value=replay(events), reason=reason)


def _read_running(firmware: Firmware, partition: EfiPartition) -> tuple[Certificates, Certificates]:
    """Of systemd-boot and of the UKI that run. ValueError, UserError, OSError."""
    if not firmware.running:
        raise ValueError("which slot runs is not known")
    loader = partition.check_loader(read_certificates)
    return loader, partition.check(firmware.running, read_certificates)
