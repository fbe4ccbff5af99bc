"""Find the machine's config at boot and make it known.

    complete = await acquire_config(state, sources, node.events.publish)

The order is upstream's, as far as there are sources: the file in STATE; what the
platform brings, merged into it. The first complete config ends the search, is kept in STATE
and published as the resources ``v1alpha1`` and ``persistent``. Without one the node is in
maintenance until ApplyConfiguration brings one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import Message

from talos.api.machine import machine_pb2 as pb
from talos.config.loader import dump, dump_plain, load
from talos.config.model import Config
from talos.config.patch import merge_documents
from talos.config.plain import to_plain
from talos.config.problem import ConfigError
from talos.config.validate import Mode, check
from talos.machined.api.config_store import ACTIVE, CONFIG_FILE, PERSISTENT, publish_config, write_config
from talos.resource.state import State

type Publish = Callable[[Message], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where a config may come from. ``load_platform`` gives an empty text when there is none."""

    state_dir: Path
    load_platform: Callable[[], bytes]
    forget_platform: Callable[[], None]
    mode: Mode


async def acquire_config(state: State, sources: Sources, publish: Publish) -> bool:
    """Whether there is a complete config; it is then published.

    A config that can't be used is told as an event, and the search goes on without it.
    """
    kept = _load_kept(sources, publish)
    if kept is not None and kept.is_complete:
        await _publish(state, kept.text)
        sources.forget_platform()
        return True
    brought = _load_brought(sources, publish)
    if brought is None:
        return False
    config = _merge(kept, brought) if kept is not None else brought
    if not config.is_complete:
        return False
    try:
        write_config(sources.state_dir, config.text)
        sources.forget_platform()
    except OSError as error:
        # The node can run with it; only the next boot will look for it again.
        publish(pb.ConfigLoadErrorEvent(error=f"the config can't be kept: {error.strerror}"))
    await _publish(state, config.text)
    return True


def _load_kept(sources: Sources, publish: Publish) -> Config | None:
    """The config in STATE. It was checked when it was kept: what is wrong by now is only told."""
    path = sources.state_dir / CONFIG_FILE
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        publish(pb.ConfigLoadErrorEvent(error=f"{path}: {error.strerror}"))
        return None
    config = _load(text, str(path), publish)
    if config is not None and config.is_complete:
        _check(config, sources.mode, publish)
    return config


def _load_brought(sources: Sources, publish: Publish) -> Config | None:
    """The platform's config, when it is good."""
    text = sources.load_platform()
    config = _load(text, "platform", publish) if text.strip() else None
    return config if config is not None and _check(config, sources.mode, publish) else None


def _load(text: bytes, source: str, publish: Publish) -> Config | None:
    try:
        return load(text, source=source)
    except ConfigError as error:
        publish(pb.ConfigLoadErrorEvent(error=str(error)))
        return None


def _check(config: Config, mode: Mode, publish: Publish) -> bool:
    try:
        check(config, mode, partial=not config.is_complete)
    except ConfigError as error:
        publish(pb.ConfigValidationErrorEvent(error=str(error)))
        return False
    return True


def _merge(first: Config, second: Config) -> Config:
    documents = merge_documents(
        [to_plain(document) for document in first.documents],
        [to_plain(document) for document in second.documents],
    )
    return load(dump(load(dump_plain(documents))))


async def _publish(state: State, text: bytes) -> None:
    await publish_config(state, PERSISTENT, text)
    await publish_config(state, ACTIVE, text)
