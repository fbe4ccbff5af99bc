"""Python wheels: pip resolves and downloads them for the image's interpreter, whatever the host's is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

from locks import SCRATCH, Input, Wheel, read_roots
from report import batches, log, run
from store import add_files, check_sha256, missing

BATCH = 8
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
    """Close each set over its dependencies; what the image has, the tools use too."""
    asked = read_roots()["wheels"]["sets"]
    image = report(asked["image"]["packages"])
    log(f"lock: wheels image: {len(image)}")
    both = report([*(f"{wheel.name}=={wheel.version}" for wheel in image), *asked["tools"]["packages"]])
    names = {wheel.name for wheel in image}
    tools = [wheel for wheel in both if wheel.name not in names]
    log(f"lock: wheels tools: {len(tools)}")
    return {"image": image, "tools": tools}


def report(requirements: list[str]) -> list[Wheel]:
    """Ask pip what it would install."""
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
    """Bring missing wheels into the store."""
    by_name = {wheel.file: wheel for wheels in sets.values() for wheel in wheels}
    wanted = sorted(item.store_name for item in missing(Input(w.file, w.sha256) for w in by_name.values()))
    folder = SCRATCH / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    done = 0
    for batch in batches(wanted, BATCH):
        log(f"fetch: wheels {done + 1}-{done + len(batch)} of {len(wanted)}: {by_name[batch[0]].name} …")
        lines = [
            f"{by_name[file].name}=={by_name[file].version} --hash=sha256:{by_name[file].sha256}\n"
            for file in batch
        ]
        requirements = folder / "requirements.txt"
        requirements.write_text("".join(lines))
        options = [
            "--require-hashes",
            "--no-deps",
            "--quiet",
            "--dest",
            str(folder),
            "--requirement",
            str(requirements),
        ]
        run([sys.executable, "-m", "pip", "download", *options, *target()])
        files = [folder / file for file in batch]
        for file in files:
            check_sha256(file, by_name[file.name].sha256)
        add_files(files)
        for file in files:
            file.unlink()
        done += len(batch)
