"""QEMU and dnsmasq: from a pinned root that the environment names, else this machine's."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from talos.provision.host.checks import tool_path
from talos.system.errors import UserError
from talos.system.process import make_pinned_argv

ROOT_VARIABLE = "TALOS_VM_ROOT"
QEMU, DNSMASQ = "qemu-system-x86_64", "dnsmasq"
PACKAGES = {QEMU: "qemu-system-x86", DNSMASQ: "dnsmasq-base"}
_FOLDERS = ("usr/bin", "usr/sbin")
_FIRMWARE = ("usr/share/qemu", "usr/share/seabios")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The start of the argv of each program."""

    qemu: tuple[str, ...]
    dnsmasq: tuple[str, ...]


def find_programs(environment: Mapping[str, str] = os.environ) -> Programs:
    """Those of the pinned root, through its own loader, else those on the PATH.

    UserError: when one is missing.
    """
    root = environment.get(ROOT_VARIABLE, "")
    if not root:
        return Programs(qemu=_find_own(QEMU), dnsmasq=_find_own(DNSMASQ))
    firmware = [word for folder in _FIRMWARE for word in ("-L", f"{root}/{folder}")]
    return Programs(qemu=(*_find_pinned(root, QEMU), *firmware), dnsmasq=_find_pinned(root, DNSMASQ))


def _find_own(name: str) -> tuple[str, ...]:
    path = shutil.which(name, path=tool_path())
    if path is None:
        hint = f"apt-get install {PACKAGES[name]}, or name a root with it in {ROOT_VARIABLE}"
        raise UserError(f"{name} is missing", where="this machine", hint=hint)
    return (path,)


def _find_pinned(root: str, name: str) -> tuple[str, ...]:
    for folder in _FOLDERS:
        if Path(root, folder, name).exists():
            return make_pinned_argv(root, f"{folder}/{name}")
    raise UserError(
        f"there is no {name} in {root}", where=ROOT_VARIABLE, hint="nix build .#root-vm makes one"
    )
