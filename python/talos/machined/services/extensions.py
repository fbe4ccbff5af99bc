"""Services of system extensions: containers whose definition and root came with the image.

What upstream grants them, they have here: the node's network, all devices, and what PID 1 may do but for
restarting and loading drivers. Their root is an overlay in memory, so that mounts find a place in it.
"""

from collections.abc import Sequence, Set
from functools import partial
from pathlib import Path
from typing import cast

import trio
from google.protobuf.message import Message

from talos.api.definitions.network_pb2 import StatusSpec
from talos.api.definitions.runtime_pb2 import ExtensionServiceConfigSpec
from talos.extensions.service import DEFINITIONS, SUFFIX, ServiceDefinition, parse_environment, parse_service
from talos.machined.containerd.client import SYSTEM_SOCKET
from talos.machined.containerd.spec import DEFAULT_MOUNTS, MASKED, READ_ONLY, ContainerSpec, Mount
from talos.machined.services.conditions import Condition, PathExists, ResourceReady
from talos.machined.services.etcd import TIME_READY
from talos.machined.services.kubelet import find_capabilities
from talos.machined.services.spec import (
    ApiAction,
    Restart,
    RunContainer,
    ServiceContext,
    ServiceSpec,
    read_own_variables,
)
from talos.resource import ids, kinds
from talos.resource.resource import Resource
from talos.resource.state import NotFoundError
from talos.system.errors import UserError
from talos.system.logging import Log

PREFIX = "ext-"
CONFIGS = "/system/config/extensions"
"""Where the files of ExtensionServiceConfig documents are, in a folder for each service."""
SOURCE_MODE = 0o700
_SYSFS = next(mount for mount in DEFAULT_MOUNTS if mount.target == "/sys")
_NETWORK = {
    "addresses": "address_ready",
    "connectivity": "connectivity_ready",
    "hostname": "hostname_ready",
    "etcfiles": "etc_files_ready",
}


def load_services(log: Log, known: Set[str], folder: str = DEFINITIONS) -> tuple[ServiceSpec, ...]:
    """The services of all extensions; one whose definition is unusable is reported and left out.

    ``known`` are the services of the system: those of extensions depend on these, or on one before them.
    """
    found: dict[str, ServiceSpec] = {}
    for path in sorted(Path(folder).glob(f"*{SUFFIX}")):
        try:
            service = _load_service(path, known | found.keys())
        except (UserError, OSError, UnicodeDecodeError) as error:
            log.warning("an extension's service can't be run", reason=str(error))
        else:
            found[service.id] = service
    return tuple(found.values())


def _load_service(path: Path, known: Set[str]) -> ServiceSpec:
    service = make_service(parse_service(path.read_text(encoding="utf-8"), str(path)))
    if missing := sorted(set(service.depends) - known):
        raise UserError(f"depends on {missing[0]!r}, which is no service", where=str(path))
    return service


def make_service(definition: ServiceDefinition) -> ServiceSpec:
    """The row of the table of services."""
    depends = definition.depends
    return ServiceSpec(
        id=f"{PREFIX}{definition.name}",
        start=RunContainer(make=partial(make_container, definition), socket=SYSTEM_SOCKET),
        depends=("containerd", *(name for name in depends.services if name != "containerd")),
        conditions=tuple(_make_conditions(definition)),
        group=f"system/extensions/{definition.name}",
        oom_score_adj=-600,
        restart=Restart(definition.restart),
        actions=frozenset(ApiAction),
    )


async def make_container(definition: ServiceDefinition, context: ServiceContext) -> ContainerSpec:
    """The container, with what the user's ExtensionServiceConfig adds."""
    status = await trio.Path("/proc/self/status").read_text(encoding="utf-8")
    config = await _find_config(context, definition.name)
    await make_sources(definition)
    environment = {
        **await read_own_variables(context.state),
        **await _read_environment_file(definition),
        **definition.environment,
        **parse_environment(config.environment, f"ExtensionServiceConfig {definition.name}"),
    }
    mounts = [
        Mount(
            target=mount.target,
            source=mount.source,
            type=mount.type,
            options=mount.options or ("rbind", "ro"),
        )
        for mount in definition.mounts
    ]
    mounts += [
        Mount(target=file.mount_path, source=str(find_file(definition.name, file.mount_path)))
        for file in config.files
    ]
    if definition.writable_sysfs:
        options = tuple(option for option in _SYSFS.options if option != "ro")
        mounts.insert(0, Mount(target="/sys", type="sysfs", source="sysfs", options=(*options, "rw")))
    return ContainerSpec(
        image=definition.name,
        rootfs=definition.root,
        argv=definition.argv,
        environment=environment,
        uid=0,
        gid=0,
        mounts=tuple(mounts),
        capabilities=find_capabilities(status),
        devices=True,
        read_only_root=not definition.writable_root,
        no_new_privileges=False,
        masked=MASKED if definition.masked is None else definition.masked,
        read_only=READ_ONLY if definition.read_only is None else definition.read_only,
        propagation=definition.propagation,
    )


async def make_sources(definition: ServiceDefinition) -> None:
    """Make the folders of the node that are mounted and are not there, as upstream does; UserError."""
    for mount in definition.mounts:
        source = trio.Path(mount.source)
        if mount.type == "bind" and not await source.exists():
            try:
                await source.mkdir(mode=SOURCE_MODE, parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(f"can't be made, to be mounted: {error}", where=mount.source) from None


def find_file(service: str, mount_path: str) -> Path:
    """Where the content of a file of the user's is kept, by its path in the container."""
    return Path(CONFIGS, service, mount_path.strip("/").replace("/", "-"))


async def _find_config(context: ServiceContext, name: str) -> ExtensionServiceConfigSpec:
    try:
        return (await context.state.get(kinds.EXTENSION_SERVICE_CONFIG, name)).spec
    except NotFoundError:
        return ExtensionServiceConfigSpec()


async def _read_environment_file(definition: ServiceDefinition) -> dict[str, str]:
    """The variables of a file of the node; a UserError while it is not there."""
    if not definition.environment_file:
        return {}
    path = definition.environment_file
    try:
        text = await trio.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"can't be read: {error}", where=path) from None
    lines = [line.strip() for line in text.splitlines()]
    return parse_environment([line for line in lines if line and not line.startswith("#")], path)


def _make_conditions(definition: ServiceDefinition) -> Sequence[Condition]:
    depends = definition.depends
    found: list[Condition] = [PathExists(path) for path in depends.paths]
    if depends.network:
        fields = [_NETWORK[name] for name in sorted(depends.network)]

        def is_ready(resource: Resource[Message]) -> bool:
            status = cast("StatusSpec", resource.spec)
            return all(getattr(status, field) for field in fields)

        kind, name = ids.NETWORK_STATUS
        found.append(ResourceReady(text="network", kind=kind, id=name, predicate=is_ready))
    if depends.time:
        found.append(TIME_READY)
    if depends.configuration:
        kind = kinds.EXTENSION_SERVICE_CONFIG_STATUS
        found.append(ResourceReady(text="extension service config", kind=kind, id=definition.name))
    return found
