"""What changes between two configs, with secrets hidden.

diff(old, new) -> str      unified, empty when nothing changes
effects(old, new) -> list of changed settings that don't take effect at once

A setting may take effect later in a document that is there already, or never: a volume is made at once, and
grown at a boot if it may grow. What comes or goes with its whole document takes effect as its kind does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from talos.config.change.hunks import find_hunks
from talos.config.effective.volumes import may_grow
from talos.config.model import Config
from talos.config.schema import Applies, Document, Form, Section, fields_of
from talos.config.write.plain import REDACTED, redact, to_plain
from talos.resource.yaml.text import to_yaml


def diff(old: Config | None, new: Config) -> str:
    """A unified diff of the YAML, secrets hidden; a secret that changes is marked."""
    before = {document.id: document for document in old.documents} if old else {}
    after = {document.id: document for document in new.documents}
    left = {name: _lines(document, after.get(name), "old") for name, document in before.items()}
    right = {name: _lines(document, before.get(name), "new") for name, document in after.items()}
    return "".join(f"{line}\n" for line in find_hunks(_separate(left), _separate(right)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A changed setting that does not take effect at once."""

    path: str
    applies: Applies


def effects(old: Config | None, new: Config) -> list[Effect]:
    """The changed settings that take effect later, and when."""
    before = {document.id: document for document in old.documents} if old else {}
    after = {document.id: document for document in new.documents}
    found: list[Effect] = []
    for name in dict.fromkeys([*before, *after]):
        document = after.get(name) or before[name]
        was, now = before.get(name), after.get(name)
        is_whole = was is None or now is None
        later: list[Effect] = []
        _compare(type(document), was, now, document.kind, type(document).applies, later, is_whole=is_whole)
        growth = Applies.REBOOT if may_grow(document) else Applies.CREATION
        found += [
            replace(effect, applies=growth) if effect.applies is Applies.GROWTH else effect
            for effect in later
        ]
    return found


def _compare(
    section: type[Section],
    was: Any,
    now: Any,
    path: str,
    applies: Applies,
    found: list[Effect],
    *,
    is_whole: bool,
) -> None:
    if was == now:
        return
    for key, field in fields_of(section).items():
        left, right = (getattr(value, field.name) if value is not None else None for value in (was, now))
        if left == right:
            continue
        below = f"{path}.{key}" if path else key
        when = applies if is_whole else field.setting.applies or applies
        if field.shape.form is Form.SECTION:
            _compare(field.shape.type, left, right, below, when, found, is_whole=is_whole)
        elif when is not Applies.LIVE:
            found.append(Effect(path=below, applies=when))


def _lines(document: Document, other: Document | None, which: str) -> list[str]:
    hidden = redact(document)
    if other is not None and type(other) is type(document):
        _mark_changed(hidden, to_plain(document), to_plain(other), which)
    return to_yaml(hidden).splitlines()


def _mark_changed(hidden: Any, own: Any, other: Any, which: str) -> None:
    """Mark hidden secrets that differ."""
    keys: list[Any] = []
    if isinstance(hidden, dict) and isinstance(other, dict):
        keys = [key for key in cast("dict[str, Any]", hidden) if key in other]
    elif isinstance(hidden, list) and isinstance(other, list):
        items, others = cast("list[Any]", hidden), cast("list[Any]", other)
        keys = list(range(len(items))) if len(items) == len(others) else []
    for key in keys:
        if hidden[key] == REDACTED and own[key] != other[key]:
            hidden[key] = f"{REDACTED} ({which})"
        else:
            _mark_changed(hidden[key], own[key], other[key], which)


def _separate(documents: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """With the lines between documents, each at the beginning of the second one."""
    found: dict[str, list[str]] = {}
    for name, lines in documents.items():
        found[name] = ["---", *lines] if found else lines
    return found
