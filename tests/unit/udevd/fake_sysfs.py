"""A sysfs in a folder, made of data: what real machines showed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from talos.system.block.sysfs import SysDevice, Sysfs


@dataclass(frozen=True, slots=True)
class FakeSysfs:
    """The tree below ``root``."""

    root: Path

    @property
    def sysfs(self) -> Sysfs:
        return Sysfs(root=str(self.root))

    def add(
        self,
        path: str,
        subsystem: str,
        uevent: Mapping[str, str] | None = None,
        driver: str | bytes = "",
        **attributes: str | bytes,
    ) -> SysDevice:
        """A device; attributes with ``__`` for a slash."""
        folder = self.root / path.removeprefix("/")
        folder.mkdir(parents=True, exist_ok=True)
        values = dict(uevent or {})
        (folder / "uevent").write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        name = folder.name
        is_bus = subsystem in {"pci", "usb", "scsi", "virtio", "mmc", "xen"}
        home = self.root / (f"bus/{subsystem}" if is_bus else f"class/{subsystem}")
        (folder / "subsystem").unlink(missing_ok=True)
        home.mkdir(parents=True, exist_ok=True)
        (folder / "subsystem").symlink_to(home)
        listing = home / "devices" if is_bus else home
        listing.mkdir(exist_ok=True)
        self._link(listing / name, folder)
        if driver:
            (folder / "driver").symlink_to(self.root / "bus" / subsystem / "drivers" / str(driver))
        if "MAJOR" in values:
            kind = "block" if subsystem == "block" else "char"
            numbers = f"{values['MAJOR']}:{values['MINOR']}"
            (folder / "dev").write_text(f"{numbers}\n")
            (self.root / "dev" / kind).mkdir(parents=True, exist_ok=True)
            self._link(self.root / "dev" / kind / numbers, folder)
        for key, value in attributes.items():
            file = folder / key.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(value if isinstance(value, bytes) else f"{value}\n".encode())
        return self.sysfs.device(path)

    def disk(self, path: str, minor: int, **attributes: str | bytes) -> SysDevice:
        name = path.rpartition("/")[2]
        uevent = {"MAJOR": "8", "MINOR": str(minor), "DEVNAME": name, "DEVTYPE": "disk"}
        above = self.root / path.removeprefix("/").rpartition("/block/")[0]
        device = self.add(path, "block", uevent, **{"size": "20971520", "ro": "0", **attributes})
        if "/block/" in path and not (self.root / path[1:] / "device").exists():
            (self.root / path[1:] / "device").symlink_to(above)
        return device

    def partition(self, disk: SysDevice, number: int, minor: int, name: str = "") -> SysDevice:
        name = name or f"{disk.kernel_name}{number}"
        uevent = {"MAJOR": "8", "MINOR": str(minor), "DEVNAME": name, "DEVTYPE": "partition"}
        return self.add(
            f"{disk.path}/{name}",
            "block",
            {**uevent, "PARTN": str(number)},
            partition=str(number),
            size="2048",
            start="2048",
            ro="0",
        )

    def remove(self, device: SysDevice) -> None:
        """As the kernel does: the folder and every link to it."""
        folder = self.root / device.path[1:]
        links = [
            link
            for top in ("class", "bus", "dev")
            for link in (self.root / top).rglob("*")
            if link.is_symlink() and (link.resolve() == folder or folder in link.resolve().parents)
        ]
        for link in links:
            link.unlink()
        for path in sorted(folder.rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()
        folder.rmdir()

    def _link(self, link: Path, target: Path) -> None:
        link.unlink(missing_ok=True)
        link.symlink_to(target)


PCI = "/devices/pci0000:00"


def add_pci(fake: FakeSysfs, path: str, **attributes: str | bytes) -> str:
    """A PCI device with what is always there; answers its path."""
    whole = f"{PCI}/{path}"
    values: dict[str, str | bytes] = {"class": "0x020000", "vendor": "0x8086", "device": "0x10d3"}
    fake.add(whole, "pci", None, **(values | attributes))
    return whole


def add_ahci_disk(fake: FakeSysfs, name: str = "sda", *, target: int = 0, **unit: str | bytes) -> SysDevice:
    """A disk on the first port of an AHCI controller, as QEMU's q35 has it."""
    card = add_pci(fake, "0000:00:1f.2")
    fake.add(f"{card}/ata1", "", None)
    fake.add(f"{card}/ata1/ata_port/ata1", "ata_port", None, port_no="1")
    host = f"{card}/ata1/host0"
    fake.add(host, "scsi", {"DEVTYPE": "scsi_host"})
    fake.add(f"{host}/scsi_host/host0", "scsi_host", None, proc_name="ahci")
    fake.add(f"{host}/target0:0:{target}", "scsi", {"DEVTYPE": "scsi_target"})
    place = f"{host}/target0:0:{target}/0:0:{target}:0"
    values: dict[str, str | bytes] = {
        "vendor": "ATA     ",
        "model": "QEMU HARDDISK   ",
        "modalias": "scsi:t-0x00",
    }
    fake.add(place, "scsi", {"DEVTYPE": "scsi_device"}, **(values | unit))
    return fake.disk(f"{place}/block/{name}", 0, queue__rotational="1", queue__logical_block_size="512")


def make_page_89(model: str, serial: str, revision: str, wwn: int = 0) -> bytes:
    """VPD page 0x89 with IDENTIFY data, its texts as disks keep them: bytes of a word swapped."""
    data = bytearray(512)

    def put(first: int, length: int, text: str) -> None:
        raw = text.encode().ljust(length)
        for at in range(0, length, 2):
            data[first * 2 + at : first * 2 + at + 2] = raw[at : at + 2][::-1]

    put(10, 20, serial)
    put(23, 8, revision)
    put(27, 40, model)
    if wwn:
        data[168:170] = data[174:176] = (0x4100).to_bytes(2, "little")
        for index in range(4):
            part = wwn >> (48 - 16 * index) & 0xFFFF
            data[216 + index * 2 : 218 + index * 2] = part.to_bytes(2, "little")
    return bytes([0, 0x89, 2, 0x38]) + bytes(56) + bytes(data)


def make_page_83(*designators: tuple[int, int, bytes]) -> bytes:
    """VPD page 0x83 of (code set, type, data)."""
    body = b"".join(bytes([code, kind, 0, len(data)]) + data for code, kind, data in designators)
    return bytes([0, 0x83]) + len(body).to_bytes(2, "big") + body
