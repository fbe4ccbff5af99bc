"""Python wheels: pip resolves and downloads them for the image's interpreter, whatever the host's is."""

from __future__ import annotations

import html
import importlib.util
import json
import os
import re
import sys
from itertools import chain
from pathlib import Path
from urllib.parse import unquote, urljoin, urlparse

import download
from locks import SCRATCH, WHEELS, Input, Wheel, read_roots
from report import FetchError, batches, log, run
from store import add_files, check_sha256, missing

BATCH = 8
INDEX = "PIP_INDEX_URL"
LINK = re.compile(r"""<a\s[^>]*?href\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
GLIBC_FLOORS = (41, 39, 34, 31, 28, 27, 24, 17, 12, 5)  # manylinux tags that Debian 13's libc satisfies


def target() -> list[str]:
    """Options that make pip choose for the image instead of for itself."""
    version = read_roots()["wheels"]["python"]
    tags = [f"manylinux_2_{minor}_x86_64" for minor in GLIBC_FLOORS] + [
        "manylinux2014_x86_64",
        "linux_x86_64",
    ]
    abis = [f"cp{version.replace('.', '')}", "abi3", "none"]
    options = ["--python-version", version, "--implementation", "cp", "--only-binary", ":all:"]
    options += [word for tag in tags for word in ("--platform", tag)]
    return options + [word for abi in abis for word in ("--abi", abi)]


def resolve() -> dict[str, list[Wheel]]:
    """Close each set over its dependencies; unless it is `alone`, it uses what the sets before it have."""
    spec = read_roots()["wheels"]["sets"]
    sets: dict[str, list[Wheel]] = {}
    for name in WHEELS:
        shared = () if spec[name].get("alone") else sets.values()
        before = {wheel.name: wheel for wheels in shared for wheel in wheels}
        pinned = [f"{wheel.name}=={wheel.version}" for wheel in before.values()]
        sets[name] = [w for w in report([*pinned, *spec[name]["packages"]]) if w.name not in before]
        log(f"lock: wheels {name}: {len(sets[name])}")
    return sets


def report(requirements: list[str]) -> list[Wheel]:
    """List what pip would install."""
    options = [
        "--dry-run",
        "--ignore-installed",
        "--quiet",
        "--report",
        "-",
        "--target",
        str(SCRATCH / "nothing"),
    ]
    text = run([sys.executable, "-m", "pip", "install", *options, *target(), *requirements])
    found: list[Wheel] = []
    for item in json.loads(text)["install"]:
        info = item["download_info"]
        file = Path(unquote(urlparse(str(info["url"])).path)).name
        hashes = info["archive_info"].get("hashes") or dict([info["archive_info"]["hash"].split("=", 1)])
        name = item["metadata"]["name"].lower().replace("_", "-")
        found.append(Wheel(name, item["metadata"]["version"], hashes["sha256"], file))
    return found


def fetch(sets: dict[str, list[Wheel]]) -> None:
    """Bring missing wheels into the store: from the user's mirror, by pip, or without it by HTTP."""
    by_item = {Input(w.file, w.sha256): w for wheels in sets.values() for w in wheels}
    left = missing(by_item)
    if left:
        download.fetch(download.mirrored(left), "wheels, mirrored,")
        left = missing(left)
    wanted = sorted((by_item[item] for item in left), key=lambda wheel: wheel.file)
    if wanted and has_pip():
        by_pip(wanted)
    elif wanted:
        by_http(wanted)


def has_pip() -> bool:
    """Whether the Python that runs has pip."""
    return importlib.util.find_spec("pip") is not None


def by_http(wanted: list[Wheel]) -> None:
    """Get wheels by HTTP: the index's page of a project names its files."""
    base = os.environ.get(INDEX, "").rstrip("/")
    if not base:
        raise FetchError(f"{sys.executable} has no pip; install it, or set {INDEX}=<URI of an index>")
    downloads: list[download.Download] = []
    page = SCRATCH / "index"
    page.parent.mkdir(parents=True, exist_ok=True)
    for wheel in wanted:
        address = f"{base}/{wheel.name}/"
        if not download.get(address, page):
            raise FetchError(f"{download.without_password(address)}: the index has no such project")
        uri = find_file(page.read_text(encoding="utf-8"), address, wheel.file)
        downloads.append(download.Download(Input(wheel.file, wheel.sha256), uri))
    if absent := download.fetch(downloads, "wheels"):
        raise FetchError(f"the index lists {absent[0].store_name} and does not have it")


def find_file(page: str, address: str, file: str) -> str:
    """Find a file's URI on an index's page of links; names in links are quoted."""
    for link in map(html.unescape, LINK.findall(page)):
        uri = urljoin(address, link).partition("#")[0]
        if unquote(uri).rpartition("/")[2] == file:
            return uri
    raise FetchError(f"{download.without_password(address)}: the index no longer has {file}")


def one_version_each(wanted: list[Wheel]) -> list[list[Wheel]]:
    """Separate the versions of a project: pip refuses two of them in one call, sets may differ in them."""
    groups: list[dict[str, Wheel]] = []
    for wheel in wanted:
        if not (free := [group for group in groups if wheel.name not in group]):
            groups.append({wheel.name: wheel})
        else:
            free[0][wheel.name] = wheel
    return [list(group.values()) for group in groups]


def by_pip(wanted: list[Wheel]) -> None:
    """Have pip download wheels, with the configuration that it has on this machine."""
    folder = SCRATCH / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    requirements = folder / "requirements.txt"
    done = 0
    for batch in chain.from_iterable(batches(group, BATCH) for group in one_version_each(wanted)):
        log(f"fetch: wheels {done + 1}-{done + len(batch)} of {len(wanted)}: {batch[0].name} …")
        requirements.write_text("".join(f"{w.name}=={w.version} --hash=sha256:{w.sha256}\n" for w in batch))
        options = ["--require-hashes", "--no-deps", "--quiet", "--dest", str(folder)]
        options += ["--requirement", str(requirements)]
        run([sys.executable, "-m", "pip", "download", *options, *target()])
        files = [folder / wheel.file for wheel in batch]
        for file, wheel in zip(files, batch, strict=True):
            check_sha256(file, wheel.sha256)
        add_files(files)
        for file in files:
            file.unlink()
        done += len(batch)
