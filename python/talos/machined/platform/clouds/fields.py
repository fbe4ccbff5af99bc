"""What clouds' documents in JSON have: mappings, texts, and the network cards that they name."""

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.cloud import Documents
from talos.machined.platform.values import Fields, as_fields, as_list, read_json
from talos.system.errors import UserError

MAX_TEXT = 1024
"""Characters of a name, an id and the like."""


def read_fields(documents: Documents, name: str) -> Fields:
    """A part that is a mapping in JSON; an empty one when it is missing. UserError."""
    return part_of(read_json(documents.get(name, b""), name), name)


def read_items(documents: Documents, name: str) -> list[Fields]:
    """A part that is a list of mappings in JSON. UserError."""
    return items_of(read_json(documents.get(name, b""), name), name)


def part_of(value: object, where: str) -> Fields:
    """A mapping within a document; an empty one when it is missing. UserError."""
    return {} if value is None else as_fields(value, where)


def items_of(value: object, where: str) -> list[Fields]:
    """A list of mappings within a document. UserError."""
    return [as_fields(item, f"{where}[{index}]") for index, item in enumerate(as_list(value, where))]


def text_in(fields: Fields, name: str, where: str) -> str:
    """A text of one line, or the text of a number; empty when it is missing. UserError."""
    value = fields.get(name)
    return "" if value is None else check_text(value, f"{where}.{name}")


def check_text(value: object, where: str) -> str:
    """A text of one line, or the text of a number. UserError."""
    if isinstance(value, int | str) and not isinstance(value, bool):
        text = str(value).strip()
        if len(text) <= MAX_TEXT and text.isprintable():
            return text
    raise UserError("a text of one line is expected here", where=where)


def find_link(builder: NetworkBuilder, hardware: str, index: int) -> str:
    """The card with this hardware address, or the one at this place when there is none to compare.

    Empty while the card is not there.
    """
    return builder.find_card(hardware) if hardware else builder.name_card(index)
