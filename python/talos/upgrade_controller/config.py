"""The controller's config: one YAML file, read strictly."""

from dataclasses import dataclass
from pathlib import Path

from talos.config.problem import ConfigError
from talos.config.read.reader import SectionReader
from talos.config.read.tree import parse_documents
from talos.config.schema import REQUIRED, UINT16, Section, setting
from talos.config.values import Duration, Url
from talos.fleet.plan import parse_unavailable
from talos.system.errors import UserError
from talos.upgrade_controller.window import DAYS, Window, make_window

ROLES = ("controlplane", "worker")
MAX_CONFIG = 64 * 1024
"""Bytes of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSection(Section):
    """Where releases come from."""

    image: str = setting("an image whose tag moves to each new release", default=REQUIRED)
    keys: tuple[str, ...] = setting(
        "files with public keys; a release has the signature of one", default=REQUIRED
    )
    endpoint: Url = setting(
        "ask this mirror instead of the image's registry", default=Url(""), schemes=("http", "https")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesSection(Section):
    """Which nodes are kept at the channel's release."""

    roles: tuple[str, ...] = setting("of these roles (default: both)", default=ROLES, allowed=ROLES)
    hostnames: tuple[str, ...] = setting("whose hostname matches one of these patterns", default=("*",))
    exclude: tuple[str, ...] = setting("but for those whose hostname matches one of these", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSection(Section):
    """When nodes may begin to be upgraded."""

    days: tuple[str, ...] = setting("on these days (default: all)", default=DAYS, allowed=DAYS)
    start: str = setting("from this time of the day on, as 22:00", default=REQUIRED, key="from")
    end: str = setting("until this one, which may be the next day's", default=REQUIRED, key="to")
    time_zone: str = setting("of the times, as Europe/Berlin", default="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig(Section):
    """All of it. Paths are relative to the file."""

    channel: ChannelSection = setting("where releases come from", default=REQUIRED)
    talosconfig: str = setting(
        "the client's config, with a certificate of the role os:upgrade", default=REQUIRED
    )
    context: str = setting("its context (default: the current one)", default="")
    nodes: NodesSection = setting("which nodes (default: all members of the cluster)", default=NodesSection())
    windows: tuple[WindowSection, ...] = setting("when (default: always)", default=())
    allow_unwell: bool = setting("begin although nodes are not well", default=False)
    paused: bool = setting("begin no further node", default=False)
    parallel: int = setting("workers at once", default=1, bounds=(1, UINT16[1]))
    max_unavailable: str = setting("workers that may be away at once, or a share of them", default="")
    interval: Duration = setting("between two looks at the channel", default=Duration("5m0s"))
    timeout: Duration = setting("for a node to install, and to be well again", default=Duration("30m0s"))
    status: str = setting("the file that shows how far it is", default=REQUIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A config, and what it means: its windows checked, its paths absolute."""

    config: ControllerConfig
    windows: tuple[Window, ...]
    keys: tuple[Path, ...]
    talosconfig: Path
    status: Path


def load_settings(path: Path) -> Settings:
    """Read the file; UserError, with each mistake's place on a line of its own."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_CONFIG + 1)
    except OSError as error:
        raise UserError(f"can't be read: {error.strerror}", where=str(path)) from None
    if len(text) > MAX_CONFIG:
        raise UserError(f"has more than {MAX_CONFIG} bytes", where=str(path))
    return make_settings(text, path)


def make_settings(text: bytes, path: Path) -> Settings:
    """The settings of a file's text; UserError."""
    documents = parse_documents(text, source=str(path))
    if len(documents) != 1:
        raise UserError(f"holds {len(documents)} documents, not one", where=str(path))
    reader = SectionReader(document="", source=str(path))
    config: ControllerConfig | None = reader.read(ControllerConfig, documents[0])
    if config is None:
        raise ConfigError(sorted(reader.problems, key=str))
    folder = path.parent
    if config.max_unavailable:
        parse_unavailable(config.max_unavailable, 1, where=f"{path}: maxUnavailable")
    if not config.channel.keys:
        raise UserError("is empty", where=f"{path}: channel.keys", hint="name the file of a public key")
    return Settings(
        config=config,
        windows=tuple(
            make_window(one.days, one.start, one.end, one.time_zone, where=f"{path}: windows[{index}]")
            for index, one in enumerate(config.windows)
        ),
        keys=tuple(folder / name for name in config.channel.keys),
        talosconfig=folder / config.talosconfig,
        status=folder / config.status,
    )
