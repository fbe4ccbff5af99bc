"""The installation that a config requests."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from talos.config.cel.compile import compile_expression
from talos.config.cel.environments import DISK
from talos.config.documents.runtime.unattended_install import UnattendedInstallConfig
from talos.config.documents.v1alpha1.install import InstallConfig, InstallDiskSelector
from talos.config.model import Config
from talos.config.values import ByteSize
from talos.disks.disk import Disk
from talos.system.errors import UserError

type Matches = Callable[[Disk], bool]

UNATTENDED = "UnattendedInstallConfig"
SELECTOR = f"{UNATTENDED} provisioning.diskSelector.match"
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "": operator.eq,
    "==": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_TEXTS = ("model", "serial", "modalias", "uuid", "wwid", "bus_path")
_TYPES: Mapping[str, Matches] = {
    "nvme": lambda disk: disk.spec.transport == "nvme",
    "sd": lambda disk: disk.spec.transport == "mmc",
    "hdd": lambda disk: disk.spec.rotational,
    "ssd": lambda disk: not disk.spec.rotational,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallRequest:
    """Where to install, and how. Either ``path`` or ``matches`` selects the disk.

    ``where`` is the place in the config, ``wanted`` its text; ``wipe_option`` is the one that
    allows to erase what is on the disk.
    """

    where: str
    wanted: str
    wipe_option: str
    wipe: bool
    path: str = ""
    matches: Matches | None = None
    arguments: tuple[str, ...] = ()
    legacy_bios: bool = False
    reboot: bool = True
    warnings: tuple[str, ...] = ()


def read_request(config: Config) -> InstallRequest | None:
    """The installation that the config requests; None when it requests none. UserError for a mistake."""
    document = config.find(UnattendedInstallConfig)
    if document is not None:
        return _read_document(document)
    install = config.machine.install if config.machine else None
    if install is None or not (install.disk or install.disk_selector):
        return None
    return _read_install(install)


def _read_document(document: UnattendedInstallConfig) -> InstallRequest:
    provisioning = document.provisioning
    match = provisioning and provisioning.disk_selector and provisioning.disk_selector.match
    if not match:
        raise UserError("no disk is selected", where=SELECTOR, hint='such as disk.dev_path == "/dev/sda"')
    expression = compile_expression(match, DISK, where=SELECTOR)
    wipe = provisioning.wipe if provisioning else None
    image = document.installer.image if document.installer else None
    return InstallRequest(
        where=SELECTOR,
        wanted=match,
        matches=lambda disk: expression.is_true(disk.variables()),
        wipe=wipe is not False,
        wipe_option=f"{UNATTENDED} provisioning.wipe",
        reboot=document.reboot is not False,
        warnings=_warn_of_image(f"{UNATTENDED} installer.image", image),
    )


def _read_install(install: InstallConfig) -> InstallRequest:
    where, wanted, matches = "machine.install.disk", install.disk or "", None
    if not wanted and install.disk_selector:
        where = "machine.install.diskSelector"
        wanted = ", ".join(f"{name} {value}" for name, value in _list_settings(install.disk_selector))
        matches = _make_matches(install.disk_selector, where)
    warnings = _warn_of_image("machine.install.image", install.image)
    if install.extensions:
        warnings += ("machine.install.extensions: not used, the running system is installed as it is",)
    return InstallRequest(
        where=where,
        wanted=wanted,
        path=install.disk or "",
        matches=matches,
        wipe=bool(install.wipe),
        wipe_option="machine.install.wipe",
        arguments=install.extra_kernel_args or (),
        legacy_bios=bool(install.legacy_bios_support),
        warnings=warnings,
    )


def _warn_of_image(where: str, image: str | None) -> tuple[str, ...]:
    return (f"{where}: not used, the running system is installed",) if image else ()


def _list_settings(selector: InstallDiskSelector) -> list[tuple[str, str]]:
    names = ("size", "name", *_TEXTS, "type")
    return [(name, str(value)) for name in names if (value := getattr(selector, name)) is not None]


def _make_matches(selector: InstallDiskSelector, where: str) -> Matches:
    """All settings have to fit; texts are patterns in which ``*`` stands for anything."""
    tests: list[Matches] = []
    settings = dict(_list_settings(selector))
    if not settings:
        raise UserError("no disk is selected", where=where, hint="such as size: '>= 100GB'")
    for name, value in settings.items():
        if name == "size":
            tests.append(_make_size_test(value, f"{where}.size"))
        elif name == "type":
            tests.append(_TYPES[value])
        elif name == "name":
            tests.append(lambda disk, value=value: fnmatchcase(disk.id, value.removeprefix("/dev/")))
        else:
            tests.append(lambda disk, name=name, value=value: fnmatchcase(getattr(disk.spec, name), value))
    return lambda disk: all(test(disk) for test in tests)


def _make_size_test(text: str, where: str) -> Matches:
    digits = text.strip().lstrip("=<>")
    sign = text.strip().removesuffix(digits)
    try:
        compare = _COMPARISONS[sign]
        size = ByteSize.parse(digits.strip()).bytes
    except (KeyError, ValueError):
        raise UserError(f"{text!r} is no size to compare with", where=where, hint="such as >= 1TB") from None
    return lambda disk: compare(disk.spec.size, size)
