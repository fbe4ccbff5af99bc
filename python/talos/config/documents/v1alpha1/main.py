"""The main document, ``version: v1alpha1``."""

from dataclasses import dataclass

from talos.config.documents.v1alpha1.cluster import ClusterConfig
from talos.config.documents.v1alpha1.machine import MachineConfig
from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class V1Alpha1Config(Document):
    """The main document: the machine and its cluster."""

    version: str = setting("version of the config's form", default="")
    debug: bool | None = setting("the logs of all services on the console, too")
    persist: bool | None = setting("keep the config across reboots")
    machine: MachineConfig | None = setting("the machine itself")
    cluster: ClusterConfig | None = setting("the cluster the machine belongs to")
