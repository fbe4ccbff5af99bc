"""The firmware's own variables, which the kernel shows as files (Documentation/filesystems/efivarfs.rst).

What they are kept in is small, wears out, and is the board's own: variables are made and deleted, never
changed, and a new one is read back. Those that the owner of the machine signs are added to.
"""

import errno
import fcntl
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

FOLDER = "/sys/firmware/efi/efivars"
GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
"""The vendor of the variables that the UEFI specification defines."""
IMAGE_SECURITY = "d719b2cb-3d3a-4596-a3bc-dad00e67656f"
"""The vendor of the databases of Secure Boot."""
LOADER = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
"""The vendor of the variables of boot loaders (systemd.io/BOOT_LOADER_INTERFACE)."""
ATTRIBUTES = struct.Struct("<I")
"""Before a variable's value."""
KEPT = 0x7
"""NON_VOLATILE, BOOTSERVICE_ACCESS, RUNTIME_ACCESS."""
SIGNED = 0x20
"""TIME_BASED_AUTHENTICATED_WRITE_ACCESS: the value begins with a time and a signature."""
APPEND = 0x40
"""APPEND_WRITE: what is written is added to what is there."""
# linux/fs.h: FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_IMMUTABLE_FL. The kernel takes an int.
_GET_FLAGS, _SET_FLAGS, _IMMUTABLE = 0x80086601, 0x40086602, 0x10
_FLAGS = struct.Struct("<i")
_MAX_VALUE = 64 << 10
"""Bytes that are read of one: firmware takes 32 KiB at most."""


@dataclass(frozen=True, slots=True)
class EfiVariables:
    """Those of one vendor. OSError: firmware without room, or that refuses writes."""

    folder: Path = Path(FOLDER)
    vendor: str = GLOBAL

    def list(self) -> Sequence[str]:
        """Their names; none where the machine was started without UEFI."""
        try:
            names = sorted(path.name for path in self.folder.iterdir())
        except FileNotFoundError:
            return ()
        end = f"-{self.vendor}"
        return [name.removesuffix(end) for name in names if name.endswith(end)]

    def read(self, name: str) -> bytes | None:
        """A value; None where there is no such variable."""
        try:
            with self._path(name).open("rb", buffering=0) as file:
                return file.read(_MAX_VALUE)[ATTRIBUTES.size :]
        except FileNotFoundError:
            return None

    def make(self, name: str, value: bytes) -> None:
        """Make a variable, which must not be there yet."""
        self._write(name, ATTRIBUTES.pack(KEPT) + value, os.O_EXCL)
        if self.read(name) != value:
            self._drop(name)
            raise OSError(errno.EIO, "reads differently from what was written", str(self._path(name)))

    def append(self, name: str, update: bytes) -> None:
        """Add to a variable, which need not be there, by an update that firmware finds signed.

        PermissionError where it does not.
        """
        path = self._path(name)
        if path.exists():
            _unlock(path)
        self._write(name, ATTRIBUTES.pack(KEPT | SIGNED | APPEND) + update)

    def _write(self, name: str, content: bytes, flags: int = 0) -> None:
        """Hand attributes and value to the kernel; one that is refused leaves no new variable."""
        path = self._path(name)
        is_new = not path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, 0o644)
        try:
            os.write(descriptor, content)  # whole, or it is refused
        except OSError:
            if is_new:
                self._drop(name)
            raise
        finally:
            os.close(descriptor)

    def _drop(self, name: str) -> None:
        """Delete one that was not made: the kernel shows its file all the same."""
        with suppress(OSError):
            self.delete(name)

    def delete(self, name: str) -> None:
        """Delete a variable, if it is there."""
        path = self._path(name)
        if path.exists():
            _unlock(path)
            path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}-{self.vendor}"


def _unlock(path: Path) -> None:
    """Have the kernel delete a variable that the UEFI specification does not define: it guards those."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        (flags,) = _FLAGS.unpack(fcntl.ioctl(descriptor, _GET_FLAGS, bytes(_FLAGS.size)))
        if flags & _IMMUTABLE:
            fcntl.ioctl(descriptor, _SET_FLAGS, _FLAGS.pack(flags & ~_IMMUTABLE))
    except OSError as error:
        if error.errno not in (errno.ENOTTY, errno.EOPNOTSUPP):  # a filesystem without such flags
            raise
    finally:
        os.close(descriptor)
