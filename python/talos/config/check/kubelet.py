"""Fields of the kubelet's configuration that it ignores."""

from collections.abc import Iterator

from talos.config.check.note import Note
from talos.config.documents.kubernetes.kubelet import KubeletConfig
from talos.config.kubelet_fields import KUBELET_FIELDS, VERSION
from talos.config.model import Config
from talos.config.read.reader import did_you_mean


def find_ignored(config: Config) -> Iterator[Note]:
    """Fields that the kubelet does not have. It logs that, and starts; another version may have them."""
    machine, document = config.machine, config.find(KubeletConfig)
    places = (
        (document.config if document else None, Note.at(document, "config")),
        (
            machine.kubelet.extra_config if machine and machine.kubelet else None,
            Note.at(config.main, "machine.kubelet.extraConfig"),
        ),
    )
    for fields, at in places:
        for name in fields or {}:
            if name not in KUBELET_FIELDS:
                message = f"no effect: a kubelet of Kubernetes {VERSION} has no such field"
                yield at.below(name).find(message, hint=did_you_mean(name, KUBELET_FIELDS))
