"""The files in /etc/cri, from which containerd takes its plugins' settings and where images come from.

They hold passwords and keys, so no resource shows their content.
"""

import json
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from talos.api.definitions.cri_pb2 import CustomizationConfigSpec, RegistriesConfigSpec
from talos.api.definitions.files_pb2 import EtcFileStatusSpec
from talos.config.active import read_config
from talos.config.effective import machine as effective
from talos.extensions.cri import PART
from talos.machined.containerd.config import (
    BASE_SPEC,
    HOSTS,
    MERGED,
    STATUS,
    VERSION,
    VERSIONS,
    find_version,
    make_base,
    make_credentials,
    make_hosts,
    make_path,
)
from talos.machined.containerd.toml import format_toml, merge, parse_toml
from talos.machined.controllers.cri.runtime_spec import make_default_spec
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.resource import Resource
from talos.system.errors import UserError
from talos.system.logging import Log


class CRIConfigFilesController(Reconciler):
    """RegistryConfig, CustomizationConfig and MachineConfig → files, EtcFileStatus.

    Pieces are merged in the order of their names, as upstream: ``20-NAME.part`` is a document's, others are
    those of extensions.

    ``restart`` is called when containerd has to read its settings anew; it looks for mirrors at every pull.
    """

    name = "files.CRIConfigPartsController"
    inputs = (
        Input(*ids.REGISTRY_CONFIG),
        Input(kinds.CUSTOMIZATION_CONFIG),
        Input(*ids.MACHINE_CONFIG),
    )
    outputs = (Output(kinds.ETC_FILE_STATUS, shared=True),)

    def __init__(
        self,
        log: Log,
        restart: Callable[[], Awaitable[None]],
        *,
        restrict_oom_score: bool,
        extensions: Path,
        root: Path,
    ) -> None:
        """``extensions``: the folder with the pieces that came with the image."""
        self._log = log
        self._restart = restart
        self._restrict_oom_score = restrict_oom_score
        self._extensions = extensions
        self._root = root
        self._written: dict[str, str] = {}
        self._version = 0

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write what has changed."""
        registries = await runtime.get_or_none(*ids.REGISTRY_CONFIG)
        if registries is None:
            return
        config = await read_config(runtime)
        overrides = effective.runtime_spec_overrides(config) if config else None
        base_spec = self._make_base_spec(overrides) if overrides else ""
        parts = await runtime.list(kinds.CUSTOMIZATION_CONFIG)
        settings = self._make_settings(registries.spec, parts, has_base_spec=bool(base_spec))
        self._write_hosts(self._make_hosts(registries.spec))
        changed = self._write(BASE_SPEC, base_spec)
        for version in VERSIONS:
            path = MERGED if version == VERSION else make_path(version)
            changed |= self._write(path, settings.get(version, ""))
        if changed:
            if self._version:
                await self._restart()
            self._version += 1
        await runtime.put(kinds.ETC_FILE_STATUS, STATUS, EtcFileStatusSpec(spec_version=str(self._version)))

    def _make_settings(
        self,
        registries: RegistriesConfigSpec,
        parts: Sequence[Resource[CustomizationConfigSpec]],
        *,
        has_base_spec: bool,
    ) -> Mapping[int, str]:
        """Files, by the version of their format."""
        base = make_base(restrict_oom_score=self._restrict_oom_score, has_base_spec=has_base_spec)
        tables: dict[int, Mapping[str, Any]] = {VERSION: merge(base, make_credentials(registries))}
        for name, part in sorted([*self._read_extensions(), *map(_name_part, parts)]):
            try:
                table = parse_toml(part)
                version = find_version(table)
                tables[version] = merge(tables.get(version, {"version": version}), table)
            except UserError as error:
                self._log.once(
                    "a piece of containerd's configuration is left out", file=name, reason=str(error)
                )
        return {version: format_toml(table) for version, table in tables.items()}

    def _make_base_spec(self, overrides: Mapping[str, Any]) -> str:
        try:
            return json.dumps(merge(make_default_spec(), overrides))
        except UserError as error:
            self._log.once("the overrides of containers' settings are left out", reason=str(error))
            return ""

    def _read_extensions(self) -> Iterator[tuple[str, str]]:
        """Pieces of extensions, by their names."""
        for path in self._extensions.glob(f"*{PART}"):
            yield path.name, path.read_text(encoding="utf-8")

    def _make_hosts(self, registries: RegistriesConfigSpec) -> Mapping[str, str]:
        try:
            return make_hosts(registries)
        except UserError as error:
            self._log.once("the registries' mirrors can't be used", reason=str(error))
            return {}

    def _write(self, path: str, text: str) -> bool:
        """Write or, without content, remove a file; whether that changed anything."""
        if self._written.get(path, "") == text:
            return False
        file = self._root / path.lstrip("/")
        if text:
            write_secret(file, text)
        else:
            file.unlink(missing_ok=True)
        self._written[path] = text
        return True

    def _write_hosts(self, files: Mapping[str, str]) -> None:
        """Write the files of registries, and remove the folders of those that are no longer configured."""
        for name, text in files.items():
            self._write(f"{HOSTS}/{name}", text)
        prefix = f"{HOSTS}/"
        for path in [path for path in self._written if path.startswith(prefix)]:
            if path.removeprefix(prefix) not in files:
                self._write(path, "")
                del self._written[path]
        kept = {name.partition("/")[0] for name in files}
        hosts = self._root / HOSTS.lstrip("/")
        for folder in hosts.iterdir() if hosts.is_dir() else ():
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)


def _name_part(part: Resource[CustomizationConfigSpec]) -> tuple[str, str]:
    return f"20-{part.id}{PART}", part.spec.content


def write_secret(path: Path, text: str) -> None:
    """Replace a file that only its owner may read; readers see the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
        file.write(text)
    fresh.replace(path)
