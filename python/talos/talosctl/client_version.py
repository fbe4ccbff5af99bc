"""The version of this program: what its build stamped, else the source tree's."""

from pathlib import Path

from talos.system.version import Version, get_version

VERSION_FILE = Path(__file__).with_name("version.txt")
"""Put beside the package by the build: the tag and the commit, a line each."""


def client_version() -> Version:
    """What ``talosctl version --client`` shows."""
    if not VERSION_FILE.is_file():
        return get_version()
    tag, sha, *_ = (*VERSION_FILE.read_text(encoding="utf-8").split("\n"), "")
    return Version(tag=tag, sha=sha)
