"""``SigstoreTrustedRootConfig``: a Sigstore of one's own, whose keyless signatures of images count."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class SigstoreTrustedRootConfig(Document):
    """A Sigstore of your own: its keyless signatures of images count, those of the public instance don't."""

    kind: ClassVar[str] = "SigstoreTrustedRootConfig"

    trusted_root: str | None = setting("its authorities and logs: trusted_root.json of its TUF repository")
