"""A CSI driver for one node whose volumes and snapshots are folders, in a container of its own.

It does what its callers need and no more: the sidecars of Kubernetes' own project, and the kubelet, with
which it registers itself. An id is the name that the caller chose, so a call that is repeated finds what the
first one made.

    driver.py NAME   with the folders /csi and /registration for its sockets, and /data for its volumes
"""

import ctypes
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

CSI: Any = grpc.protos("csi.proto")
REGISTRATION: Any = grpc.protos("registration.proto")
DATA = Path("/data")
MS_BIND = 4096  # <sys/mount.h>
LIBC = ctypes.CDLL(None, use_errno=True)
NODE_KEY = "tests.example.org/node"
Message = Any


def find(kind: str, name: str) -> Path:
    """The folder of a volume or a snapshot."""
    return DATA / kind / Path(name).name


def make_folder(target: Path, source: Path | None = None) -> None:
    """Make a folder, with the content of another one, unless it is there; all of it or nothing."""
    if target.exists():
        return
    partial = target.parent / f".{target.name}"
    shutil.rmtree(partial, ignore_errors=True)
    if source:
        shutil.copytree(source, partial)
    else:
        partial.mkdir()
    partial.chmod(0o777)
    partial.rename(target)


def bind(source: Path, target: Path) -> None:
    """Mount a folder at another place, unless something is mounted there."""
    target.mkdir(parents=True, exist_ok=True)
    if not target.is_mount() and LIBC.mount(bytes(source), bytes(target), None, MS_BIND, None):
        raise OSError(ctypes.get_errno(), f"can't mount {source} at {target}")


def unbind(target: Path) -> None:
    """Undo :func:`bind`."""
    if LIBC.umount2(bytes(target), 0) and target.is_mount():
        raise OSError(ctypes.get_errno(), f"can't unmount {target}")
    if target.exists():
        target.rmdir()


