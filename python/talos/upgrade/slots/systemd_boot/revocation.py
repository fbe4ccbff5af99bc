"""What a release revokes: firmware refuses it once the release has its good verdict, and no sooner.

Until then the update of ``dbx`` is beside the slot. It is added by each confirmed start that finds it there,
so a power cut or a full store of variables only puts it off.
"""

from collections.abc import Callable, Mapping

from talos.upgrade.slots.systemd_boot.databases import DBX
from talos.upgrade.slots.systemd_boot.entry import LOADER_PATH
from talos.upgrade.slots.systemd_boot.firmware import Firmware
from talos.upgrade.slots.systemd_boot.forecast import Planned, make_forecast
from talos.upgrade.slots.systemd_boot.partition import EfiPartition
from talos.upgrade.slots.systemd_boot.unsealing import check_unsealing


def revoke(
    partition: EfiPartition,
    firmware: Firmware,
    slot: str,
    devices: Mapping[str, str],
    report: Callable[[str], None],
) -> None:
    """Have firmware refuse what the release in a slot revokes, the one that runs. Again, it does nothing.

    ``devices`` are the encrypted ones by their volumes' names. UserError, OSError: nothing is revoked, as
    where firmware would not start this system any more, or its volumes would not open.
    """
    if slot != firmware.running or not firmware.is_secure:
        return
    update = partition.read_revocations(slot)
    if not update:
        return
    updates, where = {DBX: update}, f"slot {slot}"
    if firmware.find_changed(updates):
        _, uki = partition.check(slot, lambda program: firmware.verify(program, where, updates))
        partition.check_loader(lambda program: firmware.check(program, LOADER_PATH, updates))
        planned = [Planned(name="at the next start", updates=updates, uki=uki)]
        forecast = make_forecast(firmware, partition, planned)
        partition.check(slot, lambda program: check_unsealing(program, devices, where, forecast))
        firmware.add(DBX, updates, where)
        report("the firmware starts no more what this release revokes: dbx is added to")
    partition.drop_revocations(slot)
