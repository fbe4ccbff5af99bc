"""ExtensionStatus: the extensions of the image; and the user's configuration of their services."""

import shutil
from pathlib import Path

from talos.api.definitions import extensions_pb2 as pb
from talos.api.definitions.runtime_pb2 import (
    ExtensionServiceConfigFile,
    ExtensionServiceConfigSpec,
    ExtensionServiceConfigStatusSpec,
)
from talos.config.active import read_config
from talos.config.documents.extensions.extension_service import ExtensionServiceConfig
from talos.extensions.manifest import Layer, parse_layers
from talos.machined.node.ports.services import Services, ServiceState, UnknownServiceError
from talos.machined.services.extensions import CONFIGS, PREFIX, find_file
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output, Reconciler
from talos.system.files import Files

SHOWN = "/etc/extensions.yaml"


class ExtensionStatusController(Controller):
    """/etc/extensions.yaml → ExtensionStatus, by their place in the image, which doesn't change."""

    name = "runtime.ExtensionStatusController"
    outputs = (Output(kinds.EXTENSION_STATUS),)

    def __init__(self, files: Files) -> None:
        self._files = files

    async def run(self, runtime: ControllerRuntime) -> None:
        """Write all of them once."""
        text = self._files.read(SHOWN) if self._files.exists(SHOWN) else ""
        for place, layer in enumerate(parse_layers(text, SHOWN)):
            await runtime.put(kinds.EXTENSION_STATUS, str(place), make_status(layer))


def make_status(layer: Layer) -> pb.Layer:
    """A layer as the API has it."""
    extension = layer.extension
    return pb.Layer(
        image=layer.image,
        metadata=pb.Metadata(
            name=extension.name,
            version=extension.version,
            author=extension.author,
            description=extension.description,
            compatibility=pb.Compatibility(talos=pb.Constraint(version=extension.talos)),
        ),
    )


class ExtensionServiceConfigController(Reconciler):
    """MachineConfig → ExtensionServiceConfig, one for each document."""

    name = "runtime.ExtensionServiceConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.EXTENSION_SERVICE_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write what the documents have."""
        config = await read_config(runtime)
        documents = config.documents if config else ()
        async with runtime.track_outputs():
            for document in documents:
                if isinstance(document, ExtensionServiceConfig):
                    files = [
                        ExtensionServiceConfigFile(
                            content=file.content or "", mount_path=file.mount_path or ""
                        )
                        for file in document.config_files or ()
                    ]
                    spec = ExtensionServiceConfigSpec(files=files, environment=document.environment or ())
                    await runtime.put(kinds.EXTENSION_SERVICE_CONFIG, document.name, spec)


class ExtensionServiceConfigFilesController(Reconciler):
    """ExtensionServiceConfig → its files, ExtensionServiceConfigStatus; the service is started again."""

    name = "runtime.ExtensionServiceConfigFilesController"
    inputs = (Input(kinds.EXTENSION_SERVICE_CONFIG),)
    outputs = (Output(kinds.EXTENSION_SERVICE_CONFIG_STATUS),)

    def __init__(self, services: Services, folder: str = CONFIGS) -> None:
        self._services, self._folder = services, Path(folder)
        self._written: dict[str, bytes] = {}

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the files of a service anew when its document is another one."""
        found = {item.id: item for item in await runtime.list(kinds.EXTENSION_SERVICE_CONFIG)}
        async with runtime.track_outputs():
            for name, item in found.items():
                content = item.spec.SerializeToString(deterministic=True)
                if self._written.get(name) != content:
                    self._write(name, item.spec)
                    self._written[name] = content
                    await self._restart(name)
                version = str(item.metadata.version)
                status = ExtensionServiceConfigStatusSpec(spec_version=version)
                await runtime.put(kinds.EXTENSION_SERVICE_CONFIG_STATUS, name, status)
        for name in self._written.keys() - found.keys():
            shutil.rmtree(self._folder / name, ignore_errors=True)
            del self._written[name]
            await self._restart(name)

    def _write(self, name: str, spec: ExtensionServiceConfigSpec) -> None:
        shutil.rmtree(self._folder / name, ignore_errors=True)
        (self._folder / name).mkdir(parents=True)
        for file in spec.files:
            path = self._folder / find_file(name, file.mount_path).relative_to(CONFIGS)
            path.write_text(file.content, encoding="utf-8")
            path.chmod(0o400)

    async def _restart(self, name: str) -> None:
        """One that has not started yet finds the files when it does."""
        service = f"{PREFIX}{name}"
        try:
            state = self._services.get(service).state
        except UnknownServiceError:
            return  # a document for an extension that this image lacks
        if state in (ServiceState.PREPARING, ServiceState.RUNNING):
            await self._services.restart(service)
