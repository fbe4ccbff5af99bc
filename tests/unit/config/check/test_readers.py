"""Which settings nodes read is a table; the source shows whether it is right."""

import ast
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from talos.config.check.readers import REASONS, UNREAD_KINDS, UNREAD_SETTINGS, find_unread
from talos.config.documents.registry import MODULES, document_type
from talos.config.read.loader import load
from talos.config.schema import Field, Form, Section, fields_of

ROOT = Path(__file__).parents[4] / "python"
BONDS = ROOT / "talos/networkd/bond_options.py"
"""A table of a bond's settings, whichever document they are from."""
EFFECTIVE = "talos.config.effective"
"""The package through which nodes read settings."""


@cache
def node_modules() -> tuple[ast.Module, ...]:
    """The source of what runs on nodes, above the layer of configs."""
    layers = tomllib.loads((ROOT / "layers.toml").read_text())
    level = layers["config"]["layer"]
    folders = [name for name, layer in layers.items() if "node" in layer["on"] and layer["layer"] > level]
    return tuple(
        ast.parse(path.read_text())
        for folder in folders
        for path in sorted((ROOT / "talos" / folder).rglob("*.py"))
    )


@cache
def effective_modules() -> tuple[ast.Module, ...]:
    folder = ROOT / EFFECTIVE.replace(".", "/")
    return tuple(ast.parse(path.read_text()) for path in sorted(folder.glob("*.py")))


@cache
def kinds_by_function() -> dict[str, set[str]]:
    """What the functions of these modules read, also through each other."""
    bodies = [node for module in effective_modules() for node in module.body]
    functions = [node for node in bodies if isinstance(node, ast.FunctionDef)]
    found = {function.name: names_in(function) for function in functions}
    for _ in functions:
        for names in found.values():
            names |= {name for called in names & found.keys() for name in found[called]}
    return {name: names & MODULES.keys() for name, names in found.items()}


def names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def read_kinds() -> set[str]:
    """Kinds that a module of a node names, or that it gets from one of these modules."""
    found: set[str] = set()
    for module in node_modules():
        found |= imported_from(module, "talos.config.documents") & MODULES.keys()
        modules = effective_names(module)
        called = imported_from(module, f"{EFFECTIVE}.") | {
            node.attr
            for node in ast.walk(module)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in modules
        }
        for name in called:
            found |= kinds_by_function().get(name, set())
    return found


def effective_names(module: ast.Module) -> set[str]:
    """Names that a module gives to modules of this package."""
    return {
        alias.asname or alias.name
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module == EFFECTIVE
        for alias in node.names
    }


def imported_from(module: ast.Module, prefix: str) -> set[str]:
    return {
        alias.name
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(prefix)
        and not (node.module or "").startswith("talos.config.documents.v1alpha1")
        for alias in node.names
    }


def test_the_table_is_what_the_source_reads() -> None:
    assert sorted(UNREAD_KINDS) == sorted(MODULES.keys() - read_kinds())


def reads_configs(module: ast.Module) -> bool:
    """Whether a module imports what a config or a part of one is made of."""
    return any(
        isinstance(node, ast.ImportFrom) and (node.module or "").startswith("talos.config")
        for node in ast.walk(module)
    )


@cache
def readers() -> tuple[ast.Module, ...]:
    """The source that may read a setting."""
    return (*filter(reads_configs, node_modules()), *effective_modules())


