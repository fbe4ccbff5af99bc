"""Checks of single documents that their declaration can't express, by kind."""

from collections.abc import Iterator, Mapping

from talos.config.check import (
    bgp,
    containers,
    kubernetes,
    links,
    login,
    network,
    runtime,
    trial_checks,
    volumes,
)
from talos.config.check.note import Check, Note
from talos.config.schema import Document

CHECKS: Mapping[str, Check] = {
    **bgp.CHECKS,
    **containers.CHECKS,
    **kubernetes.CHECKS,
    **links.CHECKS,
    **login.CHECKS,
    **network.CHECKS,
    **runtime.CHECKS,
    **trial_checks.CHECKS,
    **volumes.CHECKS,
}
NAMELESS = frozenset({"PCIDriverRebindConfig", "TrustedRootsConfig"})
"""Named kinds whose name may be empty."""


def check_document(document: Document) -> Iterator[Note]:
    """The checks of the document's kind."""
    if document.named and not getattr(document, "name", "") and document.kind not in NAMELESS:
        yield Note("is empty", document, "name")
    check = CHECKS.get(document.kind)
    if check is not None:
        yield from check(document)
