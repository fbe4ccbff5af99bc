"""Policies as resources of Kubernetes: each is followed, and its status shows how far it is.

They are in the namespace of the controller's pod, which reads its Secrets, too. A policy that can't be used
has the reason in its status, as has one whose registry or nodes can't be reached.
"""

import asyncio
import threading
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from urllib.parse import quote

from talos.kubernetes.client import MERGE, KubernetesClient, KubernetesError
from talos.kubernetes.watch import Object, Watch, check_event, make_path
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.upgrade_controller.channel import ChannelRelease
from talos.upgrade_controller.config import ClientAccess, Settings
from talos.upgrade_controller.controller import Connect, UpgradeController, find_release
from talos.upgrade_controller.credentials import ANONYMOUS, Credentials, parse_credentials
from talos.upgrade_controller.manifests import GROUP, PLURAL, PROGRAM, VERSION
from talos.upgrade_controller.policy_resource import ResourcePolicySource
from talos.upgrade_controller.reports import SnapshotCounts, record_event
from talos.upgrade_controller.snapshots.config import Snapshots, load_key, open_destination
from talos.upgrade_controller.snapshots.destination import Destination
from talos.upgrade_controller.snapshots.schedule import Outcome
from talos.upgrade_controller.status import as_object, read_texts

RETRY_INTERVAL = 5.0
"""Seconds between two tries while the API of Kubernetes can't be reached."""
MAX_POLICIES = 64
DOCKER_CONFIG, ACCESS_KEY = ".dockerconfigjson", "credentials"
"""Keys within Secrets."""


