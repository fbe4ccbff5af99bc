"""The declarations have exactly the fields of the reference tables."""

import csv
from collections import defaultdict
from pathlib import Path

import pytest
from tests.unit.config.samples import all_fields

from talos.config.documents.registry import MODULES, OWN_KINDS, document_type
from talos.config.schema import Field, Form

DATA = Path(__file__).parents[3] / "data" / "config"
HEADER = {"apiVersion", "kind"}

# The tables name these types without their fields.
BELOW_THE_TABLE = {"crt", "key"}


def read(name: str) -> list[dict[str, str]]:
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def rows_by_kind() -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in read("documents.tsv"):
        found[row["kind"]].append(row)
    return found


ROWS = rows_by_kind()
MAIN = {row["path"]: row for row in read("v1alpha1.tsv")}


def test_every_kind_is_declared() -> None:
    assert MODULES.keys() - OWN_KINDS == ROWS.keys()
    assert len(ROWS) == 89


@pytest.mark.parametrize("kind", sorted(ROWS))
def test_document_has_the_fields_of_its_table(kind: str) -> None:
    rows = {row["path"]: row for row in ROWS[kind] if row["path"] not in HEADER}
    fields = all_fields(document_type(kind))
    assert list(fields) == list(rows)
    for path, row in rows.items():
        check_type(path, row, fields[path])
        # The table's column is the JSON schema's: decoding requires nothing, validation does.
        assert not fields[path].required, path


def test_main_document_has_the_fields_of_its_table() -> None:
    fields = all_fields(document_type(""))
    known = {path for path in fields if path.rpartition(".")[2] not in BELOW_THE_TABLE or path in MAIN}
    assert known == MAIN.keys()
    for path, row in MAIN.items():
        check_type(path, row, fields[path])
        newer = row["deprecated"].removeprefix("yes").removeprefix(" -> ")
        if fields[path].setting.replaced_by:
            assert ",".join(fields[path].setting.replaced_by) == newer


def test_named_kinds_have_a_name() -> None:
    for kind in MODULES:
        document = document_type(kind)
        assert document.kind == kind == document.__name__
        assert document.named is ("name" in all_fields(document)), kind


def check_type(path: str, row: dict[str, str], field: Field) -> None:
    table, form = row["type"], field.shape.form
    if form is Form.SCALAR:
        assert not table.startswith(("list<", "list str", "map<")), path
        if table in {"bool", "boolean"}:
            assert field.shape.type is bool, path
        elif table in {"int", "integer"} and "RoutingRuleAction" not in row["go_type"]:
            assert issubclass(field.shape.type, int), path
    elif form is Form.LIST:
        assert "list" in table or row["go_type"].lstrip("*").startswith("[]"), path
    elif form is Form.MAP:
        assert table.startswith("map") or row["go_type"] == "Env", path
    if row["allowed"].startswith("min:"):
        assert field.setting.bounds is not None
        minimum, maximum = field.setting.bounds
        assert row["allowed"] == f"min:{minimum} , max:{maximum}"
    elif table == "enum":
        assert " , ".join(field.setting.allowed) == row["allowed"], path
