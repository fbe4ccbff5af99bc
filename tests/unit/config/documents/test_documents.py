"""Every kind of document, walked through the registry."""

from pathlib import Path

import pytest
from tests.unit.config.samples import ALL_KINDS, all_fields, make_plain, secret_fields

from talos.config.change.patch import apply_patches, parse_patch
from talos.config.check.validate import Mode, validate
from talos.config.documents.registry import MODULES, document_type
from talos.config.read.loader import dump, load
from talos.config.read.nodes import plain
from talos.config.read.tree import parse_documents
from talos.config.write.plain import REDACTED, redact
from talos.resource.yaml.text import to_yaml

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_document_comes_back_the_same(kind: str) -> None:
    text = to_yaml(make_plain(kind))
    config = load(text)
    (document,) = config.documents
    assert type(document) is document_type(kind)
    assert dump(config) == text
    assert load(dump(config)) == config


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_every_value_has_its_place(kind: str) -> None:
    text = to_yaml(make_plain(kind))
    config = load(text)
    lines = text.splitlines()
    for path in config.marks[config.documents[0].id]:
        key = path.rpartition(".")[2]
        mark = config.mark(config.documents[0], path)
        assert mark is not None
        if path and "[" not in key:
            value_line, key_line = lines[mark.line - 1], lines[max(mark.line - 2, 0)]
            assert f"{key}:" in value_line or f"{key}:" in key_line


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_secrets_are_hidden(kind: str) -> None:
    (document,) = load(to_yaml(make_plain(kind))).documents
    text = to_yaml(redact(document))
    assert text.count(REDACTED) >= len(secret_fields(type(document)))
    assert "BEGIN SECRET" not in text


def test_what_sounds_secret_is_secret() -> None:
    endings = ("password", "passphrase", "privatekey", "presharedkey", "apitoken", "secret", "identitytoken")
    for kind in ALL_KINDS:
        for path, field in all_fields(document_type(kind)).items():
            if path.rpartition(".")[2].lower().endswith(endings):
                assert field.setting.secret, f"{kind} {path}"


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_every_setting_is_described(kind: str) -> None:
    document = document_type(kind)
    assert document.__doc__
    for path, field in all_fields(document).items():
        assert field.setting.doc, f"{kind} {path}"


@pytest.mark.parametrize("kind", MODULES)
def test_every_kind_has_an_example(kind: str) -> None:
    config = load((EXAMPLES / f"{kind}.yaml").read_bytes(), source=f"{kind}.yaml")
    assert {document.kind for document in config.documents} == {kind}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_example_is_good_and_in_our_own_style(path: Path) -> None:
    config = load(path.read_bytes(), source=path.name)
    report = validate(config, Mode.METAL, partial=True)
    assert not report.errors
    written = [plain(node) for node in parse_documents(path.read_bytes())]
    assert [plain(node) for node in parse_documents(dump(config))] == written


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_example_fits_a_generated_config(path: Path, control_plane: str) -> None:
    config = load(apply_patches(control_plane, [parse_patch(path.read_bytes(), source=path.name)]))
    assert {mode: validate(config, mode).errors for mode in Mode} == dict.fromkeys(Mode, ())
