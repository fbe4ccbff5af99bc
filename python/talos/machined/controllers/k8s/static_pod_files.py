"""The files that the control plane's static pods read, each for its program's user only."""

import base64
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio
import yaml

from talos.api.definitions.k8s_pb2 import (
    AdmissionControlConfigSpec,
    AuthorizationConfigSpec,
    ConfigStatusSpec,
    EtcdEncryptionConfigSpec,
    SecretsStatusSpec,
)
from talos.api.definitions.secrets_pb2 import (
    EtcdCertsSpec,
    EtcdRootSpec,
    KubernetesCertsSpec,
    KubernetesDynamicCertsSpec,
    KubernetesRootSpec,
)
from talos.config.static_pods import API_SERVER, CONFIGS, CONTROLLER_MANAGER, SCHEDULER, SECRETS, UIDS
from talos.pki.certificate import join_certificates
from talos.pki.keys import parse_key, public_key_to_pem
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.objects import to_plain
from talos.system.files import replace_durably

RELOADED = frozenset({"apiserver", "apiserver-kubelet-client", "front-proxy-client"})
"""Certificates that the API server reads again by itself when the files change."""

type Files = Mapping[str, Mapping[str, bytes]]
"""The content of each program's files."""


class StaticPodSecretsController(Reconciler):
    """The secrets of Kubernetes and etcd → files → SecretStatus."""

    name = "k8s.RenderSecretsStaticPodController"
    inputs = (
        Input(*ids.KUBERNETES_ROOT_SECRET),
        Input(*ids.KUBERNETES_DYNAMIC_CERT),
        Input(*ids.KUBERNETES_SECRET),
        Input(*ids.ETCD_ROOT_SECRET),
        Input(*ids.ETCD_SECRET),
        Input(*ids.ETCD_ENCRYPTION_CONFIG),
    )
    outputs = (Output(kinds.SECRET_STATUS),)

    def __init__(self, directory: Path = Path(SECRETS), uids: Mapping[str, int] = UIDS) -> None:
        self._directory = directory
        self._uids = uids

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the files, then the status with the version of what they hold."""
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        dynamic = await runtime.get_or_none(*ids.KUBERNETES_DYNAMIC_CERT)
        secret = await runtime.get_or_none(*ids.KUBERNETES_SECRET)
        etcd_root = await runtime.get_or_none(*ids.ETCD_ROOT_SECRET)
        etcd = await runtime.get_or_none(*ids.ETCD_SECRET)
        encryption = await runtime.get_or_none(*ids.ETCD_ENCRYPTION_CONFIG)
        if (
            root is None
            or dynamic is None
            or secret is None
            or etcd_root is None
            or etcd is None
            or encryption is None
        ):
            await runtime.remove(*ids.SECRET_STATUS)
            return
        files = make_secrets(root.spec, dynamic.spec, secret.spec, etcd_root.spec, etcd.spec, encryption.spec)
        await trio.to_thread.run_sync(write_files, self._directory, files, self._uids)
        lasting = {program: without_reloaded(found) for program, found in files.items()}
        status = SecretsStatusSpec(ready=True, version=make_version(lasting))
        await runtime.put(*ids.SECRET_STATUS, status)


class StaticPodConfigsController(Reconciler):
    """The configs of the control plane → files → ConfigStatus."""

    name = "k8s.RenderConfigsStaticPodController"
    inputs = (
        Input(*ids.ADMISSION_CONTROL_CONFIG),
        Input(*ids.AUDIT_POLICY_CONFIG),
        Input(*ids.AUTHENTICATION_CONFIG),
        Input(*ids.AUTHORIZATION_CONFIG),
        Input(*ids.SCHEDULER_CONFIG),
    )
    outputs = (Output(kinds.CONFIG_STATUS),)

    def __init__(self, directory: Path = Path(CONFIGS), uids: Mapping[str, int] = UIDS) -> None:
        self._directory = directory
        self._uids = uids

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the files, then the status with the version of what they hold."""
        admission = await runtime.get_or_none(*ids.ADMISSION_CONTROL_CONFIG)
        audit = await runtime.get_or_none(*ids.AUDIT_POLICY_CONFIG)
        authentication = await runtime.get_or_none(*ids.AUTHENTICATION_CONFIG)
        authorization = await runtime.get_or_none(*ids.AUTHORIZATION_CONFIG)
        scheduler = await runtime.get_or_none(*ids.SCHEDULER_CONFIG)
        if admission is None or audit is None or authorization is None or scheduler is None:
            await runtime.remove(*ids.CONFIG_STATUS)
            return
        server = {
            "admission-control-config.yaml": make_admission(admission.spec),
            "auditpolicy.yaml": {
                "apiVersion": "audit.k8s.io/v1",
                "kind": "Policy",
                **to_plain(audit.spec.config),
            },
            "authorization-config.yaml": make_authorization(authorization.spec),
        }
        if authentication is not None:
            server["authentication-config.yaml"] = {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "AuthenticationConfiguration",
                **to_plain(authentication.spec.config),
            }
        documents = {
            API_SERVER: server,
            SCHEDULER: {"scheduler-config.yaml": make_scheduler(to_plain(scheduler.spec.config))},
        }
        files = {
            program: {name: yaml.safe_dump(document).encode() for name, document in found.items()}
            for program, found in documents.items()
        }
        await trio.to_thread.run_sync(write_files, self._directory, files, self._uids)
        await runtime.put(*ids.CONFIG_STATUS, ConfigStatusSpec(ready=True, version=make_version(files)))


