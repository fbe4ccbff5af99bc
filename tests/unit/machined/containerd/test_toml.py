"""TOML that a user writes for containerd."""

import pytest

from talos.machined.containerd.toml import MAX_DEPTH, MAX_DOTS, format_toml, parse_toml
from talos.system.errors import UserError


def test_what_is_written_is_read() -> None:
    table = parse_toml('a = 1\n["b.c"]\nd = [1.5, "x\\n", true]\n')
    assert table == {"a": 1, "b.c": {"d": [1.5, "x\n", True]}}
    assert parse_toml(format_toml(table)) == table


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"a = 1\n[{'b.' * MAX_DOTS}b.b]", f"line 2 has more than {MAX_DOTS} dots"),
        (f"[{'b.' * MAX_DEPTH}b]", f"its tables are nested more than {MAX_DEPTH} levels deep"),
        ("a =", "it is no TOML"),
    ],
)
def test_mistakes_are_one_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_toml(text)
