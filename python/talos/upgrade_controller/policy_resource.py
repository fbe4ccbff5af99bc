"""A policy as a resource of Kubernetes: what its spec means, and its status."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, override

from talos.config.problem import ConfigError
from talos.kubernetes.watch import Object
from talos.system.errors import UserError
from talos.upgrade.release.signature import parse_public
from talos.upgrade_controller.config import ClientAccess, Policy, Settings, check_policy, read_policy
from talos.upgrade_controller.manifests import GROUP
from talos.upgrade_controller.policy_source import GoneError, PolicySource
from talos.upgrade_controller.snapshots.config import SnapshotsSection, check_snapshots, find_place
from talos.upgrade_controller.status import as_object, read_texts

RETRY = f"{GROUP}/retry"
"""The annotation that has a release tried again, which was held back under another value of it."""


@dataclass(slots=True)
class ResourcePolicySource(PolicySource):
    """One policy as it was last seen, and the status that is to be written."""

    access: ClientAccess
    found: Object | None
    others: Callable[[], Iterable[Object]] = tuple
    """All policies of the namespace, this one too."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    written: dict[str, Any] = field(default_factory=dict[str, Any])

    @override
    def load(self) -> Settings:
        if self.found is None:
            raise GoneError("the policy has been deleted")
        settings = make_settings(as_object(self.found.get("spec")), self.access)
        if settings.policy.snapshots:
            _check_place(self.found, settings.policy.snapshots, self.others())
        return settings

    @override
    def read(self) -> dict[str, Any]:
        # What the API has may be older than what is being written.
        document = self.written or as_object((self.found or {}).get("status"))
        held = read_texts(document, "held")
        return {**document, "held": {}} if held.get("retry", "") != self._retry else document

    @override
    def write(self, document: dict[str, Any]) -> None:
        if self.found is not None:
            held = read_texts(document, "held")
            generation = self.found["metadata"].get("generation", 0)
            self.written = {
                **document,
                "held": {"retry": self._retry, **held} if held else {},
                "observedGeneration": generation,
            }
            self.changed.set()

    @property
    def _retry(self) -> str:
        """The annotation that a release was held back under: with another one it is tried again."""
        metadata = as_object((self.found or {}).get("metadata"))
        return str(as_object(metadata.get("annotations")).get(RETRY, ""))


def make_settings(spec: Mapping[str, Any], access: ClientAccess) -> Settings:
    """What a resource's spec means, but for the Secret that it names; UserError."""
    try:
        policy = read_policy(Policy, json.dumps(spec).encode(), source="spec")
    except ConfigError as error:
        # Places in the text are of no use to who has not seen it.
        reasons = [f"spec.{problem.path}: {problem.message}" for problem in error.problems]
        raise UserError("; ".join(reasons)) from None
    keys = policy.channel.keys if policy.channel else ()
    return Settings(
        policy=policy,
        windows=check_policy(policy, "spec."),
        keys=tuple(
            parse_public(text.encode(), where=f"spec.channel.keys[{index}]")
            for index, text in enumerate(keys)
        ),
        access=access,
        snapshots=check_snapshots(policy.snapshots, "spec.snapshots"),
    )


def _check_place(found: Object, snapshots: SnapshotsSection, others: Iterable[Object]) -> None:
    """Refuse the place of an older policy's snapshots: each would remove the other's as old ones."""
    for other in others:
        if _age(other) >= _age(found):
            continue
        try:
            policy = read_policy(Policy, json.dumps(as_object(other.get("spec"))).encode(), source="spec")
        except ConfigError:
            continue
        if policy.snapshots and find_place(policy.snapshots) == find_place(snapshots):
            text = f"the policy {other['metadata']['name']} has its snapshots there"
            raise UserError(text, where="spec.snapshots", hint="choose another prefix or folder")


def _age(found: Object) -> tuple[str, str]:
    """What sorts the older policy first."""
    metadata = found["metadata"]
    return str(metadata.get("creationTimestamp", "")), metadata["name"]