def attributes_of(module: ast.Module) -> Iterator[str]:
    """Attributes that a module reads; one that is called, such as ``log.debug``, is a method."""
    methods = {
        id(node.func)
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and id(node) not in methods:
            yield node.attr


@cache
def attributes_of_nodes() -> set[str]:
    return {name for module in readers() for name in attributes_of(module)}


@cache
def names_of_nodes() -> frozenset[str]:
    """What the source of nodes names as an attribute, or in a table of fields."""
    keys = {
        key.value
        for module in (*readers(), ast.parse(BONDS.read_text()))
        for node in ast.walk(module)
        if isinstance(node, ast.Dict | ast.Tuple)
        for key in (node.keys if isinstance(node, ast.Dict) else node.elts)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }
    return frozenset(attributes_of_nodes() | keys)


WHOLE = ("EthernetConfig.channels", "EthernetConfig.rings")
"""Sections all of whose fields ``networkd/controllers/ethernet_status.py`` copies."""
NO_READER = {
    "persist": "validation refuses false",
    "machine.network.interfaces.bond.adActorSystem": "validation refuses it",
    "machine.network.interfaces.bond.arpIPTarget": "validation refuses it",
    "machine.features.apidCheckExtKeyUsage": "always on, as upstream",
    "machine.features.rbac": "always on, as upstream",
    "machine.install.grubUseUKICmdline": "true: the image's arguments; validation refuses others",
    "cluster.apiServer.disablePodSecurityPolicy": "without effect, as upstream",
    "machine.systemDiskEncryption": "luks2 alone",
    "ExternalVolumeConfig.filesystemType": "virtiofs alone",
    "RawVolumeConfig.encryption": "luks2 alone",
    "SwapVolumeConfig.encryption": "luks2 alone",
    "UserVolumeConfig.encryption": "luks2 alone",
    "VolumeConfig.encryption": "luks2 alone",
}
"""Settings that nothing reads and that need no notice."""


def leaves(kind: str) -> Iterator[tuple[str, Field]]:
    """Every setting of a document by its path, but for those below a setting whose kind has no reader."""
    yield from _leaves(document_type(kind), "", ())


def _leaves(
    section: type[Section], prefix: str, above: tuple[type[Section], ...]
) -> Iterator[tuple[str, Field]]:
    for key, field in fields_of(section).items():
        newer = field.setting.replaced_by
        if newer and UNREAD_KINDS.issuperset(newer):
            continue
        shape = field.shape
        while shape.form is not Form.SECTION and shape.item is not None:
            shape = shape.item
        yield f"{prefix}{key}", field
        if shape.form is Form.SECTION and shape.type not in above:
            yield from _leaves(shape.type, f"{prefix}{key}.", (*above, shape.type))


def is_below(path: str, tops: Iterable[str]) -> bool:
    return any(path == top or path.startswith(f"{top}.") for top in tops)


@pytest.mark.parametrize("kind", ["", *sorted(MODULES.keys() - UNREAD_KINDS)])
def test_every_setting_is_read_or_named(kind: str) -> None:
    read = names_of_nodes()
    named = UNREAD_SETTINGS.get(kind, {})
    missing = [
        path
        for path, field in leaves(kind)
        if field.shape.form is not Form.SECTION
        and field.name not in read
        and not is_below(path, named)
        and not is_below(".".join(filter(None, (kind, path))), (*WHOLE, *NO_READER))
    ]
    assert not missing, f"{kind or 'the main document'}: neither a node's code nor UNREAD_SETTINGS names them"


@pytest.mark.parametrize("kind", sorted(UNREAD_SETTINGS))
def test_a_setting_listed_as_unread_has_no_reader(kind: str) -> None:
    fields = dict(leaves(kind))
    assert UNREAD_SETTINGS[kind].keys() <= fields.keys()
    # These have the name of a setting elsewhere that is read.
    shared = {
        "cluster.discovery.registries.kubernetes.disabled",
        "machine.install.bootloader",
    }
    for path in UNREAD_SETTINGS[kind]:
        if ".".join(filter(None, (kind, path))) not in shared:
            assert fields[path].name not in attributes_of_nodes(), path


def test_what_has_no_effect_is_named_in_one_line() -> None:
    config = load(
        "---\napiVersion: v1alpha1\nkind: ContainerConfig\nname: a\n"
        "---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n"
    )
    (note,) = find_unread(config)
    assert note.message == "no effect yet on nodes of this version: ContainerConfig"


def test_what_is_read_is_silent() -> None:
    config = load(
        "machine: {sysctls: {a: b}}\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n"
    )
    assert not list(find_unread(config))


def test_virtual_addresses_that_a_cloud_should_move_are_named_by_their_place() -> None:
    config = load(
        "machine: {network: {interfaces: [{interface: a, vip: {ip: 10.0.0.9, hcloud: {apiToken: t}}}, "
        "{interface: b, vip: {ip: 10.0.0.7}, "
        "vlans: [{vlanId: 2, vip: {ip: 10.0.0.8, equinixMetal: {apiToken: t}}}]}]}}\n"
    )
    (note,) = find_unread(config)
    assert note.path == "machine.network.interfaces[1].vlans[0].vip.equinixMetal"
    assert note.message.startswith("no effect: Equinix Metal has ended")
    assert note.hint == "leave it out"


def test_nodes_do_not_call_equinix() -> None:
    assert "equinix_metal" not in attributes_of_nodes()


def test_every_reason_is_one_of_a_setting_without_effect() -> None:
    paths = [path for settings in UNREAD_SETTINGS.values() for path in settings]
    assert all(any(path.endswith(key) for path in paths) for key in REASONS)


def test_settings_of_the_systems_volumes_without_effect_are_named() -> None:
    documents = "".join(
        f"---\napiVersion: v1alpha1\nkind: VolumeConfig\nname: {name}\n{more}"
        for name, more in (
            ("ETCD", "provisioning: {minSize: 1GiB}\ntrim: {interval: 1h}\n"),
            ("LOG", "trim: {interval: 1h}\n"),
            ("STATE", "mount: {secure: false}\n"),
            ("EPHEMERAL", "provisioning: {grow: false}\n"),
        )
    )
    (note,) = find_unread(load(documents.removeprefix("---\n")))
    assert note.message == (
        "no effect yet on nodes of this version: VolumeConfig LOG trim, VolumeConfig STATE mount"
    )


def test_a_value_that_is_what_nodes_do_is_silent() -> None:
    settings = "machine: {kubelet: {disableManifestsDirectory: %s}, install: {grubUseUKICmdline: true}}\n"
    assert not list(find_unread(load(settings % "true")))
    (note,) = find_unread(load(settings % "false"))
    assert (note.path, note.hint) == (
        "machine.kubelet.disableManifestsDirectory",
        "leave it out; machine.pods has static pods",
    )
