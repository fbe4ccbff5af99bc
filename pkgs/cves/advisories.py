"""What vulnerabilities a feed has: OSV records, Debian's tracker, records of CVE numbering authorities.

A feed is the user's: files may be broken or hostile. What can't be used is an error with its place; nothing
in a feed is run, fetched or used as a path.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ordering import Order

MAX_FILE = 1 << 30
"""Bytes of a file; Debian's tracker has 70 MB."""
MAX_TEXT = 200
"""Characters of what is shown of a text of the feed."""
IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


class FeedError(Exception):
    """A feed that can't be used: one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Versions that are affected: from ``introduced`` ("0": all), before ``fixed``, or up to ``last``."""

    introduced: str = "0"
    fixed: str = ""
    last: str = ""

    def contains(self, version: str, order: Order) -> bool:
        """Whether a version is in it; ValueError."""
        if self.introduced != "0" and order(version) < order(self.introduced):
            return False
        if self.fixed:
            return bool(order(version) < order(self.fixed))
        return not self.last or bool(order(version) <= order(self.last))


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """A vulnerability of a package. ``versions`` are affected beside those of the ranges."""

    id: str
    ecosystem: str
    package: str
    summary: str = ""
    severity: str = ""
    ranges: tuple[Range, ...] = ()
    versions: frozenset[str] = frozenset()

    def find_fix(self, version: str, order: Order) -> str | None:
        """The version that has the fix, "" where there is none yet; None when not affected. ValueError."""
        for each in self.ranges:
            if each.contains(version, order):
                return each.fixed
        return "" if version in self.versions else None


@dataclass(slots=True)
class Feed:
    """All that was read: advisories by ecosystem and package, and the files of the kernel's CVEs."""

    release: str
    advisories: dict[tuple[str, str], list[Advisory]] = field(
        default_factory=dict[tuple[str, str], list[Advisory]]
    )
    files: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def add(self, advisory: Advisory) -> None:
        """Add one."""
        self.advisories.setdefault((advisory.ecosystem, advisory.package), []).append(advisory)

    def read(self, path: Path) -> None:
        """Read a file, or all below a folder; FeedError."""
        if path.is_dir():
            for each in sorted(path.rglob("*.json")):
                self._read_file(each)
        else:
            self._read_file(path)

    def _read_file(self, path: Path) -> None:
        try:
            if path.stat().st_size > MAX_FILE:
                raise FeedError(f"{path}: has more than {MAX_FILE} bytes")
            document = json.loads(path.read_bytes())
        except OSError as error:
            raise FeedError(f"{path}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise FeedError(f"{path}: is no JSON: {str(error)[:MAX_TEXT]}") from None
        try:
            self._add_document(document)
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
            raise FeedError(f"{path}: is neither OSV nor Debian's tracker: {error!r}"[:MAX_TEXT]) from None

    def _add_document(self, document: Any) -> None:
        if isinstance(document, list):
            for each in cast("list[Any]", document):
                self._add_document(each)
        elif document.get("dataType") == "CVE_RECORD":
            self._add_record(document)
        elif "affected" in document or "modified" in document:
            for advisory in parse_osv(document, self.release):
                self.add(advisory)
        else:
            for advisory in parse_tracker(document, self.release):
                self.add(advisory)

    def _add_record(self, document: dict[str, Any]) -> None:
        """The files that a CVE of the kernel is in, as its numbering authority lists them."""
        identifier = _identifier(document["cveMetadata"]["cveId"])
        cna = document["containers"]["cna"]
        names = [name for each in cna.get("affected", []) for name in each.get("programFiles", [])]
        if not all(isinstance(name, str) for name in names):
            raise ValueError("programFiles are no texts")
        self.files[identifier] = self.files.get(identifier, frozenset()) | frozenset(names)


def parse_osv(document: dict[str, Any], release: str) -> Iterator[Advisory]:
    """An OSV record, osv.dev's schema 1; of Debian's packages only those of this release."""
    if document.get("withdrawn"):
        return
    aliases = [_identifier(alias) for alias in document.get("aliases", [])]
    identifier = next((a for a in aliases if a.startswith("CVE-")), _identifier(document["id"]))
    for affected in document.get("affected", []):
        package = affected.get("package")
        if package is None:
            continue
        ecosystem, _, suite = _text(package["ecosystem"]).partition(":")
        if ecosystem == "Debian" and suite not in ("", release):
            continue
        name = _text(package["name"])
        yield Advisory(
            id=identifier,
            ecosystem=ecosystem,
            package=re.sub("[-_.]+", "-", name.lower()) if ecosystem == "PyPI" else name,
            summary=_text(document.get("summary") or document.get("details") or ""),
            severity=_severity(document, affected),
            ranges=tuple(_ranges(affected)),
            versions=frozenset(_text(version) for version in affected.get("versions", [])),
        )


def _ranges(affected: dict[str, Any]) -> Iterator[Range]:
    for each in affected.get("ranges", []):
        if each["type"] == "GIT":
            continue
        introduced: str | None = None
        for event in each["events"]:
            ((kind, version),) = event.items()
            if kind == "introduced":
                introduced = _text(version)
            elif introduced is not None and kind in ("fixed", "last_affected"):
                key = {"fixed": "fixed", "last_affected": "last"}[kind]
                yield Range(introduced=introduced, **{key: _text(version)})
                introduced = None
        if introduced is not None:
            yield Range(introduced=introduced)


def _severity(document: dict[str, Any], affected: dict[str, Any]) -> str:
    places: list[dict[str, Any] | None] = [
        affected.get("ecosystem_specific"),
        affected.get("database_specific"),
        document.get("database_specific"),
    ]
    for place in filter(None, places):
        found = place.get("severity") or place.get("urgency")
        if isinstance(found, str):
            return _text(found).lower()
    return ""


def parse_tracker(document: dict[str, Any], release: str) -> Iterator[Advisory]:
    """Debian's security tracker: packages, their issues, and what becomes of them in each release."""
    suite = RELEASES[release]
    for package, issues in document.items():
        for identifier, issue in issues.items():
            state = issue["releases"].get(suite)
            if state is None or state["status"] not in ("open", "resolved", "undetermined"):
                continue
            fixed = _text(state.get("fixed_version", ""))
            if fixed == "0":
                continue  # never affected
            urgency = _text(state.get("urgency", ""))
            yield Advisory(
                id=_identifier(identifier),
                ecosystem="Debian",
                package=_text(package),
                summary=_text(issue.get("description", "")),
                severity="" if urgency == "not yet assigned" else urgency,
                ranges=(Range(fixed=fixed),),
            )


RELEASES = {"13": "trixie", "14": "forky"}
"""Names of Debian's releases by number, which OSV uses."""


def _identifier(value: Any) -> str:
    if not isinstance(value, str) or not IDENTIFIER.fullmatch(value):
        raise ValueError(f"{str(value)[:MAX_TEXT]!r} is no identifier of a vulnerability")
    return value


def _text(value: Any) -> str:
    """A text on one line, without what a terminal would act on."""
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:MAX_TEXT]!r} is no text")
    return " ".join("".join(c if c.isprintable() else " " for c in value[:MAX_TEXT]).split())
