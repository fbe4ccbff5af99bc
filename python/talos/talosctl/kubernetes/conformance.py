"""Conformance tests of Kubernetes: a runner's image in a pod of the cluster, its log, verdict and results.

Names, environment and passes are those of upstream's client, so that the runner images that it takes work.
The results are in a volume of the pod, which a second container keeps until they are copied from the node.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from talos.client.session import Session
from talos.client.wait import POLL_INTERVAL, wait_until
from talos.kubernetes.apply import delete
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.system.errors import UserError
from talos.talosctl.client.archive import receive_archive, unpack
from talos.talosctl.kubernetes.runner_log import LogReader

NAMESPACE, ACCOUNT, POD = "conformance", "conformance-serviceaccount", "e2e-conformance-test"
RUNNER, HOLDER, VOLUME = "conformance-container", "output-container", "output-volume"
PAUSE_IMAGE = "registry.k8s.io/pause:3.10.2"
"""What nodes have anyway; it does nothing until it is ended."""
LABEL = {"app.kubernetes.io/managed-by": "talosctl"}
"""Of the namespace: one that another user has made is not touched."""
START_TIMEOUT, DELETE_TIMEOUT = 300.0, 300.0  # seconds
RIGHTS = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{ACCOUNT}"
NAMESPACE_PATH = f"/api/v1/namespaces/{NAMESPACE}"
POD_PATH = f"{NAMESPACE_PATH}/pods/{POD}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One run of the tests: which by their names, how many at once, for how many seconds at most."""

    name: str
    focus: str
    skip: str = ""
    parallel: int = 1
    seconds: float = 3600.0


MODES: Mapping[str, tuple[Pass, ...]] = {
    "fast": (
        Pass(name="parallel", focus=r"\[Conformance\]", skip=r"\[Serial\]", parallel=16),
        Pass(name="serial", focus=r"\[Serial\].*\[Conformance\]"),
    ),
    "certified": (Pass(name="certified", focus=r"\[Conformance\]", seconds=7200.0),),
}


