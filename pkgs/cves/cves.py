"""Compares what the locks name with a feed of vulnerabilities; `make cves FEED=…` runs it.

Prints what is affected, with the version that has the fix, and what can't be affected as the kernel is built
without the code. Nothing is fetched. Ends with 1 when there is a fix, with 2 when a feed can't be used.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from advisories import RELEASES, Advisory, Feed, FeedError
from kbuild import Kernel
from ordering import ORDERS
from report import FetchError
from shipped import KERNEL, Component, find_components

AFFECTED, NOT_AFFECTED, UNKNOWN = "affected", "not affected", "unknown"
COLUMNS = ("ID", "STATUS", "PACKAGE", "VERSION", "FIXED", "SEVERITY", "IN")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A vulnerability of a component. ``reason`` is why it is not affected, or why that is unknown."""

    id: str
    status: str
    package: str
    version: str
    fixed: str
    severity: str
    places: str
    ecosystem: str
    summary: str
    reason: str = ""


def find_all(components: Iterable[Component], feed: Feed, kernel: Kernel | None) -> list[Finding]:
    """Compare; what is affected comes first, then by package."""
    found = {
        (finding.id, finding.package, finding.version): finding
        for component in components
        for advisory in feed.advisories.get((component.ecosystem, component.name), ())
        if (finding := assess(component, advisory, feed, kernel))
    }
    return sorted(found.values(), key=lambda each: (each.status != AFFECTED, each.package, each.id))


def assess(component: Component, advisory: Advisory, feed: Feed, kernel: Kernel | None) -> Finding | None:
    """What a vulnerability means for a component; None where its version is not concerned."""
    status, reason, fixed = AFFECTED, "", ""
    try:
        fix = advisory.find_fix(component.version, ORDERS[component.ecosystem])
    except ValueError as error:
        status, reason = UNKNOWN, str(error)
    else:
        if fix is None:
            return None
        fixed = fix
        reason = find_reason(component, feed.files.get(advisory.id, frozenset()), kernel)
        if reason:
            status = NOT_AFFECTED
    return Finding(
        id=advisory.id,
        status=status,
        package=component.name,
        version=component.version,
        fixed=fixed,
        severity=advisory.severity,
        places=component.places,
        ecosystem=component.ecosystem,
        summary=advisory.summary,
        reason=reason,
    )


def find_reason(component: Component, files: frozenset[str], kernel: Kernel | None) -> str:
    """Why the kernel does not have the code of a vulnerability: none of its files is compiled."""
    if kernel is None or component.name != KERNEL or not files:
        return ""
    excluding = [kernel.find_excluding(file) for file in sorted(files)]
    return f"built without {'; '.join(dict.fromkeys(excluding))}" if all(excluding) else ""


def format_table(findings: Sequence[Finding]) -> str:
    """A table; the last line counts."""
    rows = [COLUMNS] + [
        (
            f.id,
            f"{f.status} ({f.reason})" if f.reason else f.status,
            f.package,
            f.version,
            f.fixed or "-",
            f.severity or "-",
            f.places,
        )
        for f in findings
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    affected = [f for f in findings if f.status == AFFECTED]
    fixable = sum(bool(f.fixed) for f in affected)
    lines.append(
        f"{len(affected)} affected, {fixable} of them with a fix: `make locks` takes what the archives have"
    )
    return "\n".join(lines)


def make_vex(findings: Sequence[Finding]) -> dict[str, Any]:
    """An OpenVEX document of what was decided here: statements about what is not affected."""
    statements = [
        {
            "vulnerability": {"name": f.id},
            "products": [{"@id": f"pkg:deb/debian/{f.package}@{f.version}"}],
            "status": "not_affected",
            "justification": "vulnerable_code_not_present",
            "impact_statement": f.reason,
        }
        for f in findings
        if f.status == NOT_AFFECTED
    ]
    return {
        "@context": "https://openvex.dev/ns/v0.2.0",
        "@id": "https://openvex.dev/docs/talos",
        "author": "make cves",
        "timestamp": "1970-01-01T00:00:00Z",
        "version": 1,
        "statements": statements,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Read the arguments, print."""
    parser = argparse.ArgumentParser(
        prog="cves", description="Compare the locks with a feed of vulnerabilities."
    )
    parser.add_argument(
        "feed", nargs="+", type=Path, help="files or folders with OSV records, Debian's tracker, CVE records"
    )
    parser.add_argument("-o", "--output", choices=("table", "json", "vex"), default="table")
    parser.add_argument("--all", action="store_true", help="what builds and tests the system, too")
    parser.add_argument("--release", default="13", choices=RELEASES, help="Debian's, by number")
    parser.add_argument("--kernel-config", type=Path)
    parser.add_argument("--kernel-source", type=Path, help="the folder with linux-source-*.tar.xz")
    options = parser.parse_args(argv)
    feed = Feed(release=options.release)
    try:
        for path in options.feed:
            feed.read(path)
        kernel = None
        if feed.files and options.kernel_config and options.kernel_source:
            (tarball,) = options.kernel_source.glob("**/linux-source-*.tar.xz")
            kernel = Kernel.read(options.kernel_config, tarball)
        findings = find_all(find_components(everything=options.all), feed, kernel)
    except (FeedError, FetchError, OSError) as error:
        sys.stderr.write(f"cves: {error}\n")
        return 2
    if options.output == "table":
        sys.stdout.write(f"{format_table(findings)}\n")
    else:
        document = (
            make_vex(findings) if options.output == "vex" else [asdict(finding) for finding in findings]
        )
        sys.stdout.write(f"{json.dumps(document, indent=2)}\n")
    return int(any(finding.status == AFFECTED and finding.fixed for finding in findings))


if __name__ == "__main__":
    raise SystemExit(main())
