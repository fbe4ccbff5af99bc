"""The form of JSON that signatures of TUF's metadata are made of.

http://wiki.laptop.org/go/Canonical_JSON: no spaces, keys in order, no fractions, and nothing in a text is
escaped but quotation marks and backslashes.
"""

from typing import cast


def format_canonical(value: object) -> bytes:
    """What was read of JSON, in that form; ValueError for what it does not have."""
    return _format(value).encode()


def _format(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return _quote(value)
        case list():
            return f"[{','.join(_format(item) for item in cast('list[object]', value))}]"
        case dict():
            items = sorted(cast("dict[str, object]", value).items())
            return f"{{{','.join(f'{_quote(key)}:{_format(item)}' for key, item in items)}}}"
        case _:
            raise ValueError(f"{value!r} has no canonical form")


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
