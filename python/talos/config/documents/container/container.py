"""``ContainerConfig``: a container that the node itself runs, beside Kubernetes."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import INT32, Document, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRunAs(Section):
    """User and group of the process."""

    uid: int | None = setting("user id", bounds=INT32)
    gid: int | None = setting("group id", bounds=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserVolumeMount(Section):
    """A user volume."""

    name: str | None = setting("name of the volume")
    destination: str | None = setting("path inside the container")
    options: tuple[str, ...] | None = setting(
        "mount options", allowed=("ro", "rw", "noexec", "nosuid", "nodev", "noatime", "rbind", "rshared")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TmpfsMount(Section):
    """A mount of memory."""

    destination: str | None = setting("path inside the container")
    size: str | None = setting("largest size")
    options: tuple[str, ...] | None = setting("mount options")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPathMount(Section):
    """A path of the host."""

    source: str | None = setting("path on the host")
    destination: str | None = setting("path inside the container")
    options: tuple[str, ...] | None = setting("mount options")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerMount(Section):
    """Mounts."""

    user_volume: UserVolumeMount | None = setting("a user volume")
    tmpfs: TmpfsMount | None = setting("memory")
    host_path: HostPathMount | None = setting("a path of the host")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCapabilities(Section):
    """Linux capabilities."""

    add: tuple[str, ...] | None = setting("capabilities to add")
    drop: tuple[str, ...] | None = setting("capabilities to drop")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSecurity(Section):
    """Permissions."""

    profile: str | None = setting("set of restrictions")
    capabilities: ContainerCapabilities | None = setting("Linux capabilities")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerNetwork(Section):
    """Its network."""

    mode: str | None = setting("kind of network")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResourceLimits(Section):
    """Limits of CPU and memory."""

    cpu: str | None = setting("CPUs")
    memory: str | None = setting("memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResources(Section):
    """CPU and memory."""

    limits: ContainerResourceLimits | None = setting("limits of CPU and memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDependsOn(Section):
    """Dependencies."""

    paths: tuple[str, ...] | None = setting("files")
    networks: tuple[str, ...] | None = setting(
        "states of the network", allowed=("addresses", "connectivity", "hostname", "etcfiles")
    )
    time: bool | None = setting("the right time")
    containers: tuple[str, ...] | None = setting("other containers")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerConfig(Document):
    """A container that the node itself runs, beside Kubernetes."""

    kind: ClassVar[str] = "ContainerConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the container", default="")
    image: str | None = setting("container image")
    entrypoint: tuple[str, ...] | None = setting("program to run")
    args: tuple[str, ...] | None = setting("its arguments")
    working_dir: str | None = setting("working directory")
    run_as: ContainerRunAs | None = setting("user and group of the process")
    environment: tuple[str, ...] | None = setting("environment variables, NAME=value", private=True)
    mounts: tuple[ContainerMount, ...] | None = setting("mounts")
    security: ContainerSecurity | None = setting("permissions")
    network: ContainerNetwork | None = setting("its network")
    resources: ContainerResources | None = setting("CPU and memory")
    depends_on: ContainerDependsOn | None = setting("dependencies")
