"""The version of this program: the image's when it was built as one, else the source tree's."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientVersion:
    """What ``talosctl version --client`` shows."""

    tag: str
    sha: str
    built: str


def client_version() -> ClientVersion:
    """From the file that the build puts beside the package, or from the tree's VERSION."""
    stamp = Path(__file__).with_name("version.txt")
    if stamp.is_file():
        words = (*stamp.read_text(encoding="utf-8").split("\n"), "", "", "")
        return ClientVersion(tag=words[0], sha=words[1], built=words[2])
    tree = Path(__file__).parents[3] / "VERSION"
    tag = tree.read_text(encoding="utf-8").strip() if tree.is_file() else "unknown"
    return ClientVersion(tag=tag, sha="dirty", built="")
