"""Configs for every version of Talos: what each carries is in tests/data/config/contracts.tsv."""

import csv
import json
from dataclasses import replace
from functools import cache, reduce
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.config import yaml_text

from talos.config.check.validate import Mode, validate
from talos.config.contract import Contract, parse_contract
from talos.config.generate.config import generate_config, render
from talos.config.generate.options import GenerateOptions
from talos.config.model import MachineType
from talos.config.read.loader import dump, load
from talos.config.secrets.bundle import SecretsBundle

TABLE = Path(__file__).parents[2] / "data" / "config" / "contracts.tsv"
LAYOUTS = TABLE.with_name("layouts.tsv")
COMPARED = [
    *(("v1.4", "controlplane"), ("v1.9", "worker"), ("v1.12", "controlplane")),
    *(("v1.13", "worker"), ("v1.15", "controlplane"), ("v1.15", "worker")),
]
"""Configs whose layout was compared with what upstream's generator writes, by its published test data."""
VERSIONS = [*(f"v1.{minor}" for minor in range(16)), "v1.99"]
MACHINES = {"controlplane": MachineType.CONTROL_PLANE, "worker": MachineType.WORKER}


def rows() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@cache
def old_secrets() -> SecretsBundle:
    return SecretsBundle.generate(contract=(1, 2))


def generate(version: str, machine: str, options: GenerateOptions) -> str:
    contract = parse_contract(version)
    if contract < (1, 3):
        options = replace(options, secrets=old_secrets())
    config = generate_config(replace(options, contract=contract), MACHINES[machine])
    return render(config, docs=False, examples=False)


def documents(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for document in yaml_text.read_all(text):
        if "kind" in document:
            found[document["kind"]] = document
        else:
            found |= document
    return found


def value_at(found: Any, path: str) -> Any:
    return reduce(lambda value, key: value.get(key) if value else None, path.split("."), found)


def holds(row: dict[str, str], contract: Contract, machine: str) -> bool:
    is_late_enough = contract >= parse_contract(row["since"])
    is_early_enough = not row["before"] or contract < parse_contract(row["before"])
    return is_late_enough and is_early_enough and row["machine"] in {"both", machine}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("version", VERSIONS)
def test_config_carries_what_its_version_knows(version: str, machine: str, options: GenerateOptions) -> None:
    found = documents(generate(version, machine, options))
    by_path: dict[str, list[dict[str, str]]] = {}
    for row in rows():
        by_path.setdefault(row["path"], []).append(row)
    for path, group in by_path.items():
        value = value_at(found, path)
        current = [row for row in group if holds(row, parse_contract(version), machine)]
        assert (value is not None) is bool(current), path
        for row in current:
            wanted = row["value"]
            if wanted:
                assert value == (json.loads(wanted) if wanted[0] in "[{" else yaml_text.read(wanted)), path


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("version", VERSIONS)
def test_config_of_any_version_is_valid(version: str, machine: str, options: GenerateOptions) -> None:
    text = generate(version, machine, options)
    config = load(text)
    report = validate(config, Mode.METAL)
    assert report.errors == ()
    assert report.warnings == ()
    assert dump(config) == text


def test_options_reach_old_layouts(options: GenerateOptions) -> None:
    changed = replace(
        options,
        endpoint="https://k.example:6443",
        additional_sans=["a.example"],
        install_disk="",
        registry_mirrors=["docker.io=http://10.0.0.5:5000"],
        with_kubespan=True,
        with_cluster_discovery=False,
        kube_prism_port=0,
        custom_cni_url="https://example.com/cni.yaml",
        allow_scheduling_on_control_planes=True,
        contract=(1, 11),
    )
    config = documents(dump(generate_config(changed, MachineType.CONTROL_PLANE)))
    machine, cluster = config["machine"], config["cluster"]
    assert machine["certSANs"] == ["a.example"]
    assert "disk" not in machine["install"]
    assert machine["registries"]["mirrors"] == {"docker.io": {"endpoints": ["http://10.0.0.5:5000"]}}
    assert machine["network"] == {"kubespan": {"enabled": True}}
    assert "kubePrism" not in machine["features"]
    assert cluster["apiServer"]["certSANs"] == ["k.example", "a.example"]
    assert cluster["discovery"]["enabled"] is False
    assert cluster["network"]["cni"] == {"name": "custom", "urls": ["https://example.com/cni.yaml"]}
    assert cluster["allowSchedulingOnControlPlanes"] is True
    oldest = documents(dump(generate_config(replace(changed, contract=(1, 1)), MachineType.CONTROL_PLANE)))
    assert oldest["cluster"]["allowSchedulingOnMasters"] is True
    newer = documents(dump(generate_config(replace(changed, contract=(1, 13)), MachineType.WORKER)))
    assert newer["KubeSpanConfig"]["enabled"] is True
    assert newer["RegistryMirrorConfig"]["name"] == "docker.io"


def shape(value: Any) -> str:
    """The keys of a value in their order, those of mappings in braces: ``ca{crt,key}``."""
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return f"[{shape(items[0])}]" if items and isinstance(items[0], dict) else ""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return "{" + ",".join(f"{key}{shape(below)}" for key, below in fields.items()) + "}"
    return ""


@pytest.mark.parametrize(("version", "machine"), COMPARED)
def test_documents_and_keys_come_in_upstreams_order(
    version: str, machine: str, options: GenerateOptions
) -> None:
    plain = replace(options, install_disk="", install_image="")
    found = yaml_text.read_all(generate(version, machine, plain))
    with LAYOUTS.open(encoding="utf-8") as file:
        table = [*csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    wanted = [row for row in table if (row["version"], row["machine"]) == (version, machine)]
    assert [(document.get("kind", ""), shape(document)) for document in found] == [
        (row["kind"], row["keys"]) for row in wanted
    ]


def test_an_installation_without_image_leaves_it_to_the_node(options: GenerateOptions) -> None:
    text = generate("v1.15", "worker", replace(options, install_image=""))
    assert documents(text)["UnattendedInstallConfig"]["installer"] == {}
