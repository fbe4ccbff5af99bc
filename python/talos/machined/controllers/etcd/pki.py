"""EtcdPKIController: etcd's certificates as files, which etcd reads them from."""

import os
from collections.abc import Mapping
from pathlib import Path

import trio

from talos.api.definitions.etcd_pb2 import PKIStatusSpec
from talos.api.definitions.secrets_pb2 import EtcdCertsSpec, EtcdRootSpec
from talos.disks.volumes.folders import ETCD_USER
from talos.etcd.paths import SECRETS
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.files import replace_durably


class EtcdPKIController(Reconciler):
    """EtcdRootSecret, EtcdSecret → files below :data:`~talos.etcd.paths.SECRETS` → PKIStatus."""

    name = "etcd.PKIController"
    inputs = (Input(*ids.ETCD_ROOT_SECRET), Input(*ids.ETCD_SECRET))
    outputs = (Output(kinds.PKI_STATUS),)

    def __init__(self, directory: Path = Path(SECRETS), user: int = ETCD_USER) -> None:
        self._directory = directory
        self._user = user

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the files, then the status with the version of the secrets that they hold."""
        root = await runtime.get_or_none(*ids.ETCD_ROOT_SECRET)
        secret = await runtime.get_or_none(*ids.ETCD_SECRET)
        if root is None or secret is None:
            await runtime.remove(*ids.ETCD_PKI_STATUS)
            return
        files = make_files(root.spec, secret.spec)
        await trio.to_thread.run_sync(write_files, self._directory, files, self._user)
        status = PKIStatusSpec(ready=True, version=str(secret.metadata.version))
        await runtime.put(*ids.ETCD_PKI_STATUS, status)


def make_files(root: EtcdRootSpec, secret: EtcdCertsSpec) -> Mapping[str, bytes]:
    """The files by name. The authority's key stays in the State: etcd signs nothing."""
    found = {"ca.crt": root.etcd_ca.crt}
    for name, pair in (
        ("server", secret.etcd),
        ("peer", secret.etcd_peer),
        ("admin", secret.etcd_admin),
    ):
        found |= {f"{name}.crt": pair.crt, f"{name}.key": pair.key}
    return found


def write_files(directory: Path, files: Mapping[str, bytes], user: int) -> None:
    """Write each file as a whole, readable for etcd's user only."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chown(directory, user, user)
    for name, content in files.items():
        path = directory / name
        if not path.exists() or path.read_bytes() != content:
            replace_durably(path, [content], mode=0o400, owner=user)
