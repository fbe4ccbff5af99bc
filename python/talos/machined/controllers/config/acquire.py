"""Find the machine's config at boot and publish it.

    complete = await acquire_config(state, sources, node.events.publish)

The order is upstream's: the file in STATE; the one in the image; ``talos.config.early``; what the
platform brings; ``talos.config.inline``. Each is merged into what was found before; the first
complete config ends the search, is kept in STATE and published as the resources ``v1alpha1`` and
``persistent``. Without one the node is in maintenance until ApplyConfiguration brings one.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio
from google.protobuf.message import Message

from talos.api.machine import machine_pb2 as pb
from talos.config.change.merge import merge_documents
from talos.config.check.validate import Mode, check
from talos.config.model import Config
from talos.config.problem import ConfigError
from talos.config.read.loader import dump, dump_plain, load
from talos.config.write.plain import to_plain
from talos.machined.node.config_store import (
    CONFIG_FILE,
    get_config,
    publish_config,
    write_config,
)
from talos.resource import ids
from talos.resource.state import State
from talos.system.errors import UserError

type Publish = Callable[[Message], object]
type Load = Callable[[], Awaitable[bytes]]

EMBEDDED = Path("/usr/local/etc/talos") / CONFIG_FILE


async def load_nothing() -> bytes:
    """A source without a config."""
    return b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of a config. Each load gives an empty text when there is none.

    They may raise UserError: what they would bring can't be used. ``load_platform`` may take
    hours; a config that a user applies meanwhile is the better one.
    """

    state_dir: Path
    embedded: Path = EMBEDDED
    load_early: Load = load_nothing
    load_platform: Load
    load_inline: Load = load_nothing
    remove_platform_config: Callable[[], None]
    mode: Mode


async def acquire_config(state: State, sources: Sources, publish: Publish) -> bool:
    """Whether there is a complete config; it is then published. What is not complete configures the network.

    A config that can't be used is published as an event, and the next source is tried.
    """
    kept = await _in_thread(partial(_load_kept, sources), publish)
    if kept is not None and kept.is_complete:
        await _use_kept(state, sources, kept)
        return True
    config = await _search(sources, kept, publish)
    if config is None or await get_config(state, ids.MACHINE_CONFIG) is not None:
        return False
    if not config.is_complete:
        # A user may have applied another one meanwhile.
        if await get_config(state, ids.MACHINE_CONFIG_MAINTENANCE) is None:
            await publish_config(state, ids.MACHINE_CONFIG_MAINTENANCE, config.text)
        return False
    try:
        await trio.to_thread.run_sync(write_config, sources.state_dir, config.text)
        sources.remove_platform_config()
    except OSError as error:
        # The node runs with it; only the next boot has to fetch it again.
        publish(pb.ConfigLoadErrorEvent(error=f"the config can't be kept: {error.strerror}"))
    with trio.CancelScope(shield=True):
        await _publish(state, config.text)
    return True


async def acquire_kept(state: State, sources: Sources, publish: Publish) -> bool:
    """Whether the config in STATE is complete; it is then published, unless there is one already."""
    kept = await _in_thread(partial(_load_kept, sources), publish)
    if kept is None or not kept.is_complete or await get_config(state, ids.MACHINE_CONFIG) is not None:
        return False
    await _use_kept(state, sources, kept)
    return True


async def _use_kept(state: State, sources: Sources, kept: Config) -> None:
    await _publish(state, kept.text)
    sources.remove_platform_config()


async def _search(sources: Sources, config: Config | None, publish: Publish) -> Config | None:
    """Merge source after source until the config is complete."""

    async def load_embedded() -> bytes:
        return sources.embedded.read_bytes() if sources.embedded.is_file() else b""

    for name, load_source in (
        (str(sources.embedded), load_embedded),
        ("talos.config.early", sources.load_early),
        ("platform", sources.load_platform),
        ("talos.config.inline", sources.load_inline),
    ):
        try:
            text = await load_source()
        except (UserError, OSError) as error:
            publish(pb.ConfigLoadErrorEvent(error=f"{name}: {error}"))
            continue
        if not text.strip():
            continue
        config = await _in_thread(partial(_take, config, text, name, sources.mode), publish)
        if config is not None and config.is_complete:
            break
    return config


async def _in_thread(work: Callable[[Publish], Config | None], publish: Publish) -> Config | None:
    """Parsing takes a while, in a thread; its findings are published from here, on the event loop."""
    notes: list[Message] = []
    config = await trio.to_thread.run_sync(work, notes.append)
    for note in notes:
        publish(note)
    return config


def _take(before: Config | None, text: bytes, source: str, mode: Mode, publish: Publish) -> Config | None:
    """The config so far, merged with this source's if that is valid."""
    brought = _load(text, source, publish)
    if brought is None:
        return before
    try:
        config = _merge(before, brought) if before is not None else brought
    except ConfigError as error:
        publish(pb.ConfigLoadErrorEvent(error=str(error)))
        return before
    return config if _check(config, mode, publish) else before


def _load_kept(sources: Sources, publish: Publish) -> Config | None:
    """The config in STATE. It was checked when it was written: findings are only published."""
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


def _load(text: bytes, source: str, publish: Publish) -> Config | None:
    try:
        return load(text, source=source)
    except UserError as error:
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
    await publish_config(state, ids.MACHINE_CONFIG_PERSISTENT, text)
    await publish_config(state, ids.MACHINE_CONFIG, text)
