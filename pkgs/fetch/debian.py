"""Debian packages: apt's solver closes the roots; files come from a mirror, the archive or its snapshot."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import archive
import download
from locks import SCRATCH, Input, legal, read_roots
from report import FetchError, batches, log, run
from store import add_files, check_sha256, missing

BATCH = 20
URI_LINE = re.compile(r"'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})")


def parse_uris(
    text: str, suites: Mapping[str, str], archives: Mapping[str, archive.Archive]
) -> dict[str, Any]:
    """Read `apt-get --print-uris`: one package a line. `suites` has those from another suite than usual."""
    usual = read_roots()["debian"]["suite"]
    found: dict[str, Any] = {}
    for match in filter(None, map(URI_LINE.match, text.splitlines())):
        file = match["file"].replace("%7e", "~")  # as apt-get download names it
        name, version, arch = file.removesuffix(".deb").split("_")
        suite = suites.get(name, usual)
        security = archives.get(archive.SECURITY)
        if security and match["uri"].startswith(f"{security.uri}/"):
            suite = f"{usual}-security"
        found[name] = {
            "version": unquote(version),
            "arch": arch,
            "suite": suite,
            "sha256": match["sha256"],
            "file": file,
            "path": unquote(match["uri"].removeprefix(f"{archives[archive.archive_of(suite)].uri}/")),
            "size": int(match["size"]),
        }
    return found


def resolve() -> dict[str, Any]:
    """Have apt's solver close each root over its dependencies, on a machine that has nothing installed."""
    env, archives = archive.environment(fresh=True), archive.find_archives()
    packages: dict[str, Any] = {}
    roots: dict[str, list[str]] = {}
    for root, spec in read_roots()["debian"]["roots"].items():
        suites: dict[str, str] = {name: spec["suite"] for name in spec["packages"] if "suite" in spec}
        names = [f"{name}/{suites[name]}" if name in suites else name for name in spec["packages"]]
        text = run(["apt-get", "install", "--print-uris", "--assume-yes", "-qq", *names], env=env)
        found = {
            name: each for name, each in parse_uris(text, suites, archives).items() if is_kept(name, spec)
        }
        packages |= found
        roots[root] = sorted(found)
        log(f"lock: root {root}: {len(found)} packages")
    return {
        "snapshot": time.strftime(archive.DATE, time.gmtime()),
        "packages": packages,
        "roots": roots,
        "bootstrap": {"member": "usr/bin/busybox", "sha256": "0" * 64},
    }


def is_kept(name: str, spec: dict[str, Any]) -> bool:
    """Whether a root takes a package: all but `without`, or with `alone` no dependency at all."""
    return name in spec["packages"] or not (spec.get("alone") or name in spec.get("without", []))


def input_of(entry: Mapping[str, Any]) -> Input:
    """Name a locked package in the store."""
    return Input(legal(entry["file"]), entry["sha256"])


def fetch(lock: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Bring missing ones of these packages into the store; return those that no source has as locked.

    In this order: the user's mirror, apt where the machine has it, else the archive by HTTP, the snapshot.
    """
    packages = lock["packages"]
    left = missing_packages(packages, names)
    for source in (from_mirror, from_apt if archive.has_apt() else from_archive, from_snapshot):
        if left:
            source(lock, left)
            left = missing_packages(packages, left)
    return left


def missing_packages(packages: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Find which of the named packages the store lacks."""
    by_input = {input_of(packages[name]): name for name in names}
    return sorted(by_input[item] for item in missing(by_input))


def from_mirror(lock: Mapping[str, Any], names: Sequence[str]) -> None:
    """Get what the mirror that `make mirror` made has."""
    download.fetch(
        download.mirrored(input_of(lock["packages"][name]) for name in names), "Debian packages, mirrored,"
    )


def from_archive(lock: Mapping[str, Any], names: Sequence[str]) -> None:
    """Get packages by their paths in the archive."""
    archives = archive.find_archives()
    by_http(lock, names, lambda suite: archives[archive.archive_of(suite)].uri, "Debian packages")


def from_snapshot(lock: Mapping[str, Any], names: Sequence[str]) -> None:
    """Get what the archive no longer has from the user's snapshot of the day of the lock."""
    date = lock["snapshot"]
    if archive.snapshot_uri("", date):
        by_http(
            lock, names, lambda suite: str(archive.snapshot_uri(suite, date)), f"Debian packages of {date}"
        )


def by_http(lock: Mapping[str, Any], names: Sequence[str], base: Callable[[str], str], what: str) -> None:
    """Get packages below the base of each one's suite."""
    entries = [lock["packages"][name] for name in names]
    download.fetch(
        [
            download.Download(input_of(each), f"{base(each['suite'])}/{quote(each['path'])}")
            for each in entries
        ],
        what,
    )


def from_apt(lock: Mapping[str, Any], names: Sequence[str]) -> None:
    """Have apt download what is published as locked, with the lists that it has or else new ones."""
    packages = lock["packages"]
    there = published(packages, names, env := archive.environment())
    if len(there) == len(names):
        try:
            return by_apt(packages, there, env)
        except FetchError as error:
            log(f"fetch: the lists may be of yesterday: {error}")
    env = archive.environment(fresh=True)
    return by_apt(packages, published(packages, missing_packages(packages, names), env), env)


def by_apt(packages: Mapping[str, Any], names: Sequence[str], env: dict[str, str]) -> None:
    """Download in batches, check each file against the lock, hand it to the store."""
    folder = SCRATCH / "debs"
    folder.mkdir(parents=True, exist_ok=True)
    done = 0
    for batch in batches(names, BATCH):
        log(f"fetch: Debian packages {done + 1}-{done + len(batch)} of {len(names)}: {batch[0]} …")
        pinned = [f"{name}={packages[name]['version']}" for name in batch]
        run(["apt-get", "download", "-q", *pinned], env=env, cwd=folder)
        files: list[Path] = []
        for name in batch:
            file = (folder / packages[name]["file"]).rename(folder / legal(packages[name]["file"]))
            check_sha256(file, packages[name]["sha256"])
            files.append(file)
        add_files(files)
        for file in files:
            file.unlink()
        done += len(batch)


def published(packages: Mapping[str, Any], names: Sequence[str], env: dict[str, str]) -> list[str]:
    """Find which of the named packages apt can download in exactly the locked version."""
    text = run(["apt-cache", "show", *names], env=env, may_fail=True)
    hashes = {line.partition(" ")[2] for line in text.splitlines() if line.startswith("SHA256:")}
    return [name for name in names if packages[name]["sha256"] in hashes]
