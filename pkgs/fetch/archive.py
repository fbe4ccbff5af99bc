"""Debian's archives: where they are, and apt with a state of its own, on a machine of any suite."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from locks import SCRATCH, read_roots
from report import FetchError, log, run

APT = SCRATCH / "apt"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR, SECURITY_MIRROR, SNAPSHOT = "DEBIAN_MIRROR", "DEBIAN_SECURITY_MIRROR", "DEBIAN_SNAPSHOT"
"""Variables: two archives' URIs, and a template of URIs with {archive} and {date}."""
RELEASE, SECURITY = "debian", "debian-security"
"""Names of the archives, in the template, too."""
LISTS_STAY_FRESH = 6 * 3600  # seconds; a mirror moves a point release at most every few weeks
DATE = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class Archive:
    """An archive's URI, and the options that its line in sources.list has."""

    uri: str
    options: str

    def source(self, suite: str, components: str) -> str:
        """Write the line of sources.list."""
        return f"deb {self.options} {self.uri} {suite} {components}\n"


def archive_of(suite: str) -> str:
    """Name the archive that a suite is published in."""
    return SECURITY if suite.endswith("-security") else RELEASE


def has_apt() -> bool:
    """Whether this machine has apt, which brings packages with its own proxies and credentials."""
    return shutil.which("apt-get") is not None


def parse_archive(value: str) -> Archive:
    """Read a variable: a URI, before it perhaps options as in sources.list, such as `[trusted=yes]`."""
    options, _, uri = value.strip().rpartition(" ")
    return Archive(uri.rstrip("/"), options or f"[signed-by={KEYRING}]")


def find_archives() -> dict[str, Archive]:
    """Find the archives of the variables, else those that this machine's apt has: no host is named here."""
    named = {RELEASE: os.environ.get(MIRROR), SECURITY: os.environ.get(SECURITY_MIRROR)}
    found = {name: parse_archive(value) for name, value in named.items() if value}
    if RELEASE not in found and has_apt():
        found = {name: Archive(uri, f"[signed-by={KEYRING}]") for name, uri in configured()} | found
    if RELEASE not in found:
        raise FetchError(f"this machine has no apt that names a Debian archive; set {MIRROR}=<archive URI>")
    return found


def configured() -> Iterable[tuple[str, str]]:
    """List the archives that apt on this machine is configured with, the first one of each name last."""
    shown = run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(SUITE) $(CREATED_BY) $(ORIGIN) $(LABEL)"]
    )
    for line in reversed(shown.splitlines()):
        uri, _suite, created_by, *origin = line.split()
        if created_by == "Packages" and (not origin or origin[0] == "Debian"):
            yield (SECURITY if "security" in uri else RELEASE), uri.rstrip("/")


def snapshot_uri(suite: str, date: str) -> str | None:
    """Return where the user's snapshot has the archive of a suite as it was at the lock's date."""
    template = os.environ.get(SNAPSHOT)
    if not template:
        return None
    try:
        return template.format(archive=archive_of(suite), date=date).rstrip("/")
    except (KeyError, IndexError, ValueError) as error:
        raise FetchError(f"{SNAPSHOT}={template}: it may have {{archive}} and {{date}} only") from error


def environment(*, fresh: bool = False) -> dict[str, str]:
    """Make apt's own state directory, with current lists, and the environment that selects it."""
    if not has_apt():
        raise FetchError("there is no apt on this machine, which resolves dependencies: run this on Debian")
    archives = find_archives()
    for folder in ("lists/partial", "cache/archives/partial", "empty"):
        (APT / folder).mkdir(parents=True, exist_ok=True)
    (APT / "status").touch()
    components = " ".join(read_roots()["debian"]["components"])
    suites = [suite for suite in all_suites() if archive_of(suite) in archives]
    if skipped := set(all_suites()) - set(suites):
        log(f"fetch: WARNING: {', '.join(sorted(skipped))} is left out; set {SECURITY_MIRROR}=<archive URI>")
    source = "".join(archives[archive_of(suite)].source(suite, components) for suite in suites)
    options = {
        "Dir::State": APT,
        "Dir::State::Lists": APT / "lists",
        "Dir::State::status": APT / "status",
        "Dir::Cache": APT / "cache",
        "Dir::Etc::sourcelist": APT / "sources.list",
        "Dir::Etc::sourceparts": APT / "empty",
        "Dir::Etc::preferencesparts": APT / "empty",
        "Acquire::ForceHash": "SHA256",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        # A copy that the user names may be of an earlier day, on purpose; its signature counts all the same.
        "Acquire::Check-Valid-Until": "false" if os.environ.get(MIRROR) else "true",
        "APT::Architecture": "amd64",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
    }
    (APT / "apt.conf").write_text("".join(f'{key} "{value}";\n' for key, value in options.items()))
    env = {**os.environ, "APT_CONFIG": str(APT / "apt.conf"), "LC_ALL": "C"}
    stamp = APT / "updated"
    same = (APT / "sources.list").exists() and (APT / "sources.list").read_text() == source
    if fresh or not same or not stamp.exists() or time.time() - stamp.stat().st_mtime > LISTS_STAY_FRESH:
        (APT / "sources.list").write_text(source)
        log(f"fetch: reading the package lists of {', '.join(suites)}")
        run(["apt-get", "update", "-q", "-o", "APT::Update::Error-Mode=any"], env=env)
        stamp.touch()
    return env


def all_suites() -> list[str]:
    """List the suites that packages come from: the usual one first, its security updates, roots' own."""
    spec = read_roots()["debian"]
    own = {root["suite"] for root in spec["roots"].values() if "suite" in root} - {spec["suite"]}
    return [spec["suite"], f"{spec['suite']}-security", *sorted(own)]
