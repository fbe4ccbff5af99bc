"""Names of extensions, and which systems they fit: ``manifest.yaml``, ``extensions.yaml`` of an image."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import yaml

from talos.extensions.fields import Fields
from talos.upgrade.release.initramfs import LAYERS

MANIFEST = "manifest.yaml"
SCHEMA = "v1alpha1"
MAX_EXTENSIONS = 32
"""As many as the early init mounts."""
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_COMPARISON = re.compile(r"(>=|<=|!=|==|=|>|<|)\s*v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:-[0-9a-z.]+)?")
_VERSION = re.compile(r"v(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:-.+)?")
type _Numbers = tuple[int, ...]
_OPERATORS: Mapping[str, Callable[[_Numbers, _Numbers], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "==": operator.eq,
    "=": operator.eq,
    "": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_TEXTS = ("name", "version", "author", "description")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """An extension. ``talos`` is the range of versions of the system that it fits, empty for all."""

    name: str
    version: str
    author: str
    description: str
    talos: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """An extension of an image. ``image`` is the name of its squashfs."""

    image: str
    extension: Extension


def parse_manifest(text: str, where: str) -> Extension:
    """Parse a ``manifest.yaml``; UserError."""
    fields = Fields(where)
    document = fields.mapping(fields.load(text), "version", "metadata")
    if document.get("version") != SCHEMA:
        raise fields.refuse(f"its schema is {document.get('version')!r}, not {SCHEMA}")
    return _parse_metadata(fields, document.get("metadata"))


def parse_layers(text: str, where: str = LAYERS) -> tuple[Layer, ...]:
    """Parse an ``extensions.yaml``, which is empty where there are no extensions; UserError."""
    fields = Fields(where)
    entries = fields.sequence(fields.mapping(fields.load(text), "layers"), "layers")
    layers = [fields.mapping(entry, "image", "metadata") for entry in entries]
    return tuple(
        Layer(image=fields.text(layer, "image"), extension=_parse_metadata(fields, layer.get("metadata")))
        for layer in layers
    )


def format_layers(layers: Sequence[Layer]) -> str:
    """An ``extensions.yaml``: the same layers give the same bytes."""
    entries = [{"image": layer.image, "metadata": _format_metadata(layer.extension)} for layer in layers]
    return yaml.safe_dump({"layers": entries}, sort_keys=False)


def is_compatible(extension: Extension, version: str) -> bool:
    """Whether an extension fits a version of the system; ``v1.15.0-beta.1`` counts as ``v1.15.0``.

    As upstream's ranges: comparisons that all have to hold, and ``||`` between alternatives. ValueError when
    the range is none.
    """
    match = _VERSION.fullmatch(version)
    if not extension.talos or match is None:  # a work tree's build has no place in the order
        return True
    running = tuple(map(int, match.groups()))
    results = [_is_within(running, part) for part in extension.talos.split("||")]
    return any(results)


def _is_within(running: _Numbers, text: str) -> bool:
    rest, results = text.strip(" ,"), list[bool]()
    while rest and (match := _COMPARISON.match(rest)):
        sign, major, minor, patch = match.groups()
        results.append(_OPERATORS[sign](running, (int(major), int(minor), int(patch or 0))))
        rest = rest[match.end() :].lstrip(" ,")
    if rest or not results:
        raise ValueError(f"{text.strip()!r} is no range such as '>= v1.15.0'")
    return all(results)


def _parse_metadata(fields: Fields, value: object) -> Extension:
    metadata = fields.mapping(value, *_TEXTS, "compatibility")
    texts = {name: fields.text(metadata, name) for name in _TEXTS}
    if not NAME.fullmatch(texts["name"]):
        raise fields.refuse(f"{texts['name']!r} is no name of lower-case letters, digits and dashes")
    talos = fields.mapping(fields.mapping(metadata.get("compatibility"), "talos").get("talos"), "version")
    extension = Extension(**texts, talos=fields.text(talos, "version", ""))
    try:
        is_compatible(extension, "v1.0.0")
    except ValueError as error:
        raise fields.refuse(f"compatibility: {error}") from None
    return extension


def _format_metadata(extension: Extension) -> dict[str, object]:
    texts: dict[str, object] = {name: getattr(extension, name) for name in _TEXTS}
    return texts | ({"compatibility": {"talos": {"version": extension.talos}}} if extension.talos else {})
