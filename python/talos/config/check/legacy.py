"""The main document's fields that a document of its own has replaced."""

from collections.abc import Iterator
from typing import Any

from talos.config.check.note import Note
from talos.config.documents.network.resolver import HostDNSConfig, ResolverConfig
from talos.config.documents.registry import document_type
from talos.config.model import Config
from talos.config.schema import Form, Section, fields_of

_HOST_DNS = "machine.features.hostDNS"
_WITHOUT_PLACE = ("extraMounts", "extraVolumes")
"""Settings that the document of their section lacks."""


def check_conflicts(config: Config) -> Iterator[Note]:
    """A setting is either in the main document or in its own, not in both."""
    kinds = {document.kind for document in config.documents}
    for path, newer in find_replaced(config):
        if path == _HOST_DNS and not _has_host_dns(config):
            continue  # versions before v1.14 have their name servers there, and this here
        if len(newer) == 1 and newer[0] in kinds and not document_type(newer[0]).named:
            section, _, key = path.rpartition(".")
            if key in _WITHOUT_PLACE:
                text, hint = f"does not go with {newer[0]}", f"leave {newer[0]} out and keep {section}"
            else:
                text, hint = f"is also set by {newer[0]}", f"keep only {newer[0]}"
            yield Note(text, config.main, path, hint=hint)


def _has_host_dns(config: Config) -> bool:
    document = config.find(ResolverConfig)
    return document is not None and document.host_dns not in {None, HostDNSConfig()}


def find_replaced(config: Config) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Path of each replaced setting and the kinds that replace it."""
    if config.main is not None:
        yield from _walk(config.main, "", ())


def _walk(section: Section, path: str, inherited: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for key, field in fields_of(type(section)).items():
        value = getattr(section, field.name)
        if not _is_set(value):
            continue
        below = f"{path}.{key}" if path else key
        newer = field.setting.replaced_by or inherited
        if field.shape.form is Form.SECTION and (not newer or _has_replaced(field.shape.type)):
            yield from _walk(value, below, newer)
        elif newer:
            yield below, newer


def _has_replaced(section: type[Section]) -> bool:
    return any(field.setting.replaced_by for field in fields_of(section).values())


def _is_set(value: Any) -> bool:
    return value is not None and value != () and value != ""
