"""Make $out, a script that unpacks itself: $start, and an archive of $package and what it needs of $client.

The host's loader and libraries are not used: a script named `python` starts the loader that is unpacked.
What the program does not need stays out: what $leave_out names, and tools for clusters' disks.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import elf
from archive import find_files, pack

LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = "ld-linux-x86-64.so.2"
OPENED = ("libblkid.so.1", "libzstd.so.1", "libnss_dns.so.2", "libnss_files.so.2")
"""Libraries that are opened by name."""
LEFT_OUT = ("*.pyi", "start.bundle", *os.environ["leave_out"].split())
PYTHON = f"""\
#!/bin/sh
root=$(dirname "$0")
exec "$root/lib/{LOADER}" --library-path "$root/lib" "$root/bin/python3.13" "$@"
"""
MEGABYTE = 1_000_000


def find_libraries(files: Iterable[Path], libraries: Path) -> dict[str, Path]:
    """The libraries that ELF files need, and theirs. Wheels bring some themselves, beside what needs them."""
    found: dict[str, Path] = {}
    wanted = [LOADER, *OPENED, *(name for path in files if elf.is_elf(path) for name in elf.needed(path))]
    while wanted:
        name = wanted.pop()
        source = libraries / name
        if f"lib/{name}" in found or not source.exists():
            continue
        found[f"lib/{name}"] = source.resolve()
        wanted += elf.needed(source)
    return found


def find_members(client: Path, package: Path) -> dict[str, Path]:
    """What is unpacked, but for scripts: files by their paths in the archive."""
    members = {"bin/python3.13": client / "usr/bin/python3.13"}
    members |= find_files(client / "usr/lib/python3.13", "lib/python3.13", LEFT_OUT)
    members |= find_files(client / "usr/lib/python3/dist-packages", "site", LEFT_OUT)
    members |= find_files(package / "lib", "program", LEFT_OUT)
    return members | find_libraries(members.values(), client / LIBRARIES)


def make_launcher() -> bytes:
    """What starts the program."""
    return Path(os.environ["launcher"]).read_bytes().replace(b"@module@", os.environ["module"].encode())


def main() -> None:
    """Write $out."""
    name = os.environ["program"]
    members = find_members(Path(os.environ["client"]), Path(os.environ["package"]))
    archive = pack({"python": (PYTHON.encode(), 0o755), "launch.py": (make_launcher(), 0o644)}, members)
    size = sum(path.stat().st_size for path in members.values())
    values = {
        "name": name,
        "version": os.environ["version"],
        "digest": hashlib.sha256(archive).hexdigest(),
        "megabytes": str(-(-size // MEGABYTE)),
    }
    start = Path(os.environ["start"]).read_text()
    for name, value in values.items():
        start = start.replace(f"@{name}@", value)
    # The first byte behind the script, counted from 1, as tail does; as long as the word that it replaces.
    word = "@offset@"
    start = start.replace(word, f"{len(start.encode()) + 1:0{len(word)}}")
    out = Path(os.environ["out"])
    out.write_bytes(start.encode() + archive)
    out.chmod(0o755)
    print(f"{name}: {out.stat().st_size / MEGABYTE:.1f} MB, unpacked {size / MEGABYTE:.1f} MB")


main()
