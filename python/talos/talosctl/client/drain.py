"""Draining nodes from outside, before a reboot: their pods move elsewhere, and may come back afterwards."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import quote

from talos.api.rpc import RpcError, format_reason
from talos.api.specs import parse_spec
from talos.client.resources import get_resource
from talos.client.session import Session, open_session
from talos.client.target import Target
from talos.client.wait import wait_until
from talos.kubernetes.access import parse_kubeconfig
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.kubernetes.drain import drain, set_unschedulable
from talos.resource import ids
from talos.system.errors import UserError
from talos.talosctl.client.kubeconfig import fetch_kubeconfig
from talos.talosctl.output import console

REBOOT_TIMEOUT = 300.0
"""Seconds until the API server of a node that was rebooted answers again."""


async def connect_as_admin(session: Session) -> KubernetesClient:
    """With an administrator's kubeconfig of the endpoint, which is a control plane node."""
    return KubernetesClient(parse_kubeconfig(await fetch_kubeconfig(session, "")))


@dataclass(slots=True)
class Drainer:
    """Drains nodes, within ``seconds`` each, and uncordons those that it has cordoned.

    Unless it ``is_strict``, a node that could not be drained goes down all the same.
    """

    seconds: float
    is_strict: bool = True
    cordoned: dict[str, str] = field(default_factory=dict[str, str])
    """The name in Kubernetes of each node that was schedulable before."""

    connect: Callable[[Session], Awaitable[KubernetesClient]] = connect_as_admin

    async def drain(self, session: Session, node: str) -> None:
        """Cordon a node and evict its pods; UserError when some of them stay: then it is as it was."""
        try:
            await self._drain(session, node)
        except (RpcError, UserError) as error:
            if self.is_strict:
                raise
            text = f"{format_reason(error)}; it goes down all the same, and drains what is left"
            console.note(f"{node}: WARNING: {text}")

    @asynccontextmanager
    async def around(self, session: Session, node: str, *, uncordons: bool) -> AsyncGenerator[None]:
        """Drain a node, and perhaps uncordon it after what is done within has succeeded."""
        await self.drain(session, node)
        yield
        if uncordons:
            await self._await_ready(session, node)
            await self.uncordon(session, node)

    @asynccontextmanager
    async def around_boot(self, target: Target, node: str) -> AsyncGenerator[None]:
        """The same over connections of its own: an endpoint that goes down may be the node itself."""
        async with open_session(target) as session:
            await self.drain(session, node)
        yield
        async with open_session(target) as session:
            await self._await_ready(session, node)
            await self.uncordon(session, node)

    async def _drain(self, session: Session, node: str) -> None:
        kind, own = ids.NODENAME
        resource = await get_resource(session, node, kind.namespace, kind.type, own)
        name = parse_spec(kind.spec, resource).nodename
        try:
            client = await self.connect(session)
            found = await client.call("GET", f"/api/v1/nodes/{quote(name)}")
            if not found["spec"].get("unschedulable"):
                console.note(f"{name}: cordoning node")
                await set_unschedulable(client, name, unschedulable=True)
                self.cordoned[node] = name
                console.note(f"{name}: node cordoned")
            console.note(f"{name}: draining node")
            try:
                left = await drain(
                    client,
                    name,
                    sleep=asyncio.sleep,
                    now=time.monotonic,
                    seconds=self.seconds,
                    report=lambda line: console.note(f"{node}: {line}"),
                )
            except BaseException:  # an interrupt, too: the node does not reboot
                await self.uncordon(session, node)
                raise
        except KubernetesError as error:
            raise UserError(f"Kubernetes: {error}", where=f"node {name}") from None
        if left:
            await self.uncordon(session, node)
            text = f"is not drained within {self.seconds:g} s: {'; '.join(left)}"
            raise UserError(
                text,
                where=f"node {name}",
                hint="see its PodDisruptionBudgets, or leave out --drain and --strict-drain",
            )
        console.note(f"{name}: node drained")

    async def _await_ready(self, session: Session, node: str) -> None:
        """Until the kubelet reports it, or its time is over: a node may have no network to be ready with."""
        name = self.cordoned.get(node, "")
        if not name:
            return

        async def check() -> str:
            found = await (await self.connect(session)).call("GET", f"/api/v1/nodes/{quote(name)}")
            conditions = found["status"].get("conditions", ())
            is_ready = any((row["type"], row["status"]) == ("Ready", "True") for row in conditions)
            return "" if is_ready else "is not ready"

        console.note(f"{name}: waiting for node to become Ready")
        with suppress(UserError):
            await wait_until(check, what=f"node {name}", seconds=REBOOT_TIMEOUT)

    async def uncordon(self, session: Session, node: str) -> None:
        """Allow pods on a node again, as soon as an API server answers; UserError when none does."""
        name = self.cordoned.get(node, "")
        if not name:
            return

        async def uncordon() -> str:
            await set_unschedulable(await self.connect(session), name, unschedulable=False)
            return ""

        console.note(f"{name}: uncordoning node")
        await wait_until(uncordon, what=f"uncordoning node {name}", seconds=REBOOT_TIMEOUT)
        del self.cordoned[node]
        console.note(f"{name}: node uncordoned")

    def show_cordoned(self) -> None:
        """Name the nodes that are left cordoned: by an interrupt, a failure, or without ``--wait``."""
        for node, name in self.cordoned.items():
            console.note(f"{node}: is cordoned: kubectl uncordon {name}, when it is back")
