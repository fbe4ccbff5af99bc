"""Brings everything the builds need into the Nix store; the project's only door to the network.

    python3 pkgs/fetch               fetch what the locks name and the store lacks
    python3 pkgs/fetch fetch ROOT …  the same, with these roots that are only fetched on demand
    python3 pkgs/fetch lock          resolve roots.toml again and rewrite the locks
    python3 pkgs/fetch lock go       the same for the Go modules alone
    python3 pkgs/fetch check         fail unless everything is in the store

Runs on the host's own Python (3.11 or newer) with nothing but the standard library, because it runs before
anything is built. LOCKED=1 refuses to depart from the locks.
"""

from __future__ import annotations

import os
import sys

import debian
import gomodules
import locks
import store
import wheels
from report import FetchError, log


def run_fetch(roots: list[str]) -> None:
    """Fetch what is missing; a package the archive has replaced is re-locked unless LOCKED=1."""
    locks.check_known(roots)
    locked = os.environ.get("LOCKED") == "1"
    debian_lock = locks.read_debian()
    names = locks.packages_of(debian_lock, roots)
    changed = debian.fetch(debian_lock, names, may_relock=not locked)
    if changed:
        locks.write_debian(debian_lock)
    wheels.fetch(locks.read_wheels())
    gomodules.fetch(locks.read_go(), locks.go_sets_of(roots))
    store.add_bootstrap(debian_lock, may_relock=not locked)
    inputs = locks.inputs_of(roots)
    missing = store.missing(inputs)
    if missing:
        raise FetchError(f"{len(missing)} inputs are still missing, the first is {missing[0].store_name}")
    log(f"fetch: all {len(inputs)} inputs are in the store")


def run_lock(parts: list[str]) -> None:
    """Resolve what roots.toml asks for, all of it or these parts, and write the locks."""
    resolvers = {
        "debian": lambda: locks.write_debian(debian.resolve()),
        "wheels": lambda: locks.write_wheels(wheels.resolve()),
        "go": lambda: locks.write_go(gomodules.resolve()),
    }
    if unknown := set(parts) - resolvers.keys():
        raise FetchError(f"no such lock: {', '.join(sorted(unknown))}; known: {', '.join(resolvers)}")
    for part in parts or resolvers:
        resolvers[part]()
    run_fetch([])


def run_check(roots: list[str]) -> None:
    """Fail with the command to type when an input is missing."""
    missing = store.missing(locks.inputs_of(roots))
    if missing:
        first = missing[0].store_name
        raise FetchError(
            f"{len(missing)} inputs are not in the store, the first is {first}; run `make fetch`"
        )


COMMANDS = {"fetch": run_fetch, "lock": run_lock, "check": run_check}


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
