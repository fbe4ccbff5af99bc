"""Enums as texts: what YAML, screens and messages show of a number."""

import functools
from collections.abc import Mapping

from talos.api.tables import read_table

ENUMS = "talos.resource.definitions.enums."
"""The package of almost all."""
_TEXTS_OF_META = {
    "cosi.resource.meta.ResourceDefinitionSpec.Sensitivity": {0: "non-sensitive", 1: "sensitive"}
}


@functools.cache
def enum_texts(enum: str) -> Mapping[int, str]:
    """The text of each number of an enum, by the enum's full name."""
    if enum in _TEXTS_OF_META:
        return _TEXTS_OF_META[enum]
    if enum == "resource.config.MachineType":
        enum = ENUMS + "MachineType"
    return _enum_table()[enum]


def format_stage(stage: int) -> str:
    """A machine's stage, such as ``shutting down``."""
    return enum_texts(ENUMS + "RuntimeMachineStage").get(stage, str(stage))


def format_machine_type(machine_type: int) -> str:
    """A machine's type, such as ``controlplane``."""
    return enum_texts(ENUMS + "MachineType").get(machine_type, str(machine_type))


@functools.cache
def _enum_table() -> Mapping[str, Mapping[int, str]]:
    table: dict[str, dict[int, str]] = {}
    for row in read_table("enum_text.tsv"):
        # Of several names for one number the first is the one written.
        table.setdefault(row["enum"], {}).setdefault(int(row["n"]), row["yaml_text"])
    return table
