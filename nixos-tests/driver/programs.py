"""QEMU and its like from the pinned roots, with their own loader: nothing of the host's is loaded."""

from dataclasses import dataclass
from pathlib import Path

from driver.failure import VmTestError

LOADER = "lib64/ld-linux-x86-64.so.2"
LIBRARIES = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib",
    "usr/lib/x86_64-linux-gnu/systemd",
    "usr/lib/x86_64-linux-gnu/swtpm",
)
FOLDERS = ("usr/bin", "usr/sbin")


@dataclass(frozen=True, slots=True)
class Programs:
    """The roots, in the order in which they are searched."""

    roots: tuple[Path, ...]

    def argv(self, name: str) -> list[str]:
        """The start of the argv that runs a program of the roots."""
        for root in self.roots:
            for folder in FOLDERS:
                program = root / folder / name
                if program.exists():
                    path = ":".join(str(root / folder) for folder in LIBRARIES)
                    return [str(root / LOADER), "--library-path", path, str(program)]
        raise VmTestError(f"there is no program {name} in {', '.join(map(str, self.roots))}")

    def file(self, path: str) -> Path:
        """A file of the roots."""
        for root in self.roots:
            if (root / path).exists():
                return root / path
        raise VmTestError(f"there is no file {path} in {', '.join(map(str, self.roots))}")

    @property
    def qemu(self) -> list[str]:
        """QEMU, with the path of its firmware."""
        argv = self.argv("qemu-system-x86_64")
        for folder in ("usr/share/qemu", "usr/share/seabios"):
            argv += ["-L", str(self.file(folder))]
        return argv
