"""The physical path of a device, for by-path: ``pci-0000:00:1f.2-ata-1.0``.

The names are those that systemd's ``path_id`` gives, so that existing configs stay valid. A device
whose way to the processor has a part that could be another one's tomorrow gets no name.
"""

from talos.system.block.sysfs import SysDevice, Sysfs

_PREFIXED = {"pci": "pci", "platform": "platform", "acpi": "acpi", "xen": "xen"}
_MAX_FLAT_LUN = 256


def make_path_names(device: SysDevice, sysfs: Sysfs) -> tuple[str, ...]:
    """The names for by-path, the best first; none when there is no reliable one."""
    way = _PathWalk(device, sysfs)
    way.walk()
    names = [way.parts, way.compatible] if way.compatible else [way.parts]
    if not way.is_anchored or not way.has_transport:
        return ()
    return tuple("-".join(parts) for parts in names if parts)


class _PathWalk:
    """The walk from a device to the processor."""

    def __init__(self, device: SysDevice, sysfs: Sysfs) -> None:
        self._device = device
        self._sysfs = sysfs
        self.parts: list[str] = []
        self.compatible: list[str] = []
        self.is_anchored = False
        self.has_transport = False

    def walk(self) -> None:
        """Go up, part by part."""
        device: SysDevice | None = self._device
        while device is not None:
            device = self._step(device)
            device = device.parent if device is not None else None

    def _prepend(self, part: str, compatible: str = "") -> None:
        if self.compatible or compatible:
            self.compatible = [compatible or part, *(self.compatible or self.parts)]
        self.parts = [part, *self.parts]

    def _step(self, device: SysDevice) -> SysDevice | None:
        """Add a device's component; return the ancestor up to which it reaches, None without a path."""
        subsystem = device.subsystem
        if subsystem in _PREFIXED:
            self._prepend(f"{_PREFIXED[subsystem]}-{device.kernel_name}")
            self.is_anchored = True
            self.has_transport = self.has_transport or subsystem == "platform"
            return _skip(device, subsystem)
        if subsystem == "virtio":
            self.has_transport = True
            return _skip(device, subsystem)
        if subsystem in {"nvme", "nvme-subsystem"}:
            return self._step_nvme(device, subsystem)
        if subsystem == "usb":
            self.has_transport = True
            return self._step_usb(device)
        if subsystem == "scsi":
            self.has_transport = True
            return self._step_scsi(device)
        return device

    def _step_nvme(self, device: SysDevice, subsystem: str) -> SysDevice | None:
        namespace = self._device.attribute("nsid")
        if not namespace:
            return device
        self._prepend(f"nvme-{namespace}")
        self.is_anchored = self.has_transport = True
        if subsystem == "nvme":
            return _skip(device, subsystem)
        # The disk of several controllers: the first one's way stands for all.
        for name in device.entries("."):
            if name.startswith("nvme") and "n" not in name[4:]:
                controller = self._sysfs.member("nvme", name)
                if controller is not None:
                    return _skip(controller, "nvme")
        return None

    def _step_usb(self, device: SysDevice) -> SysDevice | None:
        if device.uevent.get("DEVTYPE") not in {"usb_interface", "usb_device"}:
            return device
        _, found, port = device.kernel_name.partition("-")
        if not found:
            return device
        self._prepend(f"usb-0:{port}")
        return _skip(device, "usb")

    def _step_scsi(self, device: SysDevice) -> SysDevice | None:
        if device.uevent.get("DEVTYPE") != "scsi_device":
            return device
        host, bus, target, lun = (int(part) for part in device.kernel_name.split(":"))
        adapter = device.ancestor("scsi", "scsi_host")
        if "/rport-" in device.path:
            port = self._transport(device, "fc_transport", "port_name")
            return self._end_of_fabric(device, f"fc-{port}" if port else "", lun)
        if "/end_device-" in device.path:
            return self._end_of_fabric(device, self._name_sas(device), lun)
        if "/session" in device.path:
            return self._end_of_fabric(device, self._name_iscsi(device), lun)
        if adapter is None:
            return None
        if "/ata" in device.path:
            return device if self._step_ata(adapter, bus, target) else None
        numbers = [
            int(name[4:])
            for name in SysDevice(root=device.root, path=adapter.path.rpartition("/")[0]).entries(".")
            if name.startswith("host") and name[4:].isdigit()
        ]
        self._prepend(f"scsi-{host - min(numbers, default=host)}:{bus}:{target}:{lun}")
        return adapter

    def _end_of_fabric(self, device: SysDevice, name: str, lun: int) -> SysDevice | None:
        if not name:
            return None
        self._prepend(f"{name}-{_make_lun(lun)}")
        self.is_anchored = True
        return device

    def _transport(self, device: SysDevice, subsystem: str, attribute: str) -> str:
        target = device.ancestor("scsi", "scsi_target")
        found = target and self._sysfs.member(subsystem, target.kernel_name)
        return found.attribute(attribute) if found else ""

    def _name_sas(self, device: SysDevice) -> str:
        """An expander's address and phy, or the disk's address when it has several phys."""
        target = device.ancestor("scsi", "scsi_target")
        end = target.parent if target is not None else None
        found = end and self._sysfs.member("sas_device", end.kernel_name)
        port = end.parent if end else None
        phys = port and self._sysfs.member("sas_port", port.kernel_name)
        if not found or not port or not phys:
            return ""
        if phys.attribute("num_phys") != "1":
            return f"sas-{found.attribute('sas_address')}"
        above = port.parent
        expander = above and self._sysfs.member("sas_device", above.kernel_name)
        phy = f"phy{found.attribute('phy_identifier')}"
        return f"sas-exp{expander.attribute('sas_address')}-{phy}" if expander else f"sas-{phy}"

    def _name_iscsi(self, device: SysDevice) -> str:
        for above in device.with_parents:
            name = above.kernel_name
            if not name.startswith("session"):
                continue
            session = self._sysfs.member("iscsi_session", name)
            connection = self._sysfs.member("iscsi_connection", f"connection{name[7:]}:0")
            if session is None or connection is None:
                return ""
            address = connection.attribute("persistent_address")
            port = connection.attribute("persistent_port")
            return f"ip-{address}:{port}-iscsi-{session.attribute('targetname')}"
        return ""

    def _step_ata(self, adapter: SysDevice, bus: int, target: int) -> bool:
        above = adapter.parent
        port = above and self._sysfs.member("ata_port", above.kernel_name)
        if not port:
            return False
        number = port.attribute("port_no")
        # Behind a port multiplier each disk is on its own bus; else the target selects master and slave.
        exact = f"ata-{number}.{bus}.0" if bus else f"ata-{number}.{target}"
        self._prepend(exact, compatible=f"ata-{number}")
        return True


def _make_lun(lun: int) -> str:
    if lun < _MAX_FLAT_LUN:
        return f"lun-{lun}"
    return f"lun-0x{lun & 0xFFFF:04x}{lun >> 16 & 0xFFFF:04x}00000000"


def _skip(device: SysDevice, subsystem: str) -> SysDevice:
    """The uppermost of the devices of one subsystem that follow each other."""
    while (parent := device.parent) is not None and parent.subsystem == subsystem:
        device = parent
    return device
