"""The tables beside the .proto files."""

from collections.abc import Iterator, Mapping
from pathlib import Path

# Not importlib.resources: it takes longer to import than everything here to run.
_FOLDER = Path(__file__).parent


def read_table(name: str | Path) -> Iterator[Mapping[str, str]]:
    """The rows of a tab-separated table of this folder, or at a path, each by the names in the head line."""
    lines = (_FOLDER / name).read_text(encoding="utf-8").splitlines()
    head = lines[0].split("\t")
    return (dict(zip(head, line.split("\t"), strict=True)) for line in lines[1:])
