"""Whether this machine can run nodes as virtual machines."""

from pathlib import Path

from talos.provision.cluster import ClusterRequest
from talos.provision.qemu.programs import find_programs
from talos.system.errors import UserError

# ISO 9660: the volume descriptors begin at sector 16 of 2048 bytes, with a type and these letters.
_PLACE, _MAGIC = 16 * 2048 + 1, b"CD001"
_HINT = "build it: make assets, which makes build/talos.iso"


def check_machine(request: ClusterRequest) -> None:
    """All checks; each failure names the remedy."""
    find_programs()
    if not Path("/dev/net/tun").exists():
        raise UserError("the kernel has no tap devices", where="/dev/net/tun", hint="load them: modprobe tun")
    check_iso(request.image)


def check_iso(image: Path) -> None:
    """What the machines start from."""
    try:
        with image.open("rb") as file:
            file.seek(_PLACE)
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise UserError(f"the image can't be read: {error.strerror}", where=str(image), hint=_HINT) from None
    if magic != _MAGIC:
        raise UserError("this is no ISO image", where=str(image), hint=_HINT)
