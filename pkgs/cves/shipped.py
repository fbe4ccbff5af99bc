"""What a build consists of, by the locks: Debian packages by their source, Go modules, wheels."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import locks
import store
from deb import read_source

ROOTS = (
    "image",
    "pci-ids",
    "debug",
    "kubelet",
    "kernel-source",
    "grub",
    "iscsi-tools",
    "qemu-guest-agent",
    "util-linux-tools",
    "microcode",
    "bootstrap",
)
"""Roots of which something is in what nodes run. The others only build or test it."""
PACKAGES = {"cc": ("musl-dev",), "uki": ("systemd-boot-efi",)}
"""Packages of other roots that are, too: the early init's library, the boot loader of UKIs."""
SETS = ("cni", "containerd", "coredns", "etcd", "flannel", "kubernetes", "network-policies", "runc")
WHEELS = ("image", "client")
GO_TOOLCHAIN = re.compile(r"golang[.]org/toolchain@v0[.]0[.]1-go([0-9.]+)[.]")
BINARY_REBUILD = re.compile(r"[+]b\d+$")
KERNEL = "linux"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A package as advisories name it, and where it is."""

    ecosystem: str
    name: str
    version: str
    places: str


def find_components(*, everything: bool) -> list[Component]:
    """All that nodes and the client run, or with what builds and tests it; FetchError."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for ecosystem, name, version, place in (
        *_debian(everything=everything),
        *_go(everything=everything),
        *_wheels(everything=everything),
    ):
        found.setdefault((ecosystem, name, version), set()).add(place)
    return [
        Component(ecosystem=ecosystem, name=name, version=version, places=", ".join(sorted(places)))
        for (ecosystem, name, version), places in sorted(found.items())
    ]


def _debian(*, everything: bool) -> Iterator[tuple[str, str, str, str]]:
    lock = locks.read_debian()
    for root, names in lock["roots"].items():
        shipped = names if everything or root in ROOTS else PACKAGES.get(root, ())
        for name in shipped:
            yield "Debian", *find_source(lock["packages"][name], name), root


def find_source(entry: dict[str, str], name: str) -> tuple[str, str]:
    """The source of a locked package: as the package itself has it where it was fetched, else by the lock."""
    item = locks.Input(locks.legal(entry["file"]), entry["sha256"])
    version = BINARY_REBUILD.sub("", entry["version"])
    path = store.real_path(store.store_path(item))
    if name.startswith("linux-source-"):
        return KERNEL, version
    if path.exists():
        source, source_version = read_source(path)
        return source or name, source_version or version
    return entry["path"].split("/")[-2], version


def _go(*, everything: bool) -> Iterator[tuple[str, str, str, str]]:
    lock = locks.read_go()
    for name, modules in lock.sets.items():
        if name == "toolchain":
            match = GO_TOOLCHAIN.match(modules[0])
            if match:
                yield "Go", "stdlib", match[1], "compiler"
        elif everything or name in SETS:
            for module in modules:
                path, _, version = module.partition("@")
                yield "Go", path, version.removeprefix("v"), name


def _wheels(*, everything: bool) -> Iterator[tuple[str, str, str, str]]:
    for name, wheels in locks.read_wheels().items():
        if everything or name in WHEELS:
            for wheel in wheels:
                yield "PyPI", re.sub("[-_.]+", "-", wheel.name.lower()), wheel.version, f"wheels {name}"
