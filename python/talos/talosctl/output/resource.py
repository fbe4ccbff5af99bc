"""Resources on the screen: rows of a table, YAML, JSON, JSONPath."""

import json
import re
import textwrap
from functools import lru_cache
from sys import intern

from talos.api.cosi.meta_pb2 import ResourceDefinitionSpec
from talos.api.cosi.resource_pb2 import Metadata, Resource
from talos.talosctl.output.jsonpath import Template, format_value
from talos.talosctl.output.units import format_time
from talos.talosctl.output.yaml_text import dump_yaml, parse_yaml

_VERSION = re.compile(r"[0-9]{1,20}")
MAX_CELLS = 4096
"""Texts of cells that are kept: all nodes show the same ones of their cluster, such as its members."""


def table_header(definition: ResourceDefinitionSpec, *, is_watch: bool) -> tuple[str, ...]:
    """The titles: the fixed ones, then the type's own."""
    change = ("*",) if is_watch else ()
    own = (column.name.upper() for column in definition.print_columns)
    return ("NODE", *change, "NAMESPACE", "TYPE", "ID", "VERSION", *own)


def table_row(
    node: str, resource: Resource, definition: ResourceDefinitionSpec, change: str | None = None
) -> tuple[str, ...]:
    """A resource's cells; ``change`` is the sign of a watch."""
    metadata = resource.metadata
    # All nodes show resources of the same names; those of 500 are kept until the last one has answered.
    fixed = map(intern, (metadata.namespace, definition.display_type, metadata.id, metadata.version))
    columns = definition.print_columns
    own = tuple(_cell(column.json_path, resource) for column in columns)
    sign = () if change is None else (change,)
    return (node, *sign, *fixed, *own)


def _cell(path: str, resource: Resource) -> str:
    text = _find_text(path, resource.spec.yaml_spec)
    if text is None and path.startswith(("{.metadata", "{.spec")):
        spec = _parse_spec(resource.spec.yaml_spec)
        text = _format_values(path, {"metadata": metadata_fields(resource.metadata), "spec": spec})
    return text or ""


@lru_cache(MAX_CELLS)
def _find_text(path: str, spec: str) -> str | None:
    """What a column shows of a spec in YAML."""
    return _format_values(path, _parse_spec(spec))


@lru_cache(1)
def _parse_spec(text: str) -> object:
    """A spec, kept for the other columns of its row, none of which changes it."""
    return parse_yaml(text)


def _format_values(path: str, root: object) -> str | None:
    """What a path finds; None when that is nothing."""
    values = Template(path).values(root)
    return " ".join(format_value(value) for value in values) if values else None


def metadata_fields(metadata: Metadata) -> dict[str, object]:
    """The metadata in the order and with the names upstream prints."""
    version: object = int(metadata.version) if _VERSION.fullmatch(metadata.version) else metadata.version
    fields: dict[str, object] = {
        "namespace": metadata.namespace,
        "type": metadata.type,
        "id": metadata.id,
        "version": version,
        "owner": metadata.owner,
        "phase": metadata.phase,
        "created": format_time(metadata.created),
        "updated": format_time(metadata.updated),
    }
    for name, pairs in (("labels", metadata.labels), ("annotations", metadata.annotations)):
        if pairs:
            fields[name] = dict(sorted(pairs.items()))
    if metadata.finalizers:
        fields["finalizers"] = list(metadata.finalizers)
    return fields


def format_yaml(node: str, resource: Resource) -> str:
    """The resource as a YAML document. The spec's own text is kept: its comments and order."""
    metadata = metadata_fields(resource.metadata)
    dates = {name: metadata.pop(name) for name in ("created", "updated")}
    head = dump_yaml(metadata)
    # Plain, as Go prints a time; PyYAML would quote it.
    lines = head.splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("phase:")) + 1
    lines[place:place] = [f"{name}: {value}" for name, value in dates.items()]
    return (
        f"node: {node}\nmetadata:\n"
        + textwrap.indent("\n".join(lines), "    ")
        + "\n"
        + _spec_text(resource.spec.yaml_spec)
    )


def _spec_text(text: str) -> str:
    text = text.rstrip("\n")
    is_block = isinstance(parse_yaml(text), dict | list) and text[:1] not in {"{", "["}
    indented = textwrap.indent(text, "    ")
    return f"spec:\n{indented}\n" if is_block else f"spec: {indented.lstrip()}\n"


def _fields(node: str, resource: Resource) -> dict[str, object]:
    return {
        "node": node,
        "metadata": metadata_fields(resource.metadata),
        "spec": parse_yaml(resource.spec.yaml_spec),
    }


def format_json(node: str, resource: Resource, event: str = "") -> str:
    """The resource as JSON; of a watch with what happened."""
    fields = _fields(node, resource)
    if event:
        fields = {"node": node, "event": event, **{key: fields[key] for key in ("metadata", "spec")}}
    return json.dumps(fields, indent=4, ensure_ascii=False) + "\n"


def format_jsonpath(template: Template, node: str, resource: Resource) -> str:
    """What a template finds in the resource."""
    return template.render(_fields(node, resource)) + "\n"