class Driver:
    """The calls of CSI 1.x and of the kubelet's registration that are needed here, in Python's spelling."""

    def __init__(self, name: str, node: str) -> None:
        self.name, self.node = name, node

    def get_plugin_info(self, request: Message, context: Message) -> Message:
        del request, context
        return CSI.GetPluginInfoResponse(name=self.name, vendor_version="1.0.0")

    def get_plugin_capabilities(self, request: Message, context: Message) -> Message:
        del request, context
        capabilities = [
            {"service": {"type": "CONTROLLER_SERVICE"}},
            {"service": {"type": "VOLUME_ACCESSIBILITY_CONSTRAINTS"}},
            {"volume_expansion": {"type": "ONLINE"}},
        ]
        return CSI.GetPluginCapabilitiesResponse(capabilities=capabilities)

    def probe(self, request: Message, context: Message) -> Message:
        del request, context
        return CSI.ProbeResponse(ready={"value": True})

    def controller_get_capabilities(self, request: Message, context: Message) -> Message:
        del request, context
        kinds = (
            "CREATE_DELETE_VOLUME",
            "PUBLISH_UNPUBLISH_VOLUME",
            "CREATE_DELETE_SNAPSHOT",
            "EXPAND_VOLUME",
        )
        return CSI.ControllerGetCapabilitiesResponse(capabilities=[{"rpc": {"type": kind}} for kind in kinds])

    def create_volume(self, request: Message, context: Message) -> Message:
        del context
        volume = find("volumes", request.name)
        snapshot = request.volume_content_source.snapshot.snapshot_id
        make_folder(volume, find("snapshots", snapshot) if snapshot else None)
        return CSI.CreateVolumeResponse(
            volume={
                "volume_id": volume.name,
                "capacity_bytes": request.capacity_range.required_bytes,
                "content_source": request.volume_content_source if snapshot else None,
                "accessible_topology": [{"segments": {NODE_KEY: self.node}}],
            }
        )

    def delete_volume(self, request: Message, context: Message) -> Message:
        del context
        shutil.rmtree(find("volumes", request.volume_id), ignore_errors=True)
        return CSI.DeleteVolumeResponse()

    def controller_publish_volume(self, request: Message, context: Message) -> Message:
        if request.node_id != self.node:
            context.abort(grpc.StatusCode.NOT_FOUND, f"the volume is on {self.node}")
        return CSI.ControllerPublishVolumeResponse()

    def controller_unpublish_volume(self, request: Message, context: Message) -> Message:
        del request, context
        return CSI.ControllerUnpublishVolumeResponse()

    def create_snapshot(self, request: Message, context: Message) -> Message:
        del context
        snapshot = find("snapshots", request.name)
        make_folder(snapshot, find("volumes", request.source_volume_id))
        return CSI.CreateSnapshotResponse(
            snapshot={
                "snapshot_id": snapshot.name,
                "source_volume_id": request.source_volume_id,
                "creation_time": {"seconds": int(snapshot.stat().st_mtime)},
                "ready_to_use": True,
            }
        )

    def delete_snapshot(self, request: Message, context: Message) -> Message:
        del context
        shutil.rmtree(find("snapshots", request.snapshot_id), ignore_errors=True)
        return CSI.DeleteSnapshotResponse()

    def controller_expand_volume(self, request: Message, context: Message) -> Message:
        del context
        size = request.capacity_range.required_bytes
        return CSI.ControllerExpandVolumeResponse(capacity_bytes=size, node_expansion_required=True)

    def node_get_info(self, request: Message, context: Message) -> Message:
        del request, context
        topology = {"segments": {NODE_KEY: self.node}}
        return CSI.NodeGetInfoResponse(node_id=self.node, accessible_topology=topology)

    def node_get_capabilities(self, request: Message, context: Message) -> Message:
        del request, context
        kinds = ("STAGE_UNSTAGE_VOLUME", "EXPAND_VOLUME")
        return CSI.NodeGetCapabilitiesResponse(capabilities=[{"rpc": {"type": kind}} for kind in kinds])

    def node_stage_volume(self, request: Message, context: Message) -> Message:
        del context
        bind(find("volumes", request.volume_id), Path(request.staging_target_path))
        return CSI.NodeStageVolumeResponse()

    def node_unstage_volume(self, request: Message, context: Message) -> Message:
        del context
        unbind(Path(request.staging_target_path))
        return CSI.NodeUnstageVolumeResponse()

    def node_publish_volume(self, request: Message, context: Message) -> Message:
        del context
        bind(Path(request.staging_target_path), Path(request.target_path))
        return CSI.NodePublishVolumeResponse()

    def node_unpublish_volume(self, request: Message, context: Message) -> Message:
        del context
        unbind(Path(request.target_path))
        return CSI.NodeUnpublishVolumeResponse()

    def node_expand_volume(self, request: Message, context: Message) -> Message:
        del context
        return CSI.NodeExpandVolumeResponse(capacity_bytes=request.capacity_range.required_bytes)

    def get_info(self, request: Message, context: Message) -> Message:
        del request, context
        return REGISTRATION.PluginInfo(
            type="CSIPlugin",
            name=self.name,
            endpoint=f"/var/lib/kubelet/plugins/{self.name}/csi.sock",
            supported_versions=["1.0.0"],
        )

    def notify_registration_status(self, request: Message, context: Message) -> Message:
        del context
        sys.stderr.write(f"registered: {request.plugin_registered} {request.error}\n")
        return REGISTRATION.RegistrationStatusResponse()


def make_handlers(protos: Any, driver: Driver) -> list[grpc.GenericRpcHandler]:
    """The calls of each service that the driver has; the others are unimplemented, by gRPC."""
    handlers: list[grpc.GenericRpcHandler] = []
    for service in protos.DESCRIPTOR.services_by_name.values():
        methods: dict[str, Any] = {}
        for method in service.methods:
            call = getattr(driver, re.sub("(?<!^)(?=[A-Z])", "_", method.name).lower(), None)
            if call:
                methods[method.name] = grpc.unary_unary_rpc_method_handler(
                    call,
                    request_deserializer=getattr(protos, method.input_type.name).FromString,
                    response_serializer=getattr(protos, method.output_type.name).SerializeToString,
                )
        handlers.append(grpc.method_handlers_generic_handler(service.full_name, methods))
    return handlers


def main() -> None:
    """Serve until the container is stopped."""
    name = sys.argv[1]
    driver = Driver(name, os.environ["NODE_NAME"])
    for kind in ("volumes", "snapshots"):
        (DATA / kind).mkdir(exist_ok=True)
    server = grpc.server(ThreadPoolExecutor(4))
    for protos in (CSI, REGISTRATION):
        server.add_generic_rpc_handlers(make_handlers(protos, driver))
    for path in (Path("/csi/csi.sock"), Path(f"/registration/{name}-reg.sock")):
        path.unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{path}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