@dataclass(slots=True, kw_only=True)
class Policies:
    """All policies of a namespace. ``client`` blocks, and is used by threads."""

    client: KubernetesClient
    namespace: str
    access: ClientAccess
    connect: Connect
    log: Log
    find_release: Callable[[Settings], ChannelRelease] = find_release
    _places: dict[str, ResourcePolicySource] = field(default_factory=dict[str, ResourcePolicySource])
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _counts: SnapshotCounts = field(default_factory=SnapshotCounts)

    @property
    def _collection(self) -> str:
        return f"/apis/{GROUP}/{VERSION}/namespaces/{quote(self.namespace)}/{PLURAL}"

    async def run(self) -> None:
        """Follow all policies until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:

            def handle(event: str, found: Object) -> None:
                loop.call_soon_threadsafe(self._handle, group, event, found)

            # A thread of its own, which ends with the program: it waits for minutes.
            threading.Thread(target=self._follow, args=(handle,), daemon=True).start()
            await loop.create_future()

    def _follow(self, handle: Callable[[str, Object], None]) -> None:
        pause = threading.Event()
        while True:
            try:
                self._follow_once(handle)
            except (KubernetesError, LookupError, TypeError) as error:
                self.log.once(f"the policies can't be read: {error}", key="policies")
                pause.wait(RETRY_INTERVAL)
            except RuntimeError:
                return  # the loop is closed

    def _follow_once(self, handle: Callable[[str, Object], None]) -> None:
        query = f"{self._collection}?limit={MAX_POLICIES}"
        listed = self.client.call_now("GET", query)
        self.log.forget("policies")
        handle("LISTED", listed)
        version = listed["metadata"]["resourceVersion"]
        while True:
            for event in Watch(self.client).read(make_path(f"{self._collection}?", version)):
                found = check_event(event)
                version = found["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    handle(event["type"], found)

    def _handle(self, group: asyncio.TaskGroup, event: str, found: Object) -> None:
        if event == "LISTED":
            names = {one["metadata"]["name"] for one in found["items"]}
            for name in self._places.keys() - names:
                self._forget(name)
            for one in found["items"]:
                self._note(group, one)
        elif event == "DELETED":
            self._forget(found["metadata"]["name"])
        else:
            self._note(group, found)

    def _forget(self, name: str) -> None:
        if place := self._places.pop(name, None):
            place.found = None  # what is under way is seen through
            place.changed.set()
            self._counts.forget(name)

    def _note(self, group: asyncio.TaskGroup, found: Object) -> None:
        name = found["metadata"]["name"]
        place = self._places.get(name)
        if place is not None:
            place.found = found
        elif len(self._places) >= MAX_POLICIES:
            self.log.once(f"{name}: there are more than {MAX_POLICIES} policies", key="many")
        else:
            place = self._places[name] = ResourcePolicySource(self.access, found, self._list)
            controller = UpgradeController(
                place=place,
                connect=self.connect,
                log=self.log.bind(policy=name),
                find_release=self._find_release,
                open_destination=self._open_destination,
                report_snapshot=lambda outcome: self._report(group, name, place, outcome),
                turn=self._turn,
            )
            group.create_task(controller.run())
            group.create_task(self._write(name, place))

    def _report(
        self, group: asyncio.TaskGroup, name: str, place: ResourcePolicySource, outcome: Outcome
    ) -> None:
        if place.found is not None:
            self._counts.add(name, outcome)
            group.create_task(self._record(name, place.found, outcome))

    async def _record(self, name: str, found: Object, outcome: Outcome) -> None:
        key = f"events of {name}"
        try:
            await record_event(self.client, found, outcome, datetime.now(UTC))
            self.log.forget(key)
        except KubernetesError as error:
            self.log.once(f"an event of {name} is not written: {error}", key=key)

    def format_metrics(self) -> str:
        """The snapshots of all policies, for Prometheus."""
        statuses = {name: read_texts(place.read(), "snapshot") for name, place in self._places.items()}
        return self._counts.format({name: status for name, status in statuses.items() if status})

    def _list(self) -> list[Object]:
        return [place.found for place in self._places.values() if place.found is not None]

    def _find_release(self, settings: Settings) -> ChannelRelease:
        """With the credentials of the Secret, read each time: they may be others by now."""
        channel = settings.policy.channel
        name = channel.credentials if channel else ""
        credentials = self._read_credentials(name) if name else ANONYMOUS
        return self.find_release(replace(settings, credentials=credentials))

    def _open_destination(self, snapshots: Snapshots) -> Destination:
        """With the key of the Secret, read each time as well."""
        where, hint = (
            f"{snapshots.where}.s3.credentials",
            "make it with kubectl create secret generic --from-file",
        )

        def read(name: str) -> bytes:
            return self._read_secret(name, ACCESS_KEY, where=where, hint=hint)

        return open_destination(load_key(snapshots, read))

    def _read_credentials(self, name: str) -> Credentials:
        where, hint = "spec.channel.credentials", "make it with kubectl create secret docker-registry"
        data = self._read_secret(name, DOCKER_CONFIG, where=where, hint=hint)
        return parse_credentials(data, where=f"{where}: Secret {name}")

    def _read_secret(self, name: str, key: str, *, where: str, hint: str) -> bytes:
        where = f"{where}: Secret {name}"
        path = f"/api/v1/namespaces/{quote(self.namespace)}/secrets/{quote(name, safe='')}"
        try:
            secret = self.client.call_now("GET", path)
            return b64decode(as_object(secret.get("data"))[key])
        except KubernetesError as error:
            raise UserError(str(error), where=where) from None
        except (KeyError, TypeError, ValueError):
            raise UserError(f"has no {key}", where=where, hint=hint) from None

    async def _write(self, name: str, place: ResourcePolicySource) -> None:
        """Write the status whenever it is another, the newest alone."""
        path = f"{self._collection}/{quote(name)}/status?fieldManager={PROGRAM}"
        while True:
            await place.changed.wait()
            place.changed.clear()
            if place.found is None:
                return
            # A patch with an empty object would leave what is there.
            status = {key: None if value == {} else value for key, value in place.written.items()}
            try:
                await self.client.call("PATCH", path, {"status": status}, kind=MERGE)
                self.log.forget(f"status of {name}")
            except KubernetesError as error:
                self.log.once(f"the status of {name} is not written: {error}", key=f"status of {name}")
                await asyncio.sleep(RETRY_INTERVAL)
                place.changed.set()
