"""The Nix store as the fetcher sees it: which fixed outputs are there, and how one is added."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from deb import read_file
from locks import SCRATCH, Input, legal, write_debian
from report import FetchError, batches, log, run

STORE = "/nix/store"
ALPHABET = "0123456789abcdfghijklmnpqrsvwxyz"
DIGEST_BYTES = 20


def store_path(item: Input) -> str:
    """Return where a fixed output lives, by Nix's own rule, without a call of Nix for each file.

    The same as `nix-store --print-fixed-path`.
    """
    if item.recursive:
        kind, inner = "source", item.sha256
    else:
        kind, inner = "output:out", hashlib.sha256(f"fixed:out:sha256:{item.sha256}:".encode()).hexdigest()
    whole = hashlib.sha256(f"{kind}:sha256:{inner}:{STORE}:{item.store_name}".encode()).digest()
    folded = bytearray(DIGEST_BYTES)
    for index, byte in enumerate(whole):
        folded[index % DIGEST_BYTES] ^= byte
    number = int.from_bytes(folded, "little")
    digits = [ALPHABET[(number >> (5 * place)) & 31] for place in reversed(range(DIGEST_BYTES * 8 // 5))]
    return f"{STORE}/{''.join(digits)}-{item.store_name}"


def missing(items: Iterable[Input]) -> list[Input]:
    """List the inputs that the store does not hold."""
    by_path = {store_path(item): item for item in items}
    if not by_path:
        return []
    lines = run(["nix-store", "--check-validity", "--print-invalid", *by_path], may_fail=True).split()
    return [by_path[line] for line in lines]


def add_files(files: Sequence[Path]) -> None:
    """Add plain files whose names are already legal."""
    for some in batches([str(file) for file in files], 50):
        run(["nix-store", "--add-fixed", "sha256", *some])


def check_sha256(file: Path, expected: str) -> None:
    """Refuse a file that is not the locked one."""
    with file.open("rb") as stream:
        actual = hashlib.file_digest(stream, "sha256").hexdigest()
    if actual != expected:
        raise FetchError(
            f"{file.name}: sha256 is {actual}, not {expected}; if that is right run `make locks`"
        )


def add_bootstrap(lock: dict[str, Any], *, may_relock: bool) -> None:
    """Add the first executable: the sandbox starts empty, only a store path with its x bit runs there."""
    if not missing([Input("bootstrap", lock["bootstrap"]["sha256"], recursive=True)]):
        return
    package, folder = lock["packages"]["busybox-static"], SCRATCH / "bootstrap"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    program = folder / "busybox"  # it looks at its own name
    archive = real_path(store_path(Input(legal(package["file"]), package["sha256"])))
    program.write_bytes(read_file(archive, lock["bootstrap"]["member"]))
    program.chmod(0o755)
    sha256 = run(["nix-hash", "--type", "sha256", folder]).strip()
    if sha256 != lock["bootstrap"]["sha256"]:
        if not may_relock:
            raise FetchError(f"busybox: hash is {sha256}, the lock says {lock['bootstrap']['sha256']}")
        lock["bootstrap"]["sha256"] = sha256
        write_debian(lock)
    run(["nix-store", "--add-fixed", "--recursive", "sha256", folder])
    log("fetch: bootstrap program added")


def real_path(path: str) -> Path:
    """Find a store path's bytes also when NIX_CONFIG roots the store elsewhere (`store = /some/root`)."""
    for line in os.environ.get("NIX_CONFIG", "").splitlines():
        key, _, root = line.partition("=")
        if key.strip() == "store":
            return Path(root.strip() + path)
    return Path(path)
