"""The layer in memory above the image's /etc: files that others see appear there, or replace the image's."""

import os
from dataclasses import dataclass
from pathlib import Path

from talos.system.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcLayer:
    """Its folders: ``image`` is /etc as the image has it, ``writable`` is /etc with what was written."""

    folder: Path

    @property
    def image(self) -> Path:
        """/etc of the image."""
        return self.folder / "image"

    @property
    def writable(self) -> Path:
        """/etc as all see it, but writable."""
        return self.folder / "merged"

    def read_image(self, name: str) -> bytes:
        """A file of the image; empty when it has none of this name. OSError."""
        path = self.image / name
        return path.read_bytes() if path.is_file() else b""

    def write(self, name: str, content: bytes, mode: int) -> None:
        """Write a file in one step, with the folders that it needs. UserError, OSError."""
        path = self._find(name)
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.tmp")
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(content)
        new.chmod(mode)  # whatever the process masks
        new.replace(path)

    def remove(self, name: str) -> None:
        """Take a file back: the image's is there again, if it has one. UserError, OSError."""
        original = self.image / name
        if original.is_file():
            self.write(name, original.read_bytes(), original.stat().st_mode & 0o777)
        else:
            self._find(name).unlink(missing_ok=True)

    def _find(self, name: str) -> Path:
        path = self.writable / name
        if not path.parent.resolve().is_relative_to(self.writable.resolve()):
            raise UserError(f"/etc/{name} is behind a link to another place", hint="choose another name")
        return path


ETC_LAYER = EtcLayer(folder=Path("/system/overlays/etc"))
