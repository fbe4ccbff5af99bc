"""What the platform of a cloud consists of: where its machine config and its metadata come from."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.server import MetadataServer
from talos.machined.platform.config_sources.volume import VolumeSource
from talos.machined.platform.values import as_text
from talos.system.errors import UserError
from talos.system.files import Files
from talos.system.proc.cmdline import Cmdline

type Documents = Mapping[str, bytes]
"""The metadata of a machine, by the name of each part, such as ``meta-data``; a part may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where clouds keep these things."""

    server: MetadataServer
    volume: VolumeSource
    files: Files
    arguments: Cmdline
    environment: Mapping[str, str]
    """Of programs; it may name a proxy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """One cloud. Each of its functions raises UserError with the place of a mistake."""

    load_user_data: Callable[[Source], Awaitable[bytes]]
    """The document with the machine config; empty when there is none."""
    load_documents: Callable[[Source], Awaitable[Documents]]
    describe: Callable[[Documents, NetworkBuilder], None]
    """Read the documents: the network, names and metadata. It is called anew when a network card appears."""
    user_data: str = "user-data"
    """The name of the document with the machine config, for messages."""

    async def load_config(self, source: Source) -> bytes:
        """The machine config; empty when there is none.

        UserError: also when the document is meant for another program.
        """
        data = await self.load_user_data(source)
        if data.lstrip().startswith(b"#cloud-config"):
            hint = "it has to be a machine config: talosctl gen config"
            raise UserError("this is for cloud-init", where=self.user_data, hint=hint)
        return data


def text_of(documents: Documents, name: str) -> str:
    """A part that is a short text, without blanks around it; empty when it is missing. UserError."""
    return as_text(documents.get(name, b"").decode("utf-8", "replace"), name)


def words_of(documents: Documents, name: str) -> list[str]:
    """A part that is a list of words, in most clouds one a line."""
    return documents.get(name, b"").decode("utf-8", "replace").split()


def decode_user_data(data: bytes) -> bytes:
    """What a cloud keeps in base64, or the text as it is: no machine config is in that alphabet."""
    try:
        return base64.b64decode(b"".join(data.split()), validate=True)
    except ValueError:
        return data
