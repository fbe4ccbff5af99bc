"""Go modules: the go command resolves and downloads them, through the proxy configured on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import download
from locks import GO_SETS, SCRATCH, GoLock, GoModule, Input, read_roots
from report import FetchError, batches, log, run
from store import add_files, check_sha256, missing, real_path, store_path
from trim import FOLDER, unpack_trimmed

WORK = SCRATCH / "go"
BATCH = 20
PROXY = "GOPROXY"
STAGING_LINE = re.compile(r"^\s+(\S+) => \./staging/", re.MULTILINE)


def find_client() -> str:
    """Find the machine's go command; any since 1.16 can download, the pinned toolchain does the rest."""
    client = shutil.which("go")
    if client is None:
        raise FetchError(
            "there is no go command on this machine; run `make tools` as root, or install golang-go"
        )
    return client


def environment(cache: Path, **more: str) -> dict[str, str]:
    """Have the go command use a module cache of its own, and no toolchain but the one that is started."""
    return {
        **os.environ,
        "GO111MODULE": "on",
        "GOFLAGS": "-modcacherw",
        "GOMODCACHE": str(cache),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        **more,
    }


def toolchain_module() -> str:
    """Name the pinned compiler as the module it is published as."""
    return f"golang.org/toolchain@v0.0.1-go{read_roots()['go']['toolchain']}.linux-amd64"


def download_modules(modules: Iterable[str]) -> dict[str, GoModule]:
    """Download modules (`path@version`) into the scratch cache; return each with its files' hashes."""
    WORK.mkdir(parents=True, exist_ok=True)
    found: dict[str, GoModule] = {}
    text = run(
        [find_client(), "mod", "download", "-json", *modules], env=environment(WORK / "cache"), cwd=WORK
    )
    for entry in read_json_stream(text):
        found[f"{entry['Path']}@{entry['Version']}"] = GoModule(
            path=entry["Path"],
            version=entry["Version"],
            zip=download.sha256(Path(entry["Zip"])),
            mod=download.sha256(Path(entry["GoMod"])),
        )
    return found


def fetch(lock: GoLock, sets: Iterable[str]) -> None:
    """Bring the missing files of these sets into the store.

    From the user's mirror, by the go command where the machine has it, else by HTTP from GOPROXY.
    """
    wanted = lock.modules_of(sets)
    left = missing(item for module in wanted for item in module.inputs())
    if left:
        download.fetch(download.mirrored(left), "Go modules, mirrored,")
        left = missing(left)
    if left and shutil.which("go"):
        by_client([module for module in wanted if set(left).intersection(module.inputs())])
    elif left:
        by_http(wanted, left)


def by_client(modules: list[GoModule]) -> None:
    """Have the go command download modules, with the settings that it has on this machine."""
    done = 0
    for batch in batches(modules, BATCH):
        log(f"fetch: Go modules {done + 1}-{done + len(batch)} of {len(modules)}: {batch[0].name} …")
        download_modules(module.name for module in batch)
        for module in batch:
            add(module, WORK / "cache")
        done += len(batch)
    shutil.rmtree(WORK / "cache")


def by_http(modules: list[GoModule], left: list[Input]) -> None:
    """Get the two files of each module from the first proxy that has them."""
    places = {
        item: cache_file(Path(), module, suffix).relative_to("cache/download").as_posix()
        for module in modules
        for item, suffix in zip(module.inputs(), (".zip", ".mod"), strict=True)
    }
    for proxy in proxies():
        if left:
            left = download.fetch(
                [download.Download(i, f"{proxy}/{quote(places[i])}") for i in left], "Go modules"
            )
    if left:
        raise FetchError(f"no proxy of {PROXY} has {left[0].store_name}")


def proxies() -> list[str]:
    """List the proxies of the go command's own variable; without that command there is no default."""
    words = re.split("[,|]", os.environ.get(PROXY, ""))
    found = [word.strip().rstrip("/") for word in words if word.strip() not in {"", "direct", "off"}]
    if not found:
        raise FetchError(
            f"there is no go command on this machine; set {PROXY}=<URI of a proxy>, or install it"
        )
    return found


def add(module: GoModule, cache: Path) -> None:
    """Check a module's two files against the lock and hand them to the store."""
    folder = WORK / "files"
    folder.mkdir(parents=True, exist_ok=True)
    for item, suffix in zip(module.inputs(), (".zip", ".mod"), strict=True):
        file = folder / item.store_name
        shutil.copyfile(cache_file(cache, module, suffix), file)
        check_sha256(file, item.sha256)
        add_files([file])
        file.unlink()


def cache_file(cache: Path, module: GoModule, suffix: str) -> Path:
    """Return where a module cache, and a proxy, has a module's file: capitals are written !small."""
    path, version = (
        re.sub("[A-Z]", lambda found: "!" + found[0].lower(), word) for word in (module.path, module.version)
    )
    return cache / "cache" / "download" / path / "@v" / (version + suffix)


def resolve() -> GoLock:
    """Write each set's go.mod and go.sum, and lock the modules that its programs are compiled from."""
    spec = read_roots()["go"]
    compiler = download_modules([toolchain_module()])
    for module in compiler.values():
        add(module, WORK / "cache")
    client = unpack_toolchain(next(iter(compiler.values())))
    lock = GoLock(modules=dict(compiler), sets={"toolchain": sorted(compiler)})
    for name, wanted in spec["sets"].items():
        lock = lock.with_set(name, resolve_set(client, name, wanted))
    return lock


