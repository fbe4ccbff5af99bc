"""Verdicts on configs as data: tests/data/config/verdicts, from upstream's rules."""

import copy
import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from talos.config.check.validate import Mode, validate
from talos.config.generate.config import generate_config, render
from talos.config.generate.options import GenerateOptions
from talos.config.model import MachineType
from talos.config.problem import ConfigError
from talos.config.read.loader import dump_plain, load
from talos.config.read.nodes import plain
from talos.config.read.tree import parse_documents
from talos.config.secrets.bundle import SecretsBundle

DATA = Path(__file__).parents[3] / "data" / "config"
HEADER = "apiVersion: v1alpha1\n"


def read(name: str) -> Any:
    return yaml.safe_load((DATA / "verdicts" / f"{name}.yaml").read_text())


def is_refused(text: str, mode: Mode = Mode.METAL, *, strict: bool = False, partial: bool = False) -> bool:
    try:
        report = validate(load(text), mode, partial=partial)
    except ConfigError:
        return True
    return bool(report.errors or (strict and report.warnings))


def document_cases() -> Iterator[Any]:
    for kind, cases in read("documents").items():
        for number, case in enumerate(cases):
            yield pytest.param(kind, case, id=f"{kind}-{number}")


@pytest.mark.parametrize(("kind", "case"), list(document_cases()))
def test_document_with_a_mistake_is_refused(kind: str, case: dict[str, Any]) -> None:
    text = dump_plain([{"apiVersion": "v1alpha1", "kind": kind, **case["config"]}])
    assert is_refused(text, partial=True), case["refused"]


def test_every_rule_of_a_kind_has_a_case() -> None:
    lines = (DATA / "rules.tsv").read_text().splitlines()
    rules = Counter(
        (row["kind"], row["upstream_refuses_with"])
        for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        if not row["kind"].startswith("(")
    )
    cases = Counter((kind, case["refused"]) for kind, cases in read("documents").items() for case in cases)
    assert rules == cases


def value_cases() -> Iterator[Any]:
    for case in read("values"):
        kind = case["document"].split()[1]
        for verdict in ("accepted", "refused"):
            for value in case[verdict]:
                yield pytest.param(case["document"], str(value), verdict, id=f"{kind}-{value}-{verdict}")


@pytest.mark.parametrize(("document", "value", "verdict"), list(value_cases()))
def test_value(document: str, value: str, verdict: str) -> None:
    text = HEADER + document.replace("VALUE", value) + "\n"
    assert is_refused(text, partial=True) is (verdict == "refused")


@pytest.fixture(scope="session")
def bases(control_plane: str, worker: str, bundle: SecretsBundle) -> dict[str, list[dict[str, Any]]]:
    """Complete configs of the current layout, one of the former, none."""
    found = {
        name: [plain(node) for node in parse_documents(text)]
        for name, text in (("controlplane", control_plane), ("worker", worker))
    }
    main = found["controlplane"][0]
    legacy = {
        **main,
        "cluster": {
            "controlPlane": {"endpoint": "https://10.0.0.1:6443"},
            "clusterName": "demo",
            "ca": main["machine"]["ca"],
            "secretboxEncryptionSecret": bundle.secretbox_secret,
            "etcd": main["cluster"]["etcd"],
        },
    }
    return {**found, "legacy": [legacy], "none": []}


def merge(into: dict[str, Any], more: Any) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)  # pyright: ignore[reportUnknownArgumentType] - data
        else:
            into[key] = value


def make_config(bases: dict[str, list[dict[str, Any]]], case: dict[str, Any]) -> str:
    documents = copy.deepcopy(bases[case["base"]])
    documents = [one for one in documents if one.get("kind") not in case.get("remove", ())]
    merge(documents[0] if documents else {}, case.get("main", {}))
    for one in case.get("add", ()):
        documents.append({"apiVersion": "v1alpha1", **one} if "kind" in one else one)
    text = dump_plain(documents)
    for old, new in case.get("replace", {}).items():
        assert old in text
        text = text.replace(old, new, 1)
    return text


@pytest.mark.parametrize("minor", range(3, 16))
@pytest.mark.parametrize("role", [MachineType.CONTROL_PLANE, MachineType.WORKER])
def test_a_config_of_any_version_is_silent(bundle: SecretsBundle, role: MachineType, minor: int) -> None:
    options = GenerateOptions(
        cluster_name="demo", endpoint="https://10.0.0.1:6443", secrets=bundle, contract=(1, minor)
    )
    text = render(generate_config(options, role), docs=False, examples=False)
    assert not is_refused(text, Mode.METAL, strict=True)
    assert not is_refused(text, Mode.CLOUD, strict=True)
    # Containers need the host's DNS, which is generated since 1.8.
    assert is_refused(text, Mode.CONTAINER, strict=True) is (minor < 8)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("case", read("configs"), ids=lambda case: f"{case['base']}-{case['why']}")
def test_config(bases: dict[str, list[dict[str, Any]]], case: dict[str, Any], mode: Mode) -> None:
    text = make_config(bases, case)
    refused = mode.value in case.get("refused", ())
    assert is_refused(text, mode) is refused
    assert is_refused(text, mode, strict=True) is (refused or mode.value in case.get("strict", ()))
