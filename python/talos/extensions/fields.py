"""Reading the values of a YAML document that an extension came with; a UserError names the file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import yaml

from talos.system.errors import UserError


@dataclass(frozen=True, slots=True)
class Fields:
    """The values of one file. All methods raise UserError for another type."""

    where: str

    def load(self, text: str) -> Any:
        """The document in a text."""
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise self.refuse(f"is no YAML: {' '.join(str(error).split())}") from None

    def mapping(self, value: object, *known: str) -> Mapping[str, Any]:
        """A mapping without other keys than these; None is an empty one."""
        if value is not None and not isinstance(value, dict):
            raise self.refuse(f"the fields {', '.join(known)} are expected")
        fields = cast("dict[str, Any]", value or {})
        if unknown := [str(key) for key in fields if key not in known]:
            raise self.refuse(f"unknown field {unknown[0]!r}", hint=f"known: {', '.join(known)}")
        return fields

    def text(self, fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
        """A text that is not blank; the default where it is left out."""
        value = fields.get(name, default)
        if isinstance(value, str) and (value.strip() or value == default):
            return value.strip()
        raise self.refuse(f"{name} is no text", hint="quote what looks like a number")

    def sequence(self, fields: Mapping[str, Any], name: str) -> Sequence[object]:
        """A list, empty where it is left out."""
        value: object = fields.get(name) or []
        if isinstance(value, list):
            return cast("list[object]", value)
        raise self.refuse(f"{name} is no list")

    def texts(self, fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(self.text({name: item}, name) for item in self.sequence(fields, name))

    def flag(self, fields: Mapping[str, Any], name: str) -> bool:
        """Whether something is on; off where it is left out."""
        value: object = fields.get(name, False)
        if isinstance(value, bool):
            return value
        raise self.refuse(f"{name} is neither true nor false")

    def refuse(self, text: str, hint: str = "") -> UserError:
        """An error of this file."""
        return UserError(text, where=self.where, hint=hint)
