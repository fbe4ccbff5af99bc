"""SBOMItem: what the image is made of, as its bill of materials lists it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from talos.api.definitions.runtime_pb2 import SBOMItemSpec
from talos.machined.controllers.runtime.api_up import API_UP, wait_for_api
from talos.resource import kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Output
from talos.system.errors import UserError
from talos.system.files import Files

DIRECTORY = "/usr/share/spdx"
EXTENSIONS = "/usr/local/share/spdx"
"""Those of system extensions."""
SUFFIX = ".spdx.json"
_UNKNOWN_LICENSE = "NOASSERTION"
UPSTREAM_IDS = {"Talos": "talos", "linux": "kernel", "stdlib": "golang"}
"""What upstream calls some packages, by their names in our documents: clients use these ids."""


class SBOMItemController(Controller):
    """SPDX documents in the image → SBOMItem, one a package. The image doesn't change."""

    name = "runtime.SBOMItemController"
    inputs = (API_UP,)
    outputs = (Output(kinds.SBOM_ITEM),)

    def __init__(self, files: Files) -> None:
        self._files = files

    async def run(self, runtime: ControllerRuntime) -> None:
        """Write all of them once, when the start does not need the processor any more."""
        await wait_for_api(runtime)
        for item in read_items(self._files):
            await runtime.put(kinds.SBOM_ITEM, UPSTREAM_IDS.get(item.name, item.name), item)
        for owner, item in read_extensions(self._files):
            await runtime.put(kinds.SBOM_ITEM, f"{owner}/{item.name}", item)


def read_items(files: Files) -> list[SBOMItemSpec]:
    """The packages of the system."""
    return [item for _, item in _read_folder(files, DIRECTORY)]


def read_extensions(files: Files) -> list[tuple[str, SBOMItemSpec]]:
    """The packages of extensions, each with the name of its document: the system may have it, too."""
    found = _read_folder(files, EXTENSIONS)
    for _, item in found:
        item.extension = True
    return found


def _read_folder(files: Files, directory: str) -> list[tuple[str, SBOMItemSpec]]:
    """The packages of every document in a folder; none without the folder."""
    try:
        names = sorted(name for name in files.list(directory) if name.endswith(SUFFIX))
    except FileNotFoundError:
        return []
    return [
        (name.removesuffix(SUFFIX), item)
        for name in names
        for item in parse_document(files.read(f"{directory}/{name}"), name)
    ]


def parse_document(text: str, name: str) -> Sequence[SBOMItemSpec]:
    """The packages of an SPDX document."""
    try:
        packages = cast("Iterable[Mapping[str, Any]]", json.loads(text)["packages"])
        return [_parse_package(package) for package in packages]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"is no SPDX document: {error!r}", where=name) from None


def _parse_package(package: Mapping[str, Any]) -> SBOMItemSpec:
    found = SBOMItemSpec(name=package["name"], version=package.get("versionInfo", ""))
    for field in ("licenseDeclared", "licenseConcluded"):  # a conclusion is better than a declaration
        if (text := package.get(field, "")) and text != _UNKNOWN_LICENSE:
            found.license = text
    for reference in package.get("externalRefs", ()):
        match reference["referenceType"]:
            case "cpe23Type":
                found.cp_es.append(reference["referenceLocator"])
            case "purl":
                found.pur_ls.append(reference["referenceLocator"])
            case _:
                pass
    return found
