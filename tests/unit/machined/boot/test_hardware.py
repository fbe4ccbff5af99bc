"""SystemInformation."""

from talos.machined.boot.hardware import FOLDER, describe_hardware
from talos.resource import kinds
from talos.resource.memory.state import MemoryState
from talos.testing.files import MemoryFiles


async def test_fields_of_the_firmware() -> None:
    state = MemoryState()
    await describe_hardware(state, MemoryFiles({}))
    assert await state.list(kinds.SYSTEM_INFORMATION) == []
    files = MemoryFiles({f"{FOLDER}/sys_vendor": "QEMU\n", f"{FOLDER}/product_uuid": "4c4c-0042\n"})
    await describe_hardware(state, files)
    (found,) = await state.list(kinds.SYSTEM_INFORMATION)
    assert (found.id, found.spec.manufacturer, found.spec.uuid) == ("systeminformation", "QEMU", "4c4c-0042")
    assert found.spec.serial_number == ""