def make_secrets(
    root: KubernetesRootSpec,
    dynamic: KubernetesDynamicCertsSpec,
    secret: KubernetesCertsSpec,
    etcd_root: EtcdRootSpec,
    etcd: EtcdCertsSpec,
    encryption: EtcdEncryptionConfigSpec,
) -> Files:
    """The secrets of each program."""
    authorities = join_certificates(root.accepted_c_as)
    aggregators = [root.aggregator_ca.crt, *(found.crt for found in root.accepted_aggregator_c_as)]
    own = public_key_to_pem(parse_key(root.service_account.key, where="cluster.serviceAccount.key"))
    accounts = [own, *(found.key for found in root.service_account_accepted_keys)]
    server = {
        "ca.crt": authorities,
        "service-account.key": root.service_account.key,
        "service-account.pub": b"\n".join(accounts),
        "aggregator-ca.crt": b"\n".join(aggregators),
        "etcd-client-ca.crt": etcd_root.etcd_ca.crt,
        "encryptionconfig.yaml": encryption.configuration.encode(),
    }
    for name, pair in (
        ("apiserver", dynamic.api_server),
        ("apiserver-kubelet-client", dynamic.api_server_kubelet_client),
        ("front-proxy-client", dynamic.front_proxy),
        ("etcd-client", etcd.etcd_api_server),
    ):
        server |= {f"{name}.crt": pair.crt, f"{name}.key": pair.key}
    manager = {
        "ca.crt": root.issuing_ca.crt,
        "ca.key": root.issuing_ca.key,
        "root-ca.crt": authorities,
        "service-account.key": root.service_account.key,
        "kubeconfig": secret.controller_manager_kubeconfig.encode(),
    }
    return {
        API_SERVER: server,
        CONTROLLER_MANAGER: manager,
        SCHEDULER: {"kubeconfig": secret.scheduler_kubeconfig.encode()},
    }


def make_admission(spec: AdmissionControlConfigSpec) -> dict[str, Any]:
    """The AdmissionConfiguration."""
    plugins = [{"name": one.name, "configuration": to_plain(one.configuration)} for one in spec.config]
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": plugins,
    }


def make_authorization(spec: AuthorizationConfigSpec) -> dict[str, Any]:
    """The AuthorizationConfiguration."""
    authorizers = [
        {
            "type": one.type,
            "name": one.name,
            **({"webhook": to_plain(one.webhook)} if one.HasField("webhook") else {}),
        }
        for one in spec.config
    ]
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthorizationConfiguration",
        "authorizers": authorizers,
    }


def make_scheduler(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The KubeSchedulerConfiguration."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **changes,
        "clientConnection": {"kubeconfig": f"{SECRETS}/{SCHEDULER}/kubeconfig"},
    }


def without_reloaded(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Those files whose change needs a restart."""
    return {name: content for name, content in files.items() if name.rpartition(".")[0] not in RELOADED}


def make_version(files: Files) -> str:
    """What changes whenever a file does, and only then: pods restart with it."""
    digest = hashlib.sha256()
    for program, found in sorted(files.items()):
        for name, content in sorted(found.items()):
            digest.update(f"{program}/{name}:{len(content)}:".encode() + content)
    return base64.b32encode(digest.digest()[:10]).decode().lower()


def write_files(directory: Path, files: Files, uids: Mapping[str, int]) -> None:
    """Write each file as a whole, readable for its program's user only."""
    for program, found in files.items():
        folder, uid = directory / program, uids[program]
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        folder.chmod(0o700)
        os.chown(folder, uid, uid)
        for name, content in found.items():
            path = folder / name
            if not path.exists() or path.read_bytes() != content:
                replace_durably(path, [content], mode=0o400, owner=uid)