def resolve_some(lock: GoLock, names: Iterable[str]) -> GoLock:
    """Resolve these sets alone, with the locked compiler; the others stay as they are."""
    fetch(lock, ["toolchain"])
    (compiler,) = (lock.modules[name] for name in lock.sets["toolchain"])
    client, sets = unpack_toolchain(compiler), read_roots()["go"]["sets"]
    for name in names:
        lock = lock.with_set(name, resolve_set(client, name, sets[name]))
    return lock


def resolve_set(client: Path, name: str, wanted: Mapping[str, Any]) -> list[GoModule]:
    """Write a set's go.mod and go.sum; return the modules that its programs are compiled from."""
    folder = WORK / "sets" / name
    tidy(client, name, wanted, folder)
    found = find_needed(client, wanted, folder)
    (GO_SETS / name).mkdir(parents=True, exist_ok=True)
    for file in ("go.mod", "go.sum"):
        shutil.copyfile(folder / file, GO_SETS / name / file)
    for module in found:
        add(module, WORK / "cache")
    log(f"lock: Go modules of {name}: {len(found)}")
    return found


def unpack_toolchain(compiler: GoModule) -> Path:
    """Unpack the pinned compiler and return its go command. The archive has no x bits."""
    folder = WORK / f"toolchain-{compiler.version}"
    root = folder / compiler.name
    if not root.exists():
        with zipfile.ZipFile(real_path(store_path(compiler.inputs()[0]))) as archive:
            archive.extractall(folder)
        for tool in [*(root / "bin").iterdir(), *(root / "pkg/tool").rglob("*")]:
            tool.chmod(0o755)
    return root / "bin/go"


def tidy(client: Path, name: str, wanted: Mapping[str, Any], folder: Path) -> None:
    """Write go.mod from what roots.toml requests and have the go command complete it.

    A `tool` line makes a program of another module a thing that this one needs, so no Go of ours is in it. It
    leaves out what only tests of that module import: for a set with tests these are named as tools, too.
    """
    required = dict(module.split("@") for module in wanted["modules"])
    lines = [f"module {name}.build", f"go {wanted['go']}"]
    packages = [*wanted["programs"].values(), *wanted.get("tests", {}).values()]
    lines += [f"tool {package}" for package in packages]
    lines += [f"require {path} {version}" for path, version in required.items()]
    if staging := wanted.get("staging"):
        (upstream,) = download_modules([f"{staging['of']}@{required[staging['of']]}"]).values()
        text = cache_file(WORK / "cache", upstream, ".mod").read_text()
        lines += [f"replace {path} => {path} {staging['version']}" for path in STAGING_LINE.findall(text)]
    if trim := wanted.get("trim"):
        (whole,) = download_modules([trim["module"]]).values()
        unpack_trimmed(cache_file(WORK / "cache", whole, ".zip"), trim, folder)
        lines += [f"replace {whole.path} => ./{FOLDER}"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text("\n".join(lines) + "\n")
    (folder / "go.sum").unlink(missing_ok=True)
    env = environment(WORK / "cache")
    run([client, "mod", "tidy"], env=env, cwd=folder)
    if tests := wanted.get("tests"):
        imports = "{{range .TestImports}}-tool={{.}}\n{{end}}{{range .XTestImports}}-tool={{.}}\n{{end}}"
        listed = run([client, "list", "-f", imports, *tests.values()], env=env, cwd=folder)
        # Those of the standard library have no host in their name.
        outside = [line for line in listed.splitlines() if "." in line]
        run([client, "mod", "edit", *outside], env=env, cwd=folder)
        run([client, "mod", "tidy"], env=env, cwd=folder)


def find_needed(client: Path, wanted: Mapping[str, Any], folder: Path) -> list[GoModule]:
    """List the modules that the programs are made of: the ones that end up in an empty cache."""
    needed = WORK / "needed"
    shutil.rmtree(needed, ignore_errors=True)
    offline = {"GOPROXY": f"file://{WORK}/cache/cache/download", "GOSUMDB": "off"}
    target = {"GOOS": "linux", "GOARCH": "amd64", "CGO_ENABLED": "1" if wanted.get("cgo") else "0"}
    command = [client, "list", "-deps", "-tags", ",".join(wanted.get("tags", ()))]
    run([*command, *wanted["programs"].values()], env=environment(needed, **offline, **target), cwd=folder)
    if tests := wanted.get("tests"):
        run([*command, "-test", *tests.values()], env=environment(needed, **offline, **target), cwd=folder)
    cache = needed / "cache/download"
    names = [find_name(file.relative_to(cache)) for file in sorted(cache.rglob("*.zip"))]
    if trim := wanted.get("trim"):
        names.append(trim["module"])
    return list(download_modules(names).values())


def find_name(file: Path) -> str:
    """Return `path@version` of a module by the place of its archive in a cache."""
    return re.sub("!(.)", lambda found: found[1].upper(), f"{file.parent.parent}@{file.stem}")


def read_json_stream(text: str) -> list[dict[str, Any]]:
    """Parse JSON values that follow each other, as the go command prints them."""
    decoder, found, at = json.JSONDecoder(), list[dict[str, Any]](), 0
    while at < len(text.rstrip()):
        value, end = decoder.raw_decode(text, at)
        found.append(value)
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return found
