"""The definition of an extension's service, a file in :data:`DEFINITIONS`; the fields are upstream's."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from talos.extensions.fields import Fields
from talos.extensions.manifest import NAME

DEFINITIONS = "/usr/local/etc/containers"
ROOTS = "/usr/local/lib/containers"
"""The folder of a service's name is the root of its container."""
SUFFIX = ".yaml"
RESTARTS = ("always", "never", "untilSuccess")
NETWORK = ("addresses", "connectivity", "hostname", "etcfiles")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_TOP = ("name", "depends", "container", "restart", "logToConsole")
_CONTAINER = ("entrypoint", "args", "environment", "environmentFile", "mounts", "security")
_SECURITY = ("writeableRootfs", "writeableSysfs", "maskedPaths", "readonlyPaths", "rootfsPropagation")
_MOUNT = ("source", "destination", "type", "options")
_DEPENDS = ("service", "path", "network", "time", "configuration")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceMount:
    """A mount of the container."""

    source: str
    target: str
    type: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Depends:
    """What a service waits for: services, paths, parts of the network, the time, its configuration."""

    services: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    network: frozenset[str] = frozenset()
    time: bool = False
    configuration: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDefinition:
    """A service of an extension. None in ``masked`` and ``read_only``: the defaults of containers."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    environment_file: str = ""
    mounts: tuple[ServiceMount, ...] = ()
    depends: Depends = field(default_factory=Depends)
    restart: str = "always"
    writable_root: bool = False
    writable_sysfs: bool = False
    masked: tuple[str, ...] | None = None
    read_only: tuple[str, ...] | None = None
    propagation: str = ""

    @property
    def root(self) -> str:
        """The root of its container, on the node."""
        return f"{ROOTS}/{self.name}"


def parse_service(text: str, where: str) -> ServiceDefinition:
    """Parse a definition; UserError."""
    fields = Fields(where)
    top = fields.mapping(fields.load(text), *_TOP)
    name = fields.text(top, "name")
    if not NAME.fullmatch(name):
        raise fields.refuse(f"name: {name!r} is not of lower-case letters, digits and dashes")
    container = fields.mapping(top.get("container"), *_CONTAINER)
    security = fields.mapping(container.get("security"), *_SECURITY)
    restart = fields.text(top, "restart", "always")
    if restart not in RESTARTS:
        raise fields.refuse(f"restart: {restart!r}", hint=f"one of {', '.join(RESTARTS)}")
    fields.flag(top, "logToConsole")  # the kernel's log has no place for it
    return ServiceDefinition(
        name=name,
        argv=(fields.text(container, "entrypoint"), *fields.texts(container, "args")),
        environment=parse_environment(fields.texts(container, "environment"), where),
        environment_file=fields.text(container, "environmentFile", ""),
        mounts=tuple(_parse_mount(fields, mount) for mount in fields.sequence(container, "mounts")),
        depends=_parse_depends(fields, fields.sequence(top, "depends")),
        restart=restart,
        writable_root=fields.flag(security, "writeableRootfs"),
        writable_sysfs=fields.flag(security, "writeableSysfs"),
        masked=fields.texts(security, "maskedPaths") if "maskedPaths" in security else None,
        read_only=fields.texts(security, "readonlyPaths") if "readonlyPaths" in security else None,
        propagation=fields.text(security, "rootfsPropagation", ""),
    )


def parse_environment(entries: Sequence[str], where: str) -> dict[str, str]:
    """Variables, each ``NAME=value``; UserError."""
    found: dict[str, str] = {}
    for entry in entries:
        if not _VARIABLE.fullmatch(entry):
            raise Fields(where).refuse(f"environment: {entry!r} is not NAME=value")
        name, _, value = entry.partition("=")
        found[name] = value
    return found


def _parse_mount(fields: Fields, value: object) -> ServiceMount:
    mount = fields.mapping(value, *_MOUNT)
    target = fields.text(mount, "destination")
    if not target.startswith("/"):
        raise fields.refuse(f"mounts: the destination {target!r} does not begin with /")
    return ServiceMount(
        source=fields.text(mount, "source"),
        target=target,
        type=fields.text(mount, "type", "bind"),
        options=fields.texts(mount, "options"),
    )


def _parse_depends(fields: Fields, entries: Sequence[object]) -> Depends:
    found: dict[str, list[Any]] = {name: [] for name in _DEPENDS}
    for entry in entries:
        for name, value in fields.mapping(entry, *_DEPENDS).items():
            found[name] += cast("list[object]", value) if isinstance(value, list) else [value]
    network = fields.texts(found, "network")
    if unknown := [part for part in network if part not in NETWORK]:
        raise fields.refuse(f"depends: network: {unknown[0]!r}", hint=f"one of {', '.join(NETWORK)}")
    return Depends(
        services=fields.texts(found, "service"),
        paths=fields.texts(found, "path"),
        network=frozenset(network),
        time=any(found["time"]),
        configuration=any(found["configuration"]),
    )
