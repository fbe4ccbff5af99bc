"""References to images: a registry, a repository in it, and a tag or a digest."""

import re
from dataclasses import dataclass, replace
from typing import override

from talos.system.errors import UserError

DEFAULT_REGISTRY, OFFICIAL, DEFAULT_TAG = "docker.io", "library", "latest"
HUB = "index.docker.io"
"""Another name of docker.io, to containerd as to Docker's own client; what upstream calls it in rules."""
MAX_LENGTH = 1024
"""Characters."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?|\[[0-9A-Fa-f:]+\](:[0-9]{1,5})?")
_REPOSITORY = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[\w][\w.-]{0,127}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Where an image is: ``registry.k8s.io``, ``etcd``, and ``3.6.4`` or ``sha256:…`` or both."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @override
    def __str__(self) -> str:
        tag, digest = self.tag and f":{self.tag}", self.digest and f"@{self.digest}"
        return f"{self.registry}/{self.repository}{tag}{digest}"

    @property
    def object(self) -> str:
        """What is requested of its registry."""
        return self.digest or self.tag

    @property
    def stored(self) -> "Reference":
        """As containerd names it for Kubernetes: a digest makes a tag beside it void."""
        return replace(self, tag="") if self.digest else self

    def pinned(self, digest: str) -> "Reference":
        """The same image by this digest alone."""
        return replace(self, tag="", digest=digest)


def is_registry(text: str) -> bool:
    """Whether it can be a registry's host and port."""
    return bool(_HOST.fullmatch(text))


def is_repository(text: str) -> bool:
    """Whether it can be a repository; one is a path without dots and empty parts."""
    return bool(_REPOSITORY.fullmatch(text))


def is_tag(text: str) -> bool:
    """Whether it can be a tag."""
    return bool(_TAG.fullmatch(text))


def parse_reference(text: str) -> Reference:
    """A reference as people write it: ``nginx`` is ``docker.io/library/nginx:latest``.

    UserError: it is none.
    """
    where = f"image reference {text[:MAX_LENGTH]!r}"
    if len(text) > MAX_LENGTH:
        raise UserError(f"longer than {MAX_LENGTH} characters", where=where)
    name, at, digest = text.partition("@")
    if at and not DIGEST.fullmatch(digest):
        raise UserError("what follows @ is no digest", where=where, hint="use sha256: and 64 hex digits")
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        registry, path = first, rest
    else:
        registry, path = DEFAULT_REGISTRY, name
    registry = DEFAULT_REGISTRY if registry == HUB else registry
    if not is_registry(registry):
        raise UserError(f"{registry!r} is no host", where=where)
    repository, colon, tag = path.partition(":")
    if registry == DEFAULT_REGISTRY and "/" not in repository:
        repository = f"{OFFICIAL}/{repository}"
    if not is_repository(repository):
        raise UserError(f"{repository!r} is no repository, use lower-case letters", where=where)
    if colon and not is_tag(tag):
        raise UserError(f"{tag!r} is no tag", where=where)
    if not tag and not digest:
        tag = DEFAULT_TAG
    return Reference(registry=registry, repository=repository, tag=tag, digest=digest)
