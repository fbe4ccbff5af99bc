"""Files by HTTP, several at a time, each checked against its locked hash before the store has it."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from locks import SCRATCH, Input
from report import FetchError, batches, log
from store import add_files, check_sha256

MIRROR = "FETCH_MIRROR"
"""The variable that names a folder, or its URI, which `make mirror` filled."""
THREADS = 8
BATCH = 64
ATTEMPTS = 3
RETRY_DELAY = 2.0  # seconds between attempts
TIMEOUT = 60.0  # seconds without a byte
ABSENT = (403, 404, 410)
"""Statuses of a file that a server does not have; some storage hides this behind 403."""


@dataclass(frozen=True)
class Download:
    """An input, and where it may be had from."""

    item: Input
    uri: str


def mirrored(items: Iterable[Input]) -> list[Download]:
    """Where the user's mirror has these inputs: none without one."""
    place = os.environ.get(MIRROR, "").rstrip("/")
    if not place:
        return []
    root = place if "://" in place else Path(place).resolve().as_uri()
    return [Download(item, f"{root}/{quote(item.store_name)}") for item in items]


def fetch(downloads: Sequence[Download], what: str) -> list[Input]:
    """Bring files into the store; return those that their servers do not have."""
    folder = SCRATCH / "files"
    folder.mkdir(parents=True, exist_ok=True)
    absent: list[Input] = []
    done = 0
    with ThreadPoolExecutor(THREADS) as pool:
        for batch in batches(downloads, BATCH):
            first = batch[0].item.store_name
            log(f"fetch: {what} {done + 1}-{done + len(batch)} of {len(downloads)}: {first} …")
            files = [folder / each.item.store_name for each in batch]
            found = [*pool.map(fetch_one, batch, files)]
            absent += [each.item for each, is_there in zip(batch, found, strict=True) if not is_there]
            there = [file for file, is_there in zip(files, found, strict=True) if is_there]
            add_files(there)
            for file in there:
                file.unlink()
            done += len(batch)
    return absent


def fetch_one(download: Download, file: Path) -> bool:
    """Get one file and check it; return whether its server has it."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            if not get(download.uri, file):
                return False
            break
        except (OSError, HTTPException) as error:
            if attempt == ATTEMPTS:
                raise FetchError(f"{without_password(download.uri)}: {error}") from error
            time.sleep(RETRY_DELAY * attempt)
    check_sha256(file, download.item.sha256)
    return True


def get(uri: str, file: Path) -> bool:
    """Write what a URI names to a file; return whether there is such a thing."""
    try:
        reply = urllib.request.urlopen(request(uri), timeout=TIMEOUT)  # noqa: S310 - `request` checks
        with reply, file.open("wb") as stream:
            shutil.copyfileobj(reply, stream)
    except urllib.error.HTTPError as error:
        if error.code in ABSENT:
            return False
        raise
    except urllib.error.URLError as error:
        if isinstance(error.reason, FileNotFoundError):
            return False
        raise
    return True


def request(uri: str, **headers: str) -> urllib.request.Request:
    """Make a request; a name and password in the URI become a header."""
    parts = urlsplit(uri)
    if parts.scheme not in {"http", "https", "file"}:
        raise FetchError(f"{without_password(uri)}: only http, https and file are supported")
    if parts.username:
        both = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(both).decode()}"
    return urllib.request.Request(without_password(uri), headers={"User-Agent": "fetch", **headers})  # noqa: S310 - checked above


def without_password(uri: str) -> str:
    """Leave name and password out of a URI."""
    parts = urlsplit(uri)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def copy_to(folder: Path, items: Sequence[Input], paths: Sequence[Path]) -> int:
    """Copy inputs from the store into a mirror's folder; return how many were not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    copied = 0
    for item, path in zip(items, paths, strict=True):
        target = folder / item.store_name
        if target.exists() and sha256(target) == item.sha256:
            continue
        partial = folder / f".{item.store_name}.part"
        shutil.copyfile(path, partial)
        check_sha256(partial, item.sha256)
        partial.rename(target)
        copied += 1
    return copied


def sha256(file: Path) -> str:
    """Hash a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
