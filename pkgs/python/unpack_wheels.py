"""Unpack wheels into $out: `site` holds the modules, `bin` the programs some wheels bring."""

import os
import zipfile
from pathlib import Path

from fix_wheels import fix_wheels

EXECUTABLE = 0o111


def place(name: str) -> Path:
    """Where a member of a wheel goes."""
    top, _, rest = name.partition("/")
    if not top.endswith(".data"):
        return Path("site", name)
    kind, _, rest = rest.partition("/")
    return Path("bin" if kind == "scripts" else "site", rest)


def main() -> None:
    """Unpack every wheel of $wheels, in the lock's order."""
    out = Path(os.environ["out"])
    for wheel in os.environ["wheels"].split():
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                if member.is_dir():
                    continue
                target = out / place(member.filename)
                if target.exists():
                    raise SystemExit(f"{wheel}: {member.filename} is already there from another wheel")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(member))
                if target.parts[-2] == "bin" or (member.external_attr >> 16) & EXECUTABLE:
                    target.chmod(0o755)
    fix_wheels(out / "site")


main()
