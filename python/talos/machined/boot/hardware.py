"""The firmware's description of the machine: SystemInformation, from the kernel's view of SMBIOS."""

from talos.api.definitions.hardware_pb2 import SystemInformationSpec
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.state import State
from talos.system.files import Files, read_attribute

FOLDER = "/sys/class/dmi/id"
FILES = {
    "manufacturer": "sys_vendor",
    "product_name": "product_name",
    "version": "product_version",
    "serial_number": "product_serial",
    "uuid": "product_uuid",
    "sku_number": "product_sku",
    "bios_version": "bios_version",
}
"""The file of each field; a machine may lack any of them."""
OWNER = "hardware.SystemInfoController"
"""The owner, as upstream names it."""


async def describe_hardware(state: State, files: Files) -> None:
    """Publish it, once per boot; nothing on a machine without SMBIOS."""
    found = {name: read_attribute(files, f"{FOLDER}/{file}") for name, file in FILES.items()}
    if not any(found.values()):
        return
    await put(state, *ids.SYSTEM_INFORMATION, SystemInformationSpec(**found), owner=OWNER)
