"""Strategic merge of plain documents, by their declarations.

    merge_documents(base, patches) -> list of documents
    merge_document(document_type, base, patch) -> the merged document

Mappings merge. Lists are appended, replaced, or merged by a key. An empty text and the number 0
leave what is there, as in upstream's merge: its types can't distinguish them from an absent value.
"""

import copy
from collections.abc import Sequence
from typing import Any, cast

from talos.config.documents.registry import MODULES, document_type
from talos.config.problem import ConfigError, Problem
from talos.config.schema import Form, Merge, Section, Setting, Shape, fields_of

type Plain = dict[str, Any]

_NO_RULE = Setting()


def merge_documents(base: Sequence[Plain], patches: Sequence[Plain]) -> list[Plain]:
    """Merge documents into others of the same kind and name; the rest is added at the end.

    ConfigError: when two values of free-form objects don't fit together.
    """
    result = [copy.deepcopy(document) for document in base]
    for patch in patches:
        at = find_document(result, document_id(patch))
        if at is None:
            result.append(merge_document({}, patch))
        else:
            result[at] = merge_document(result[at], patch)
    return result


def merge_document(base: Plain, patch: Plain) -> Plain:
    """Two documents of the same kind and name as one.

    ConfigError: when two values of free-form objects don't fit together.
    """
    kind, name = document_id(patch)
    header = {key: patch[key] for key in ("apiVersion", "kind") if key in patch and kind}
    try:
        return header | _merge_section(document_type(kind), base, patch)
    except _ConflictError as error:
        label = f"{kind}/{name}" if name else kind
        problem = Problem(message=str(error), path=error.path, document=label, source="patch")
        raise ConfigError([problem]) from None


def document_id(document: Plain) -> tuple[str, str]:
    """Kind and name; the name only of kinds that may occur again under another one."""
    kind = str(document.get("kind", ""))
    named = kind in MODULES and document_type(kind).named
    return kind, str(document.get("name", "")) if named else ""


def find_document(documents: Sequence[Plain], identity: tuple[str, str]) -> int | None:
    """The index of a document."""
    return next((at for at, document in enumerate(documents) if document_id(document) == identity), None)


def without_empty(section: type[Section], plain: Plain) -> Plain:
    """The section without empty lists and mappings that mean the same as absent ones."""
    result: Plain = {}
    fields = fields_of(section)
    for key, value in plain.items():
        field = fields.get(key)
        if field is None:
            result[key] = value
        elif value or field.required or field.default is not None or field.shape.form not in _COLLECTIONS:
            result[key] = _without_empty_below(value, field.shape)
    return result


_COLLECTIONS = (Form.LIST, Form.MAP, Form.ARGS)


def _without_empty_below(value: Any, shape: Shape) -> Any:
    match shape.form:
        case Form.SECTION if isinstance(value, dict):
            return without_empty(shape.type, cast("Plain", value))
        case Form.LIST if shape.item and isinstance(value, list):
            return [_without_empty_below(item, shape.item) for item in cast("list[Any]", value)]
        case Form.MAP if shape.item and isinstance(value, dict):
            items = cast("Plain", value).items()
            return {key: _without_empty_below(item, shape.item) for key, item in items}
        case _:
            return value


class _ConflictError(Exception):
    """Two values that can't be merged; each level adds its part of the path."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path = ""

    def within(self, key: str) -> "_ConflictError":
        self.path = f"{key}.{self.path}" if self.path else key
        return self


def _merge_section(section: type[Section], base: Plain, patch: Plain) -> Plain:
    result = dict(base)
    fields = fields_of(section)
    for key, value in patch.items():
        field = fields.get(key)
        if field is None or value is None:
            continue
        try:
            result[key] = _merge_value(result.get(key), value, field.shape, field.setting)
        except _ConflictError as error:
            raise error.within(key) from None
    return result


def _merge_value(base: Any, patch: Any, shape: Shape, setting: Setting) -> Any:
    if setting.merge is Merge.REPLACE:
        return copy.deepcopy(patch)
    match shape.form:
        case Form.SECTION:
            return _merge_section(shape.type, base or {}, patch or {})
        case Form.MAP:
            assert shape.item is not None
            result: Plain = dict(base or {})
            for key, value in cast("Plain", patch).items():
                result[key] = _merge_value(result.get(key), value, shape.item, _NO_RULE)
            return result
        case Form.ARGS:
            known = cast("Plain", base or {})
            given = cast("Plain", copy.deepcopy(patch))
            return {**known, **{key: value for key, value in given.items() if value or key not in known}}
        case Form.LIST:
            assert shape.item is not None
            return _merge_list(base or [], patch, shape.item, setting)
        case Form.FREE:
            return _merge_free(base, patch)
        case Form.SCALAR:
            unset = 0 if issubclass(shape.type, int) and shape.type is not bool else ""
            return base if base is not None and patch == unset else patch


def _merge_list(base: list[Any], patch: list[Any], item_shape: Shape, setting: Setting) -> list[Any]:
    result = list(base)
    for given in patch:
        item: Any = dict[str, Any]() if given is None and item_shape.form is Form.SECTION else given
        at = _find_by_key(result, item, setting.merge_key) if setting.merge_key else None
        if at is None:
            result.append(None if item is None else _merge_value(None, item, item_shape, _NO_RULE))
        elif setting.merge is Merge.REPLACE_BY_KEY:
            result[at] = copy.deepcopy(item)
        else:
            result[at] = _merge_value(result[at], item, item_shape, _NO_RULE)
    return result


def _find_by_key(items: list[Plain], identity: Plain, keys: str) -> int | None:
    """The index of the item with the same value of the first key that ``identity`` has."""
    key = next((key for key in keys.split("|") if identity.get(key)), None)
    if key is None:
        return None
    return next((at for at, item in enumerate(items) if item.get(key) == identity[key]), None)


def _merge_free(base: Any, patch: Any) -> Any:
    if base is None:
        return copy.deepcopy(patch)
    if patch is None:
        return base
    if _kind(base) != _kind(patch):
        raise _ConflictError(f"it is {_kind(base)}, the patch has {_kind(patch)}")
    if isinstance(base, dict):
        result: Plain = dict(cast("Plain", base))
        for key, value in cast("Plain", patch).items():
            try:
                result[key] = _merge_free(result.get(key), value)
            except _ConflictError as error:
                raise error.within(key) from None
        return result
    if isinstance(base, list):
        return [*cast("list[Any]", base), *copy.deepcopy(patch)]
    return base if not isinstance(patch, bool) and patch in ("", 0) else patch


def _kind(value: Any) -> str:
    match value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case _:
            return "a text"
