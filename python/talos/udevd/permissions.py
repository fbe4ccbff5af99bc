"""Who may open a device: mode and group by class, where the kernel's own ``0600 root`` won't do.

The kernel makes nodes itself with some modes (``/dev/null``, ``/dev/tty``); this is what
systemd's ``50-udev-default.rules`` adds, for the groups that the image has. What users of pods need
beyond that is for device plugins, or for ``machine.udev.rules``.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from talos.system.block.sysfs import SysDevice

# /etc/group of the image; their numbers are Debian's and, for kvm, Arch's.
GROUPS = {"root": 0, "tty": 5, "disk": 6, "kvm": 78}
USERS = {"root": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """None keeps the kernel's default."""

    mode: int | None = None
    gid: int | None = None
    uid: int | None = None


# Subsystem ("" is any) and kernel name to mode and group; the first that fits.
_TABLE = (
    ("tty", "ptmx", 0o666, "tty"),
    ("tty", "tty", 0o666, "tty"),
    ("tty", "tty[0-9]*", 0o620, "tty"),
    ("tty", "console", 0o620, "tty"),
    ("tty", "tty[A-Z]*[0-9]", 0o660, "tty"),
    ("tty", "hvc[0-9]*", 0o660, "tty"),
    ("vc", "*", 0o660, "tty"),
    ("mem", "null", 0o666, "root"),
    ("mem", "zero", 0o666, "root"),
    ("mem", "full", 0o666, "root"),
    ("mem", "random", 0o666, "root"),
    ("mem", "urandom", 0o666, "root"),
    ("mem", "kmsg", 0o644, "root"),
    ("mem", "mem", 0o640, "root"),
    ("mem", "port", 0o640, "root"),
    ("block", "*", 0o660, "disk"),
    ("scsi_generic", "*", 0o660, "disk"),
    ("nvme", "*", 0o600, "root"),
    ("misc", "loop-control", 0o660, "disk"),
    ("ptp", "ptp[0-9]*", 0o644, "root"),  # timed reads it
    ("misc", "kvm", 0o666, "kvm"),
    ("misc", "vhost-net", 0o666, "kvm"),
    ("misc", "vhost-vsock", 0o666, "kvm"),
    ("misc", "vsock", 0o666, "root"),
    ("misc", "udmabuf", 0o660, "kvm"),
    ("misc", "tun", 0o666, "root"),
    ("misc", "fuse", 0o666, "root"),
    ("misc", "rfkill", 0o664, "root"),
    ("misc", "sgx_enclave", 0o660, "root"),
    ("drm", "renderD*", 0o666, "root"),
    ("drm", "*", 0o660, "root"),
    ("kfd", "*", 0o666, "root"),
    ("input", "js[0-9]*", 0o664, "root"),
    ("input", "*", 0o660, "root"),
    ("sound", "*", 0o660, "root"),
    ("video4linux", "*", 0o660, "root"),
    ("media", "*", 0o660, "root"),
    ("graphics", "*", 0o660, "root"),
    ("usb", "*", 0o664, "root"),
)


def find_permission(device: SysDevice) -> Permission:
    """The permission that a device's class has."""
    subsystem, name = device.subsystem, device.kernel_name
    for wanted, pattern, mode, group in _TABLE:
        if wanted == subsystem and fnmatchcase(name, pattern):
            return Permission(mode=mode, gid=GROUPS[group])
    return Permission()
