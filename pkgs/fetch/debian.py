"""Debian packages: apt resolves and downloads them, with state of its own and an empty machine in mind."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from locks import SCRATCH, Input, legal, read_roots
from report import FetchError, batches, log, run
from store import add_files, check_sha256, missing

APT = SCRATCH / "apt"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR_VARIABLE = "DEBIAN_MIRROR"
LISTS_STAY_FRESH = 6 * 3600  # seconds; a mirror moves a point release at most every few weeks
BATCH = 20
URI_LINE = re.compile(r"'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})")


def mirror() -> str:
    """Find the archive this machine already uses; nothing here names a host."""
    if os.environ.get(MIRROR_VARIABLE):
        return os.environ[MIRROR_VARIABLE]
    shown = run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(SUITE) $(CREATED_BY) $(ORIGIN) $(LABEL)"]
    )
    for line in shown.splitlines():
        uri, _suite, created_by, *origin = line.split()
        if (
            created_by == "Packages"
            and "security" not in uri
            and (not origin or origin == ["Debian", "Debian"])
        ):
            return uri
    raise FetchError(
        f"apt on this machine has no Debian archive configured; set {MIRROR_VARIABLE}=<archive URI>"
    )


def environment(suites: set[str], *, fresh: bool = False) -> dict[str, str]:
    """Make apt's own state directory, with current lists, and the environment that selects it."""
    asked = read_roots()["debian"]
    chosen = sorted({asked["suite"], *suites})
    for folder in ("lists/partial", "cache/archives/partial", "empty"):
        (APT / folder).mkdir(parents=True, exist_ok=True)
    (APT / "status").touch()
    archive = mirror()
    source = "".join(
        f"deb [signed-by={KEYRING}] {archive} {suite} {asked['component']}\n" for suite in chosen
    )
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
        log(f"fetch: reading the package lists of {', '.join(chosen)}")
        run(["apt-get", "update", "-q", "-o", "APT::Update::Error-Mode=any"], env=env)
        stamp.touch()
    return env


