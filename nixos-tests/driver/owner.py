"""The owner of machines with Secure Boot: keys, what they sign, and UKIs of a test's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from driver.disks import make_esp
from driver.machine import Machine
from driver.node import Disk, Node
from driver.process import run
from driver.releases import FIRST, Releases
from driver.scenarios import install, read_system, set_mirrors, wait_for_installed
from driver.world import World

LOADER = "EFI/BOOT/BOOTX64.EFI"
IMAGES = "EFI/Linux"
ARGUMENTS = "talos.platform=metal console=ttyS0 console=tty0"
DATABASES = ("PK.auth", "KEK.auth", "db.auth")
DISKS = {"system": Disk(size="8G"), "stick": Disk(size="1M")}
"""Firmware tries them in this order; an owner makes what is on the stick."""
SIGNED = Node(boot="uefi", secure_boot=True, watchdog=True, memory=2048, disks=DISKS)
"""A machine that is installed from an owner's stick."""
_SYSTEMD = "usr/lib/systemd/boot/efi"


@dataclass(frozen=True, slots=True)
class Owner:
    """Someone with keys, who signs by the assets sign-efi, sign-disk, sign-iso and sign-release."""

    world: World
    name: str

    @property
    def keys(self) -> Path:
        return self.world.folder / f"keys-{self.name}"

    def make_keys(self) -> None:
        for kind in ("uki", "database"):
            files = ["--enrolled-certificate", "--signing-certificate", "--signing-key"]
            names = [self.keys / f"uki-signing-{part}.pem" for part in ("cert", "cert", "key")]
            named = [str(word) for pair in zip(files, names, strict=True) for word in pair]
            argv = ["gen", "secureboot", kind, "--output", str(self.keys)]
            run([str(self.world.talosctl), *argv, *(named if kind == "database" else ())], seconds=120)

    def make_policy_key(self) -> None:
        """From then on what is signed has the signed policy of PCR 11."""
        argv = ["gen", "secureboot", "pcr", "--output", str(self.keys)]
        run([str(self.world.talosctl), *argv], seconds=120)

    def make_update(self, name: str, *, add: Path | None = None, revoke: Path | None = None) -> Path:
        """A signed update of ``db`` or ``dbx``, which the firmware takes as it has this owner's KEK."""
        out, pem = self.keys / name, self.keys / "uki-signing"
        argv = ["gen", "secureboot", "update", "--output", str(out)]
        argv += ["--signing-certificate", f"{pem}-cert.pem", "--signing-key", f"{pem}-key.pem"]
        argv += ["--add", str(add)] if add else ["--revoke", str(revoke)]
        run([str(self.world.talosctl), *argv], seconds=120)
        (update,) = out.iterdir()
        return update

    def sign(self, image: Path) -> tuple[bytes, str]:
        """A signed copy, and the key as the program shows it."""
        out = self.world.folder / f"{self.name}-{image.name}"
        argv = ["--key", f"{self.keys}/uki-signing-key.pem"]
        argv += ["--certificate", f"{self.keys}/uki-signing-cert.pem", "--out", str(out), str(image)]
        done = run([str(self.world.assets.path("sign-efi") / "bin/sign-efi"), *argv], seconds=120)
        return out.read_bytes(), done.stdout.split()[-1]

    def make_stick(self, uki: Path, disk: Path) -> None:
        """A stick with systemd-boot and this UKI, both signed, and the keys, which systemd-boot enrolls."""
        (image,) = (uki / IMAGES).glob("*.efi")
        files = {LOADER: self.sign(uki / LOADER)[0], f"{IMAGES}/{image.name}": self.sign(image)[0]}
        files |= {f"loader/keys/auto/{name}": (self.keys / name).read_bytes() for name in DATABASES}
        files["loader/loader.conf"] = b"secure-boot-enroll if-safe\n"
        make_esp(self.world.programs, self.world.folder, disk, files, partitioned=True)

    def sign_disk(self, uki: Path, disk: Path, size: str) -> None:
        """The disk image with this UKI, signed, in the place of a machine's disk."""
        assets, raw = self.world.assets, self.world.folder / "signed.raw"
        argv = ["--keys", str(self.keys), "--uki", str(uki), "--out", str(raw)]
        image = assets.path("disk-image") / "disk.raw"
        run([str(assets.path("sign-disk") / "bin/sign-disk"), *argv, str(image)], seconds=120)
        qemu_img = self.world.programs.argv("qemu-img")
        run([*qemu_img, "convert", "-f", "raw", "-O", "qcow2", str(raw), str(disk)], seconds=120)
        run([*qemu_img, "resize", "-q", str(disk), size])
        raw.unlink()

    def sign_iso(self, uki: Path) -> tuple[Path, str]:
        """The ISO with this UKI, signed, and the key as the program shows it."""
        assets, out = self.world.assets, self.world.folder / f"{self.name}.iso"
        argv = ["--keys", str(self.keys), "--uki", str(uki), "--out", str(out), str(assets.path("iso"))]
        done = run([str(assets.path("sign-iso") / "bin/sign-iso"), *argv], seconds=120)
        return out, done.stdout.split()[-1]

    def sign_release(self, release: Path, uki: Path, updates: Mapping[str, Path] | None = None) -> Path:
        """A release of this UKI, signed, of one with kernel and initramfs; ``updates`` by their databases."""
        out = release.with_name(f"{self.name}-{release.name}")
        argv = ["--keys", str(self.keys), "--uki", str(uki), "--out", str(out), str(release)]
        argv += [word for name, path in (updates or {}).items() for word in (f"--{name}", str(path))]
        run([str(self.world.assets.path("sign-release") / "bin/sign-release"), *argv], seconds=120)
        return out


