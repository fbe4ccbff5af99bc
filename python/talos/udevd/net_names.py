"""Predictable names of network interfaces: ``eno1``, ``ens3``, ``enp0s3f1``, ``enx525400123456``.

The names are those that systemd 255 and later gives by default, so that configs written for
such systems stay valid: from the firmware's index of an on-board device, the slot, the
place on the PCI bus; the address is only an alternative name. Other interfaces keep the kernel's name.
"""

from dataclasses import dataclass

from talos.system.block.sysfs import SysDevice, Sysfs

MAX_LENGTH = 15
"""Characters; the kernel's IFNAMSIZ less the closing zero."""
# <linux/if_arp.h>
_PREFIXES = {1: "en", 32: "ib", 256: "sl"}
_DEVTYPE_PREFIXES = {"wlan": "wl", "wwan": "ww"}
# <linux/netdevice.h>
_NAMED_BY_KERNEL_PREDICTABLY = 2
_NAMED_BY_USER = 3
_RENAMED = 4
_ADDRESS_PERMANENT = 0
_MAX_ONBOARD = 16383  # acpi_index is larger where the firmware made it up
_HEADER_TYPE = 0x0E  # in PCI's configuration space
_MULTIFUNCTION = 0x80


@dataclass(frozen=True, slots=True, kw_only=True)
class NetNames:
    """Names of an interface, each empty when it has none."""

    onboard: str = ""
    slot: str = ""
    path: str = ""
    address: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        """Those there are, the preferred first."""
        named = (self.onboard, self.slot, self.path, self.address)
        return tuple(name for name in named if name and len(name) <= MAX_LENGTH)


def find_names(link: SysDevice, sysfs: Sysfs) -> NetNames:
    """The names of an interface."""
    prefix = _DEVTYPE_PREFIXES.get(link.uevent.get("DEVTYPE", ""), "") or _PREFIXES.get(link.number("type"))
    if not prefix or not link.has("device") or link.uevent.get("DEVTYPE") in {"bond", "vlan", "bridge"}:
        return NetNames()
    address = _name_by_address(link, prefix)
    parent = link.parent
    while parent is not None and parent.subsystem == "virtio":
        parent = parent.parent
    if parent is None:
        return NetNames(address=address)
    if parent.subsystem == "xen":
        _, found, number = parent.kernel_name.partition("vif-")
        return NetNames(slot=f"{prefix}X{number}" if found and number.isdigit() else "", address=address)
    suffix = ""
    card = parent if parent.subsystem == "pci" else None
    if parent.subsystem == "usb":
        suffix = _make_usb_suffix(parent)
        card = parent.ancestor("pci") if suffix else None
    if card is None:
        return NetNames(address=address)
    port = _make_port_suffix(link)
    onboard = _name_onboard(card, prefix, port)
    slot = _name_slot(card, sysfs, prefix, port)
    path = prefix + _make_domain(card) + _make_path(card) + port
    if suffix:
        # An interface of a USB device on the card, not the card's own.
        onboard, slot, path = (name and name + suffix for name in (onboard, slot, path))
    return NetNames(onboard=onboard, slot=slot, path=path, address=address)


def choose_name(link: SysDevice, sysfs: Sysfs) -> str:
    """The new name of an interface; empty when its name stays."""
    if link.number("name_assign_type") in {_NAMED_BY_KERNEL_PREDICTABLY, _NAMED_BY_USER, _RENAMED}:
        return ""
    names = find_names(link, sysfs)
    chosen = next((name for name in names.all if name != names.address), "")
    return "" if chosen == link.kernel_name else chosen


def _name_by_address(link: SysDevice, prefix: str) -> str:
    """Only an address that the hardware has for good."""
    text = link.attribute("address").replace(":", "")
    if prefix == "ib" or link.number("addr_assign_type", -1) != _ADDRESS_PERMANENT:
        return ""
    return f"{prefix}x{text}" if len(text) == 12 and text.strip("0") else ""


def _make_port_suffix(link: SysDevice) -> str:
    """Which port of a card with several, all of which are one PCI function."""
    name = link.attribute("phys_port_name")
    if name:
        return f"n{name}"
    port = link.number("dev_port")
    return f"d{port}" if port else ""


def _split(card: SysDevice) -> tuple[int, int, int, int]:
    domain, bus, rest = card.kernel_name.split(":")
    slot, function = rest.split(".")
    return int(domain, 16), int(bus, 16), int(slot, 16), int(function)


def _make_domain(card: SysDevice) -> str:
    domain = _split(card)[0]
    return f"P{domain}" if domain else ""


def _make_path(card: SysDevice) -> str:
    _, bus, slot, _ = _split(card)
    return f"p{bus}s{slot}{_make_function(card)}"


def _make_function(card: SysDevice) -> str:
    function = _split(card)[3]
    return f"f{function}" if function or _is_multifunction(card) else ""


def _is_multifunction(card: SysDevice) -> bool:
    header = card.binary("config")[_HEADER_TYPE : _HEADER_TYPE + 1]
    return bool(header and header[0] & _MULTIFUNCTION)


def _name_onboard(card: SysDevice, prefix: str, port: str) -> str:
    for attribute in ("acpi_index", "index"):
        if card.has(attribute):
            index = card.number(attribute)
            return f"{prefix}o{index}{port}" if 0 < index <= _MAX_ONBOARD else ""
    return ""


def _name_slot(card: SysDevice, sysfs: Sysfs, prefix: str, port: str) -> str:
    """By the slot that the card, or what it hangs on, is plugged into."""
    slots = sysfs.device("/bus/pci/slots")
    addresses = {name: slots.attribute(f"{name}/address") for name in slots.entries(".") if name.isdigit()}
    for device in card.with_parents:
        if device.subsystem != "pci":
            break
        for name, address in addresses.items():
            if not address or int(name) < 1 or device.kernel_name.rpartition(".")[0] != address:
                continue
            # Everything behind a bridge would claim the bridge's slot.
            if "bc06sc04" in device.attribute("modalias").lower():
                return ""
            return f"{prefix}{_make_domain(card)}s{name}{_make_function(card)}{port}"
    return ""


def _make_usb_suffix(interface: SysDevice) -> str:
    """``3-1.4:1.0`` → ``u1u4``; configuration and interface only when they aren't the usual ones."""
    if interface.uevent.get("DEVTYPE") != "usb_interface":
        return ""
    place, _, rest = interface.kernel_name.partition(":")
    _, found, ports = place.partition("-")
    if not found:
        return ""
    configuration, _, number = rest.partition(".")
    text = "u" + ports.replace(".", "u")
    text += f"c{configuration}" if configuration != "1" else ""
    return text + (f"i{number}" if number != "0" else "")
