"""Comments beside the values of a config, from the documents' declarations.

comments_for(document, docs=True, examples=True) -> Comments
"""

from collections.abc import Sequence

from talos.config.schema import Document, Field, Section, fields_of, section_at
from talos.config.write.plain import to_plain
from talos.resource.yaml.text import Comments, Path, to_yaml


class FieldComments(Comments):
    """Comments from the declarations of one document's keys."""

    def __init__(self, document: Document, *, docs: bool, examples: bool) -> None:
        self._document = document
        self._docs = docs
        self._examples = examples

    def of(self, path: Path) -> str:
        """The setting's short description."""
        if not self._docs:
            return ""
        if len(path) == 1 and path[0] == "kind" and self._document.kind:
            return (type(self._document).__doc__ or "").rstrip(".")
        field = _field_at(type(self._document), path)
        return _sentence(field.setting.doc) if field else ""

    def after(self, path: Path) -> Sequence[str]:
        """Examples of settings that are absent from a section."""
        section = section_at(type(self._document), path) if self._examples else None
        if section is None:
            return ()
        present = _keys_at(to_plain(self._document), path)
        lines: list[str] = []
        for key, field in fields_of(section).items():
            if key not in present and field.setting.example is not None:
                lines += [f"# {_sentence(field.setting.doc)}"] if self._docs else []
                lines += to_yaml({key: field.setting.example}).splitlines()
        return lines


def comments_for(document: Document, *, docs: bool, examples: bool) -> Comments:
    """The comments for one document."""
    return FieldComments(document, docs=docs, examples=examples)


def _sentence(doc: str) -> str:
    return doc[:1].upper() + doc[1:]


def _field_at(section: type[Section], path: Path) -> Field | None:
    """The declaration of a key; None for keys of maps and free-form objects."""
    above = section_at(section, path[:-1])
    return fields_of(above).get(path[-1]) if above is not None else None


def _keys_at(value: object, path: Path) -> set[str]:
    for part in path:
        if part == "[]" or not isinstance(value, dict):
            return set()
        value = value.get(part)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return set(value) if isinstance(value, dict) else set()  # pyright: ignore[reportUnknownArgumentType]
