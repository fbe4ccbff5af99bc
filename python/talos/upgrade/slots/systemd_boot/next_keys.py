"""Keys of volumes for the values that PCR 7 has at the starts to come: before an upgrade, and after it."""

from collections.abc import Mapping, Sequence

from talos.system.errors import UserError
from talos.system.logging import Log
from talos.upgrade.slots.open_keys import OpenKeys, Prepared
from talos.upgrade.slots.port import Report
from talos.upgrade.slots.systemd_boot.databases import DBX
from talos.upgrade.slots.systemd_boot.firmware import Certificates, Firmware
from talos.upgrade.slots.systemd_boot.forecast import Planned, make_forecast
from talos.upgrade.slots.systemd_boot.partition import EfiPartition
from talos.upgrade.slots.systemd_boot.pcr7_model import PCR
from talos.upgrade.slots.systemd_boot.unsealing import Gap, refuse_volume
from talos.upgrade.state import other_slot

HINT = "give the volume a slot of another kind first"


async def prepare_keys(
    gaps: Mapping[str, Gap], openers: OpenKeys, where: str, log: Log
) -> Sequence[Prepared]:
    """Seal what is missing. UserError where a volume would not be opened without; else the log has why."""
    prepared: list[Prepared] = []
    for name, gap in gaps.items():
        try:
            prepared.append(Prepared(openers[name], await openers[name].seal(PCR, gap.values)))
        except (UserError, OSError) as error:
            if gap.reason:
                reason = refuse_volume(name, f"{gap.reason}; it can't be sealed for that: {error}")
                raise UserError(reason, where=where, hint=HINT) from None
            log.warning(f"volume {name}: its key of the TPM will not open it", reason=str(error))
    return prepared


async def write_keys(prepared: Sequence[Prepared], report: Report) -> None:
    """Keep them in the headers. After an error, or a power cut, some are there: they open nothing now."""
    for each in prepared:
        await each.opener.write(each.keys)
    if prepared:
        report(f"volumes have keys for the values that PCR {PCR} will have")


def find_lasting(firmware: Firmware, partition: EfiPartition) -> Sequence[bytes]:
    """The present value of PCR 7, and those of the next starts; none where they are not known.

    These are starts of the system that runs, before and after what its release revokes, and of the one in the
    other slot while firmware starts it. UserError, OSError.
    """
    slot = firmware.running
    if not slot:
        return []
    update = partition.read_revocations(slot)
    planned = [Planned(name="at the next start")]
    if update:
        planned.append(Planned(name="once dbx is added to", updates={DBX: update}))
    if (other := _read_other(firmware, partition, other_slot(slot))) is not None:
        planned.append(Planned(name="from the other slot", uki=other))
    forecast = make_forecast(firmware, partition, planned)
    return [forecast.value, *(start.value for start in forecast.starts)] if forecast.starts else []


def _read_other(firmware: Firmware, partition: EfiPartition, other: str) -> Certificates | None:
    """The certificates of the UKI in the other slot; None where firmware does not start it."""
    try:
        _, certificates = partition.check(other, lambda program: firmware.verify(program, f"slot {other}"))
    except (UserError, OSError, ValueError):
        return None
    return certificates