def parse_uris(text: str, suites: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Read `apt-get --print-uris`: one package a line. `suites` has those from another suite than usual."""
    usual = read_roots()["debian"]["suite"]
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        match = URI_LINE.match(line)
        if match:
            name, version, arch = match["file"].removesuffix(".deb").split("_")
            found[name] = {
                "version": unquote(version),
                "arch": arch,
                "suite": suites.get(name, usual),
                "sha256": match["sha256"],
                "file": match["file"],
            }
    return found


def resolve() -> dict[str, Any]:
    """Have apt's solver close each root over its dependencies, on a machine that has nothing installed."""
    all_asked = read_roots()["debian"]["roots"]
    env = environment({asked["suite"] for asked in all_asked.values() if "suite" in asked}, fresh=True)
    packages: dict[str, Any] = {}
    roots: dict[str, list[str]] = {}
    for root, asked in all_asked.items():
        suites: dict[str, str] = {name: asked["suite"] for name in asked["packages"] if "suite" in asked}
        names_with_suites = with_suites(asked["packages"], suites)
        text = run(["apt-get", "install", "--print-uris", "--assume-yes", "-qq", *names_with_suites], env=env)
        found = {name: entry for name, entry in parse_uris(text, suites).items() if is_kept(name, asked)}
        packages |= found
        roots[root] = sorted(found)
        log(f"lock: root {root}: {len(found)} packages")
    return {
        "packages": packages,
        "roots": roots,
        "bootstrap": {"member": "usr/bin/busybox", "sha256": "0" * 64},
    }


def with_suites(names: Sequence[str], suites: Mapping[str, str]) -> list[str]:
    """Name packages as apt takes them when they come from another suite than usual."""
    return [f"{name}/{suites[name]}" if name in suites else name for name in names]


def other_suites(packages: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """Find which of the locked packages come from another suite than usual, and from which."""
    usual = read_roots()["debian"]["suite"]
    return {name: packages[name]["suite"] for name in names if packages[name]["suite"] != usual}


def is_kept(name: str, asked: dict[str, Any]) -> bool:
    """Whether a root takes a package: all but `without`, or with `alone` no dependency at all."""
    return name in asked["packages"] or not (asked.get("alone") or name in asked.get("without", []))


def fetch(lock: dict[str, Any], names: list[str], *, may_relock: bool) -> bool:
    """Bring missing ones of these packages into the store; return whether the lock had to change."""
    packages = lock["packages"]
    wanted = missing_packages(packages, names)
    if not wanted:
        return False
    suites = other_suites(packages, wanted)
    env = environment(set(suites.values()))
    current = published(wanted, suites, env)
    replaced = [name for name in wanted if current.get(name) != packages[name]]
    if replaced:
        current = published(wanted, suites, environment(set(suites.values()), fresh=True))
        replaced = [name for name in wanted if current.get(name) != packages[name]]
    if replaced:
        check_may_relock(replaced, lock, current, may_relock=may_relock)
        packages.update({name: current[name] for name in replaced})
        wanted = missing_packages(packages, names)
    download(wanted, packages, env)
    return bool(replaced)


def missing_packages(packages: dict[str, Any], names: list[str]) -> list[str]:
    """Find which of the named packages the store lacks."""
    by_store_name = {legal(packages[name]["file"]): name for name in names}
    absent = missing(Input(legal(packages[name]["file"]), packages[name]["sha256"]) for name in names)
    return sorted(by_store_name[item.store_name] for item in absent)


def published(names: list[str], suites: Mapping[str, str], env: dict[str, str]) -> dict[str, dict[str, str]]:
    """Ask what the archive publishes now under these names."""
    names_with_suites = with_suites(names, suites)
    text = run(["apt-get", "download", "--print-uris", "-qq", *names_with_suites], env=env, may_fail=True)
    found = parse_uris(text, suites)
    if not found:
        raise FetchError("the archive knows none of the locked packages; is the mirror complete?")
    return found


def check_may_relock(
    replaced: list[str], lock: dict[str, Any], current: dict[str, Any], *, may_relock: bool
) -> None:
    """Log what the archive has replaced; stop when departing from the lock is not allowed or can't be."""
    for name in replaced:
        now = current.get(name, {}).get("version", "nothing")
        log(
            f"fetch: {name} {lock['packages'][name]['version']} is gone from the archive, which now has {now}"
        )
    lost = [name for name in replaced if name not in current]
    if lost:
        raise FetchError(
            f"the archive no longer has {', '.join(lost)}; edit pkgs/roots.toml and run `make lock`"
        )
    if not may_relock:
        raise FetchError(
            "LOCKED=1 forbids taking the newer versions; run `make fetch` without it and review the lock"
        )
    log("fetch: WARNING: took the current versions and rewrote pkgs/locks/debian.json;")
    log("fetch: WARNING: what is built from here on is not bit-identical to the release")


def download(names: list[str], packages: dict[str, Any], env: dict[str, str]) -> None:
    """Download in batches, check each file against the lock, hand it to the store."""
    folder = SCRATCH / "debs"
    folder.mkdir(parents=True, exist_ok=True)
    done = 0
    for batch in batches(names, BATCH):
        log(f"fetch: Debian packages {done + 1}-{done + len(batch)} of {len(names)}: {batch[0]} …")
        run(
            ["apt-get", "download", "-q", *(f"{name}={packages[name]['version']}" for name in batch)],
            env=env,
            cwd=folder,
        )
        files: list[Path] = []
        for name in batch:
            file = (folder / packages[name]["file"]).rename(folder / legal(packages[name]["file"]))
            check_sha256(file, packages[name]["sha256"])
            files.append(file)
        add_files(files)
        for file in files:
            file.unlink()
        done += len(batch)