def install_signed(node: Machine, owner: Owner, releases: Releases) -> Path:
    """Have firmware take an owner's keys, and the machine install itself from a stick; the unsigned UKI."""
    world = owner.world
    uki = make_uki(world, FIRST, releases.initramfs(FIRST))
    owner.make_stick(uki, node.disk("stick"))
    node.start()
    node.wait_for_console_text("Enrolling secure boot keys", 240)
    node.wait_for_reset()
    install(node, world.cluster())
    wait_for_installed(node)
    set_mirrors(node, releases)
    assert read_system(node) == f"{FIRST} by talos-a.efi"
    return uki


def make_uki(world: World, version: str, initramfs: Path, arguments: str = "", confirmed: str = "") -> Path:
    """What `.#uki` is, of another version: by ukify of the asset uki-tools, with the kernel's further
    arguments; those that are ``confirmed`` are left out of a trial."""
    tools, folder = world.assets.path("uki-tools"), world.folder / f"uki-{version}"
    loader, image = folder / LOADER, folder / IMAGES / f"Talos-{version}.efi"
    for path in (loader, image):
        path.parent.mkdir(parents=True)
    loader.write_bytes((tools / _SYSTEMD / "systemd-bootx64.efi").read_bytes())
    os_release, trial = folder / "os-release", folder / "trial.efi"
    os_release.write_text(f"NAME=Talos\nID=talos\nVERSION_ID={version}\nPRETTY_NAME=Talos\n")
    cmdline = f"{world.assets.path('cmdline').read_text().strip()} {ARGUMENTS} {arguments}".strip()
    ukify = [f"{tools}/usr/lib64/ld-linux-x86-64.so.2", "--library-path", f"{tools}/usr/lib/x86_64-linux-gnu"]
    ukify += [f"{tools}/usr/bin/python3.13", f"{tools}/usr/bin/ukify", "build", "--efi-arch=x64"]
    env = {"PYTHONHOME": f"{tools}/usr", "PYTHONPATH": f"{tools}/usr/lib/python3/dist-packages"}
    addon, stub = (f"--stub={tools / _SYSTEMD / name}" for name in ("addonx64.efi.stub", "linuxx64.efi.stub"))
    words = [addon, "--profile=ID=trial", f"--cmdline={cmdline} talos.trial"]
    run([*ukify, *words, f"--output={trial}"], env=env, seconds=120)
    words = [stub, f"--linux={world.assets.path('kernel') / 'vmlinuz'}", f"--initrd={initramfs}"]
    words += [f"--os-release=@{os_release}", f"--cmdline={cmdline} {confirmed}".strip(), "--profile=ID=main"]
    run([*ukify, *words, f"--join-profile={trial}", f"--output={image}"], env=env, seconds=120)
    return folder
