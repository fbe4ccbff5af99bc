"""Texts of elements of XML, by expat: the image has nothing else of Python's XML."""

import pyexpat
from collections.abc import Collection
from typing import NoReturn

from talos.system.errors import UserError

MAX_BYTES = 1024 * 1024
"""Of a document; the machine config of a cloud is of a few kilobytes."""


class _HasTypesError(Exception):
    """A document with a type can define entities, which stand for more than there is memory."""


def read_texts(data: bytes, names: Collection[str], where: str) -> dict[str, str]:
    """The text of the first element of each name, whatever its namespace; blanks around it are none of it.

    UserError: when this is no XML, too long, or has a document type.
    """
    if len(data) > MAX_BYTES:
        raise UserError(f"more than {MAX_BYTES} bytes", where=where)
    found: dict[str, list[str]] = {}
    path: list[str] = []

    def start(name: str, attributes: object) -> None:
        del attributes
        local = name.rpartition(":")[2]
        is_first = local in names and local not in found
        if is_first:
            found[local] = []
        path.append(local if is_first else "")

    def end(name: str) -> None:
        del name
        path.pop()

    def add(text: str) -> None:
        if path[-1]:
            found[path[-1]].append(text)

    parser = pyexpat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = add
    parser.StartDoctypeDeclHandler = _refuse
    try:
        # A text is parsed as UTF-8, whatever encoding it declares.
        parser.Parse(data.decode("utf-8-sig"), True)
    except (pyexpat.ExpatError, _HasTypesError, ValueError):
        raise UserError("this is no XML without a document type", where=where) from None
    return {name: "".join(texts).strip() for name, texts in found.items()}


def _refuse(*declaration: object) -> NoReturn:
    del declaration
    raise _HasTypesError
