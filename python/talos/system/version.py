"""Which version of the product this is.

On a machine the answer is in the ``os-release`` that came with its initramfs, on other nodes in
``/etc/os-release``, which has no commit: the image does not depend on it. In a work tree it is the
VERSION file at its top.
"""

import functools
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

OS_RELEASE = Path("/etc/os-release")
STAMP = Path("/usr/install/release/os-release")
"""The same file with the commit."""
OS_ID = "talos"
COMMIT_TIME = "COMMIT_TIME"
"""Its field with the commit's time, where that is known."""
_MACHINE = os.uname().machine
_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(_MACHINE, _MACHINE)
_WORK_TREE = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The version's tag, the commit it was built from, and for which machines.

    ``built`` is empty: a time would make two builds of one commit differ. ``commit_time`` is that of the
    commit in seconds since the epoch, 0 where it is not known.
    """

    tag: str
    sha: str
    built: str = ""
    commit_time: int = 0
    language: str = f"CPython {sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    os: str = sys.platform
    arch: str = _ARCHITECTURE


@functools.cache
def get_version() -> Version:
    """The version of this installation."""
    return read_version(STAMP if STAMP.is_file() else OS_RELEASE, _WORK_TREE)


def read_version(os_release: Path, work_tree: Path) -> Version:
    """The version in an os-release file, else the one of a work tree."""
    try:
        fields: Mapping[str, str] = parse_os_release(os_release.read_text(encoding="utf-8"))
    except OSError:
        fields = {}
    if fields.get("ID") == OS_ID:
        time = fields.get(COMMIT_TIME, "")
        return Version(
            tag=fields.get("VERSION_ID", "unknown"),
            sha=fields.get("BUILD_ID", "unknown"),
            commit_time=int(time) if time.isascii() and time.isdecimal() else 0,
        )
    try:
        tag = (work_tree / "VERSION").read_text(encoding="utf-8").strip()
    except OSError:
        tag = "unknown"
    return Version(tag=tag, sha="dirty")


def parse_os_release(text: str) -> Mapping[str, str]:
    """The fields of an os-release file, quotes taken off."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, value in pairs}
