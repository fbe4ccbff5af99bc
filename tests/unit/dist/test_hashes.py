"""Tables of two machines are compared."""

import pytest
from hashes import HashesError, Row, compare, format_rows, parse_rows

KERNEL = Row(name="kernel", path="/nix/store/a-kernel", hash="sha256:1")
IMAGE = Row(name="image", path="/nix/store/b-image", hash="sha256:2")


def table(*rows: Row) -> dict[str, Row]:
    return parse_rows(format_rows(rows), "other.txt")


def test_equal_tables() -> None:
    assert compare(table(KERNEL, IMAGE), table(IMAGE, KERNEL)) == ([], 2)


def test_other_bytes_of_the_same_inputs() -> None:
    other = Row(name="kernel", path=KERNEL.path, hash="sha256:9")
    assert compare(table(KERNEL), table(other)) == (
        ["kernel: sha256:1 here, sha256:9 there: the builds differ"],
        1,
    )


def test_other_inputs() -> None:
    problems, compared = compare(
        table(KERNEL), table(Row(name="kernel", path="/nix/store/c-kernel", hash="sha256:1"))
    )
    assert compared == 0
    assert "is it the same commit?" in problems[0]


def test_what_one_machine_has_not_built_is_left_out() -> None:
    assert compare(table(KERNEL), table(Row(name="kernel", path=KERNEL.path, hash="-"))) == ([], 0)


def test_a_table_that_is_none() -> None:
    with pytest.raises(HashesError, match=r"^other\.txt:1: is no row of `make hashes`: 'x'$"):
        parse_rows("x\n", "other.txt")
