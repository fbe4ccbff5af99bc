"""Names of PCI devices: those of the public list of ids that the image has (modules/rootfs/make_base.py)."""

import mmap
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

FILE = Path("/usr/share/misc/pci.ids")

_END = re.compile(rb"\n(?!\t)|\Z")
"""Of a vendor, or of a class: what belongs to it is indented."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardNames:
    """Each is empty where the list has none."""

    vendor: str = ""
    product: str = ""
    kind: str = ""
    subclass: str = ""


@lru_cache(maxsize=256)  # a card has up to 256 functions of the same ids
def find_names(vendor: int, product: int, kind: int, subclass: int, file: Path = FILE) -> CardNames:
    """The names of a device; none without the list, which is a part of the node image."""
    try:
        with file.open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as ids:
            vendor_name, product_name = _find_pair(ids, b"%04x" % vendor, b"%04x" % product)
            kind_name, subclass_name = _find_pair(ids, b"C %02x" % kind, b"%02x" % subclass)
    except (OSError, ValueError):
        return CardNames()
    return CardNames(vendor=vendor_name, product=product_name, kind=kind_name, subclass=subclass_name)


def _find_pair(ids: mmap.mmap, outer: bytes, inner: bytes) -> tuple[str, str]:
    """The name of a line, and that of one of the lines that belong to it."""
    begin = ids.find(b"\n%s  " % outer)
    if begin < 0:
        return "", ""
    end = _END.search(ids, begin + 1)
    assert end is not None
    within = ids.find(b"\n\t%s  " % inner, begin, end.start())
    return _read_name(ids, begin), _read_name(ids, within) if within >= 0 else ""


def _read_name(ids: mmap.mmap, begin: int) -> str:
    end = ids.find(b"\n", begin + 1)
    return ids[begin : end if end >= 0 else len(ids)].partition(b"  ")[2].decode(errors="replace").strip()
