"""Which of two versions is older: Debian's rule, Go's, Python's."""

import re
from collections.abc import Callable
from functools import cmp_to_key
from itertools import zip_longest
from typing import Any

from packaging.version import InvalidVersion, Version

type Order = Callable[[str], Any]
"""Makes of a version what compares; ValueError."""

_DEBIAN = re.compile(r"(?:(\d+):)?([A-Za-z0-9.+~:-]+?)(?:-([A-Za-z0-9.+~]+))?")
_SEMVER = re.compile(r"v?(\d+)(?:[.](\d+))?(?:[.](\d+))?(?:-([0-9A-Za-z.-]+))?(?:[+].*)?")
MAX_VERSION = 256
"""Characters."""


def debian_order(version: str) -> Any:
    """By deb-version(7): epoch, upstream's version, revision."""
    match = _DEBIAN.fullmatch(version) if len(version) <= MAX_VERSION else None
    if match is None:
        raise ValueError(f"{version[:MAX_VERSION]!r} is no version of a Debian package")
    epoch, upstream, revision = match.groups()
    return int(epoch or 0), _debian_key(upstream), _debian_key(revision or "")


def _rank(character: str) -> int:
    """``~`` before the end, the end before letters, letters before the rest."""
    if character == "~":
        return -1
    if not character:
        return 0
    return ord(character) if character.isalpha() else ord(character) + 256


def _compare(first: str, second: str) -> int:
    """Parts without digits by rank, parts of digits as numbers, in turn."""
    parts = [re.findall(r"(\D*)(\d*)", text) for text in (first, second)]
    for (a, number_a), (b, number_b) in zip_longest(*parts, fillvalue=("", "")):
        for x, y in zip_longest(a, b, fillvalue=""):
            if _rank(x) != _rank(y):
                return -1 if _rank(x) < _rank(y) else 1
        if int(number_a or 0) != int(number_b or 0):
            return -1 if int(number_a or 0) < int(number_b or 0) else 1
    return 0


_debian_key = cmp_to_key(_compare)


def go_order(version: str) -> Any:
    """By semver.org's item 11; a release is after its pre-releases, build metadata does not count."""
    match = _SEMVER.fullmatch(version.removeprefix("go")) if len(version) <= MAX_VERSION else None
    if match is None:
        raise ValueError(f"{version[:MAX_VERSION]!r} is no version of a Go module")
    *numbers, before = match.groups()
    words = [(0, int(word), "") if word.isdecimal() else (1, 0, word) for word in (before or "").split(".")]
    return tuple(int(number or 0) for number in numbers), before is None, words


def python_order(version: str) -> Any:
    """By PEP 440."""
    try:
        if len(version) <= MAX_VERSION:
            return Version(version)
    except InvalidVersion:
        pass
    raise ValueError(f"{version[:MAX_VERSION]!r} is no version of a wheel")


ORDERS: dict[str, Order] = {"Debian": debian_order, "Go": go_order, "PyPI": python_order}
"""By ecosystem, as OSV names it."""
