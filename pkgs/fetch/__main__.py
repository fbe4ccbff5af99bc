"""Brings everything the builds need into the Nix store; the project's only door to the network.

    python3 pkgs/fetch               fetch what the locks name and the store lacks
    python3 pkgs/fetch fetch ROOT …  the same, with these roots or groups that are only fetched on demand
    python3 pkgs/fetch fetch --all   the same, with all of them
    python3 pkgs/fetch lock          resolve roots.toml again and rewrite the locks
    python3 pkgs/fetch lock go       the same for the Go modules alone
    python3 pkgs/fetch lock SET …    the same for these sets of Go programs, and nothing else
    python3 pkgs/fetch mirror DIR    copy all of them, of every root, into a folder that FETCH_MIRROR names;
                                     with ROOT …, what is fetched with these roots alone
    python3 pkgs/fetch check ROOT …  fail unless all of that is in the store

Runs on the host's own Python (3.11 or newer) with nothing but the standard library, because it runs before
anything is built. The ordinary clients (apt, pip, go) bring the files where the machine has them: they have
its proxies, certificates and credentials. Without them, files are got by HTTP from DEBIAN_MIRROR,
PIP_INDEX_URL and GOPROXY. LOCKED=1 refuses to depart from the locks.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import archive
import debian
import download
import gomodules
import locks
import moved
import store
import wheels
from report import FetchError, log


def chosen(words: list[str]) -> list[str]:
    """Return the roots that are only fetched on demand and that the command line names."""
    return locks.on_demand_names() if "--all" in words else locks.expand(words)


def run_fetch(words: list[str]) -> None:
    """Fetch what is missing; what the archive has replaced is resolved anew unless LOCKED=1."""
    roots = chosen(words)
    moved.warn_uncommitted()
    debian_lock = locks.read_debian()
    lost = debian.fetch(debian_lock, locks.packages_of(debian_lock, roots))
    if lost:
        debian_lock = follow(debian_lock, lost)
        lost = debian.fetch(debian_lock, locks.packages_of(debian_lock, roots))
        if lost:
            raise FetchError(
                f"the archive lists {', '.join(lost)} and does not have it; is the mirror complete?"
            )
    wheels.fetch(locks.wheels_of(roots))
    gomodules.fetch(locks.read_go(), locks.go_sets_of(roots))
    store.add_bootstrap(debian_lock, may_relock=os.environ.get("LOCKED") != "1")
    inputs = locks.inputs_of(roots)
    missing = store.missing(inputs)
    if missing:
        raise FetchError(f"{len(missing)} inputs are still missing, the first is {missing[0].store_name}")
    log(f"fetch: all {len(inputs)} inputs are in the store")
    moved.warn_uncommitted()


def follow(old: dict[str, Any], lost: list[str]) -> dict[str, Any]:
    """Resolve all roots anew, as the archive has moved on, and write the lock; LOCKED=1 refuses."""
    first = ", ".join(f"{name} {old['packages'][name]['version']}" for name in lost[: moved.SHOWN])
    more = ", …" if len(lost) > moved.SHOWN else ""
    gone = f"the archive no longer has {len(lost)} of the locked packages: {first}{more}"
    if os.environ.get("LOCKED") == "1":
        raise FetchError(
            f"{gone}; LOCKED=1 forbids newer ones: set {archive.SNAPSHOT} to a snapshot's URI with "
            f"{{archive}} and {{date}}, or {download.MIRROR} to a folder that `make mirror` made, "
            "or run `make locks` and review its table"
        )
    log(f"fetch: {gone}")
    new = debian.resolve()
    locks.write_debian(new)
    changes = moved.compare(moved.read_debian_versions(old), moved.read_debian_versions(new))
    moved.log_changes("resolved all roots anew and rewrote pkgs/locks/debian.json:", changes)
    return new


def run_lock(parts: list[str]) -> None:
    """Resolve what roots.toml requests, all or these parts and sets of Go programs, and write the locks."""
    resolvers = {
        "debian": lambda: locks.write_debian(debian.resolve()),
        "wheels": lambda: locks.write_wheels(wheels.resolve()),
        "go": lambda: locks.write_go(gomodules.resolve()),
    }
    go_sets = locks.read_roots()["go"]["sets"]
    if unknown := set(parts) - resolvers.keys() - go_sets.keys():
        known = ", ".join([*resolvers, *sorted(go_sets)])
        raise FetchError(f"no such lock: {', '.join(sorted(unknown))}; known: {known}")
    old, before = moved.read_versions(), moved.read_derivations()
    if some := [part for part in parts if part in go_sets]:
        locks.write_go(gomodules.resolve_some(locks.read_go(), some))
    wanted = [part for part in parts if part in resolvers] if parts else list(resolvers)
    for part in wanted:
        resolvers[part]()
    if wanted:
        run_fetch([])
    if changes := moved.compare(old, moved.read_versions()):
        moved.log_changes("the new versions, for the commit:", changes)
        moved.log_rebuilt(before, moved.read_derivations())
    else:
        log("fetch: the locks are as they were")


def run_mirror(words: list[str]) -> None:
    """Copy all locked inputs into a folder, from which FETCH_MIRROR brings them again."""
    if not words:
        raise FetchError("which folder? make mirror DIR=/some/where")
    roots = locks.expand(words[1:]) or locks.on_demand_names()
    run_fetch(roots)
    items = [item for item in dict.fromkeys(locks.inputs_of(roots)) if not item.recursive]
    paths = [store.real_path(store.store_path(item)) for item in items]
    copied = download.copy_to(Path(words[0]), items, paths)
    log(
        f"mirror: {words[0]} has {len(items)} inputs, {copied} of them new; "
        f"{download.MIRROR}={words[0]} make fetch takes them from there"
    )


def run_check(words: list[str]) -> None:
    """Fail with the command to type when an input is missing."""
    missing = store.missing(locks.inputs_of(chosen(words)))
    if missing:
        command = "make fetch"
        if words:
            command += " ALL=1" if "--all" in words else f' ROOTS="{" ".join(words)}"'
        first = missing[0].store_name
        raise FetchError(f"{len(missing)} inputs are not in the store, the first is {first}; run `{command}`")


COMMANDS = {"fetch": run_fetch, "lock": run_lock, "check": run_check, "mirror": run_mirror}


def main() -> int:
    """Run one command; a failure is one line."""
    name = sys.argv[1] if len(sys.argv) > 1 else "fetch"
    if name not in COMMANDS:
        log(f"fetch: unknown command {name!r}, known: {', '.join(COMMANDS)}")
        return 2
    try:
        COMMANDS[name](sys.argv[2:])
    except FetchError as error:
        log(f"fetch: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
