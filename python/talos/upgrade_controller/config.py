"""What the controller is to do: a policy, of one YAML file or of a resource of Kubernetes, read strictly."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from talos.config.problem import ConfigError
from talos.config.read.reader import SectionReader
from talos.config.read.tree import parse_documents
from talos.config.schema import REQUIRED, UINT16, Section, setting
from talos.config.values import Duration, Url
from talos.fleet.plan import parse_unavailable
from talos.system.errors import UserError
from talos.upgrade.release.signature import load_public
from talos.upgrade_controller.credentials import ANONYMOUS, Credentials, parse_credentials
from talos.upgrade_controller.snapshots.config import (
    Snapshots,
    SnapshotsSection,
    check_snapshots,
    load_key,
)
from talos.upgrade_controller.window import DAYS, Window, make_window

ROLES = ("controlplane", "worker")
OF_VALUES, OF_KEYS = ("In", "NotIn"), ("Exists", "DoesNotExist")
"""The operators of rules on labels: on a value, and on whether there is one."""
MAX_CONFIG = 64 * 1024
"""Bytes of the file, and of one with credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSection(Section):
    """Where releases come from."""

    image: str = setting("an image whose tag moves to each new release", default=REQUIRED)
    keys: tuple[str, ...] = setting(
        "public keys, by one of which a release is signed: files, in a resource the PEM itself",
        default=REQUIRED,
    )
    endpoint: Url = setting(
        "call this mirror instead of the image's registry", default=Url(""), schemes=("http", "https")
    )
    credentials: str = setting(
        "the registry's user: a file as `docker login` writes it, in a resource the name of a Secret of "
        "the type kubernetes.io/dockerconfigjson",
        default="",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRule(Section):
    """A rule on one label, as in Kubernetes' own selectors."""

    key: str = setting("the label", default=REQUIRED)
    operator: str = setting("the condition", default=REQUIRED, allowed=(*OF_VALUES, *OF_KEYS))
    values: tuple[str, ...] = setting("the values, for In and NotIn", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesSection(Section):
    """Which nodes are kept at the channel's release."""

    roles: tuple[str, ...] = setting("of these roles (default: both)", default=ROLES, allowed=ROLES)
    hostnames: tuple[str, ...] = setting("whose hostname matches one of these patterns", default=("*",))
    exclude: tuple[str, ...] = setting("but for those whose hostname matches one of these", default=())
    match_labels: Mapping[str, str] | None = setting("whose labels in Kubernetes have these values")
    match_expressions: tuple[LabelRule, ...] = setting("whose labels satisfy these rules", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSection(Section):
    """When nodes may begin to be upgraded."""

    days: tuple[str, ...] = setting("on these days (default: all)", default=DAYS, allowed=DAYS)
    start: str = setting("from this time of the day on, as 22:00", default=REQUIRED, key="from")
    end: str = setting("until this one, which may be the next day's", default=REQUIRED, key="to")
    time_zone: str = setting("of the times, as Europe/Berlin", default="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Section):
    """Which nodes follow which channel, and when; which snapshots are taken. One of both may be alone."""

    channel: ChannelSection | None = setting("where releases come from (default: none, for snapshots alone)")
    nodes: NodesSection = setting("which nodes (default: all members of the cluster)", default=NodesSection())
    windows: tuple[WindowSection, ...] = setting("when (default: always)", default=())
    allow_unhealthy: bool = setting("begin although nodes are not healthy", default=False)
    paused: bool = setting("begin no further node", default=False)
    parallel: int = setting("workers at once", default=1, bounds=(1, UINT16[1]))
    max_unavailable: str = setting("workers that may be down at once, or a share of them", default="")
    interval: Duration = setting("between two checks of the channel", default=Duration("5m0s"))
    timeout: Duration = setting("for a node to install, and to be well again", default=Duration("30m0s"))
    snapshots: SnapshotsSection | None = setting("encrypted snapshots of etcd (default: none)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig(Policy):
    """The file. Paths are relative to it."""

    talosconfig: str = setting(
        "the client's config, with a certificate of the role os:upgrade, for snapshots os:etcd:backup, too",
        default=REQUIRED,
    )
    context: str = setting("its context (default: the current one)", default="")
    status: str = setting("the file that shows how far it is", default=REQUIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAccess:
    """How nodes are reached: a talosconfig, and its context, empty for the current one."""

    talosconfig: Path
    context: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A policy, and what it means: everything checked, what it names read."""

    policy: Policy
    windows: tuple[Window, ...]
    keys: tuple[Ed25519PublicKey, ...]
    access: ClientAccess
    credentials: Credentials = ANONYMOUS
    snapshots: Snapshots | None = None


def load_settings(path: Path) -> tuple[Settings, Path]:
    """Read the file: its settings, and where the status goes; UserError with a line for each mistake."""
    return make_settings(_read(path), path)


def make_settings(text: bytes, path: Path) -> tuple[Settings, Path]:
    """The same of a file's text."""
    config = read_policy(ControllerConfig, text, source=str(path))
    folder, channel = path.parent, config.channel
    settings = Settings(
        policy=config,
        windows=check_policy(config, f"{path}: "),
        keys=tuple(load_public(folder / name) for name in (channel.keys if channel else ())),
        access=ClientAccess(talosconfig=folder / config.talosconfig, context=config.context),
        credentials=_load_credentials(folder / channel.credentials)
        if channel and channel.credentials
        else ANONYMOUS,
        snapshots=_load_snapshots(config.snapshots, path),
    )
    return settings, folder / config.status


def read_policy[P: Policy](kind: type[P], text: bytes, *, source: str) -> P:
    """One YAML document as a policy; UserError with all mistakes."""
    documents = parse_documents(text, source=source)
    if len(documents) != 1:
        raise UserError(f"holds {len(documents)} documents, not one", where=source)
    reader = SectionReader(document="", source=source)
    policy: P | None = reader.read(kind, documents[0])
    if policy is None:
        raise ConfigError(sorted(reader.problems, key=str))
    return policy


def check_policy(policy: Policy, where: str) -> tuple[Window, ...]:
    """Check what the declaration of its settings does not show; its windows. UserError."""
    if policy.max_unavailable:
        parse_unavailable(policy.max_unavailable, 1, where=f"{where}maxUnavailable")
    if policy.channel is None and policy.snapshots is None:
        raise UserError("is missing", where=f"{where}channel", hint="name a channel, or snapshots to take")
    if policy.channel and not policy.channel.keys:
        raise UserError("is empty", where=f"{where}channel.keys", hint="name a public key")
    for index, rule in enumerate(policy.nodes.match_expressions):
        place = f"{where}nodes.matchExpressions[{index}].values"
        if rule.operator in OF_VALUES and not rule.values:
            raise UserError("is empty", where=place, hint=f"{rule.operator} needs a value")
        if rule.operator in OF_KEYS and rule.values:
            raise UserError("is not empty", where=place, hint=f"{rule.operator} takes no value")
    return tuple(
        make_window(one.days, one.start, one.end, one.time_zone, where=f"{where}windows[{index}]")
        for index, one in enumerate(policy.windows)
    )


def _load_snapshots(section: SnapshotsSection | None, path: Path) -> Snapshots | None:
    found, folder = check_snapshots(section, f"{path}: snapshots"), path.parent
    if found is None:
        return None
    return load_key(replace(found, folder=folder / found.folder), lambda name: _read(folder / name))


def _load_credentials(path: Path) -> Credentials:
    return parse_credentials(_read(path), where=str(path))


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_CONFIG + 1)
    except OSError as error:
        raise UserError(f"can't be read: {error.strerror}", where=str(path)) from None
    if len(text) > MAX_CONFIG:
        raise UserError(f"has more than {MAX_CONFIG} bytes", where=str(path))
    return text
