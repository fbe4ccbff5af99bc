"""What kubed serves of ``machine.MachineService``: the administrator's kubeconfig."""

import io
import tarfile
from collections.abc import Mapping
from datetime import timedelta

from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import Data
from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.api.rpc import Call, Code, Handler, RpcError, Send
from talos.config.active import parse_active
from talos.config.kubeconfig import Kubeconfig, format_kubeconfig
from talos.config.model import Config
from talos.kubed.controllers.certificates import LIFETIME, MASTERS, load_authority
from talos.pki.authority import Usage
from talos.pki.certificate import join_certificates
from talos.process.machine_type import require_control_plane
from talos.resource import ids
from talos.resource.state import NotFoundError, State

USER = "admin"
FILE = "kubeconfig"


class KubernetesService:
    """The handlers."""

    def __init__(self, state: State) -> None:
        self._state = state

    def make_public(self) -> Mapping[str, Handler]:
        """Handlers of ``machine.MachineService``."""
        return {"Kubeconfig": self.kubeconfig}

    async def kubeconfig(self, _request: Empty, _call: Call, send: Send) -> None:
        """An archive with a kubeconfig of a new administrator's certificate."""
        await require_control_plane(self._state, "kubeconfig")
        try:
            root = (await self._state.get(*ids.KUBERNETES_ROOT_SECRET)).spec
            config = parse_active((await self._state.get(*ids.MACHINE_CONFIG)).spec.yaml_marshalled)
        except NotFoundError:
            raise RpcError(Code.UNIMPLEMENTED, "this cluster has no Kubernetes") from None
        await send(Data(bytes=make_archive(make_admin_kubeconfig(root, find_lifetime(config)))))


def find_lifetime(config: Config) -> timedelta:
    """How long an administrator's certificate is valid."""
    admin = config.cluster.admin_kubeconfig if config.cluster else None
    if admin is None or admin.cert_lifetime is None:
        return LIFETIME
    return timedelta(seconds=admin.cert_lifetime.seconds)


def make_admin_kubeconfig(root: KubernetesRootSpec, lifetime: timedelta) -> str:
    """A kubeconfig with which its owner may do everything."""
    pair = load_authority(root).issue(
        common_name=USER,
        organizations=[MASTERS],
        ttl=lifetime,
        usages=Usage.CLIENT,
        key_encipherment=True,
    )
    return format_kubeconfig(
        Kubeconfig(
            server=root.endpoint.full_path,
            authority=join_certificates(root.accepted_c_as),
            cluster=root.name,
            user=f"{USER}@{root.name}",
            context=f"{USER}@{root.name}",
            namespace="default",
            certificate=pair.crt,
            key=pair.key,
        )
    )


def make_archive(text: str) -> bytes:
    """A gzip'd tar of one file that only its owner may read."""
    content, archive = text.encode(), io.BytesIO()
    info = tarfile.TarInfo(FILE)
    info.size, info.mode = len(content), 0o600
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        tar.addfile(info, io.BytesIO(content))
    return archive.getvalue()