class Conformance:
    """Runs the passes of a mode. Errors are UserError, RpcError, KubernetesError; nothing is left behind."""

    def __init__(
        self, session: Session, client: KubernetesClient, image: str, report: Callable[[str], None]
    ) -> None:
        self._session = session
        self._client = client
        self._image = image
        self._report = report

    async def run(self, mode: str, results: Path) -> None:
        """All passes, each with its results in a folder of its name; UserError with the first that fails."""
        await self.clean()  # what a client that was killed has left
        try:
            await self._prepare()
            for one in MODES[mode]:
                await self._run_pass(one, results / one.name)
        finally:
            self._report("removing what was made for the tests")
            await self.clean()

    async def _prepare(self) -> None:
        labels = {**LABEL, "pod-security.kubernetes.io/enforce": "privileged"}
        account = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
        admin = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        for path, head, rest in (
            ("/api/v1/namespaces", ("v1", "Namespace", {"name": NAMESPACE, "labels": labels}), {}),
            (f"{NAMESPACE_PATH}/serviceaccounts", ("v1", "ServiceAccount", {"name": ACCOUNT}), {}),
            (
                RIGHTS.rpartition("/")[0],
                ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", {"name": ACCOUNT}),
                {"roleRef": admin, "subjects": [account]},
            ),
        ):
            version, kind, metadata = head
            manifest = {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}
            await self._client.call("POST", path, manifest)

    async def _run_pass(self, one: Pass, folder: Path) -> None:
        self._report(f"running conformance tests with {self._image}")
        self._report(f"running tests: {one.focus}")
        await self._client.call("POST", f"{NAMESPACE_PATH}/pods", make_pod(self._image, one))
        await wait_until(
            self._find_unstarted,
            what=f"pod {NAMESPACE}/{POD}",
            seconds=START_TIMEOUT,
            hint="is the runner's image right? --image",
            report=self._report,
        )
        began = time.monotonic()
        code = await self._follow(began + one.seconds)
        self._report(f"tests finished after {time.monotonic() - began:.0f}s.")
        await self._fetch(folder)
        if code:
            raise UserError(f"tests failed: code {code}", where=one.name, hint=f"see {folder}")
        self._report("tests completed successfully")
        await delete(self._client, f"{POD_PATH}?gracePeriodSeconds=0")
        await self._wait_until_gone(POD_PATH)

    async def _find_unstarted(self) -> str:
        state = find_state(await self._client.call("GET", POD_PATH))
        if "running" in state or "terminated" in state:
            return ""
        waiting: Mapping[str, str] = state.get("waiting") or {}
        reason = waiting.get("reason") or "it is not scheduled"
        message = waiting.get("message")
        return f"waiting: {reason}{f': {message}' if message else ''}"

    async def _follow(self, end: float) -> int:
        """Show the log until the runner has ended, at the latest at ``end``; its exit code."""
        reader = LogReader(f"{POD_PATH}/log?container={RUNNER}")
        while True:
            code: int | None = None
            try:
                # In this order: the log is whole once the runner has ended.
                terminated = find_state(await self._client.call("GET", POD_PATH)).get("terminated")
                code = terminated["exitCode"] if terminated else None
                for line in await reader.read(self._client):
                    self._report(line)
            except KubernetesError as error:
                # Some tests make it fail; what is requested of a pod that is gone never comes.
                if error.status == HTTPStatus.NOT_FOUND:
                    raise UserError("it was deleted meanwhile", where=f"pod {NAMESPACE}/{POD}") from error
                code = None
            if code is not None:
                return code
            if time.monotonic() > end:
                raise UserError("the tests have not ended in time", where=f"pod {NAMESPACE}/{POD}")
            await asyncio.sleep(POLL_INTERVAL)

    async def _fetch(self, folder: Path) -> None:
        """Copy the results from the node."""
        pod = await self._client.call("GET", POD_PATH)
        volumes = f"/var/lib/kubelet/pods/{pod['metadata']['uid']}/volumes"
        path = f"{volumes}/kubernetes.io~empty-dir/{VOLUME}"
        with tempfile.TemporaryFile() as archive:
            left_out = await receive_archive(self._session, pod["status"]["hostIP"], path, archive)
            archive.seek(0)
            unpack(archive, folder)
        if left_out:
            raise left_out
        self._report(f"results are in {folder}")

    async def clean(self) -> None:
        """Remove all that a run makes; UserError when a namespace of this name is another user's."""
        found = await self._client.get_or_none(NAMESPACE_PATH)
        if found is not None and not LABEL.items() <= found["metadata"].get("labels", {}).items():
            text, hint = "it is not of an earlier run of the tests", "remove it, or what is in it, yourself"
            raise UserError(text, where=f"namespace {NAMESPACE}", hint=hint)
        await delete(self._client, RIGHTS)
        await delete(self._client, NAMESPACE_PATH)
        await self._wait_until_gone(NAMESPACE_PATH)

    async def _wait_until_gone(self, path: str) -> None:
        async def check() -> str:
            return "it is not deleted" if await self._client.get_or_none(path) is not None else ""

        await wait_until(check, what=path.rpartition("/")[2], seconds=DELETE_TIMEOUT)


async def find_runner(client: KubernetesClient) -> str:
    """The public runner for the cluster's version; KubernetesError."""
    version = str((await client.call("GET", "/version"))["gitVersion"])
    return f"registry.k8s.io/conformance:{quote(version, safe='')}"


def make_pod(image: str, one: Pass) -> dict[str, Any]:
    """The pod of one pass; it runs everywhere, and beside it a container that keeps the results."""
    environment = {
        "E2E_FOCUS": one.focus,
        "E2E_SKIP": one.skip,
        "E2E_PROVIDER": "skeleton",
        "E2E_PARALLEL": str(one.parallel),
        "E2E_USE_GO_RUNNER": "true",
        "RESULTS_DIR": "/tmp/results",
    }
    mounts = [{"name": VOLUME, "mountPath": "/tmp/results"}]
    runner = {
        "name": RUNNER,
        "image": image,
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "volumeMounts": mounts,
    }
    holder = {"name": HOLDER, "image": PAUSE_IMAGE, "volumeMounts": mounts}
    spec: dict[str, Any] = {
        "containers": [runner, holder],
        "volumes": [{"name": VOLUME, "emptyDir": {}}],
        "restartPolicy": "Never",
        "serviceAccountName": ACCOUNT,
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD}, "spec": spec}


def find_state(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state of the runner; empty before the pod is on a node."""
    none: Mapping[str, Any] = {}
    statuses = pod.get("status", none).get("containerStatuses", ())
    return next((one["state"] for one in statuses if one["name"] == RUNNER), none)
